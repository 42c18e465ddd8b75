"""The URL of a ledger in PostgreSQL: where it may be kept, and what is shown of it."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.ledger_url import has_bare_password, hide_credentials
from addon.settings.overview import find_file_warnings
from addon.settings.settings import load_settings
from addon.store.backends import find_ledger

PASSWORD = "obviously-fake-ledger"
URL = f"postgresql://gate:{PASSWORD}@db.internal:5433,db2.internal/tollgate?target_session_attrs=read-write"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def write(conf_file: Path, setting: str) -> None:
    edit(conf_file, "[billing]", f'[state]\nbackend = "redis"\n\n[ledger]\nurl = "{setting}"\n\n[billing]')


@pytest.mark.parametrize("setting", ["env:LEDGER_URL", "file:ledger.url", URL])
def test_a_url_is_read_and_never_shown(
    conf_file: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    (conf_file.parent / "ledger.url").write_text(f"{URL}\n")
    monkeypatch.setenv("LEDGER_URL", URL)
    write(conf_file, setting)
    settings = load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake", "LEDGER_URL": URL})
    place = find_ledger(settings.conf)
    assert place.name == "postgresql://db.internal:5433,db2.internal/tollgate"
    assert PASSWORD not in repr(settings)
    warnings = [one for one in find_file_warnings(settings) if one.kind == "ledger_password_bare"]
    assert [(one.file, one.key) for one in warnings] == [(conf_file, "ledger.url")] * (setting == URL)
    assert PASSWORD not in str(warnings)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("mysql://db.internal/tollgate", "must begin with postgresql://, or be env:NAME"),
        ("env:LEDGER_URL", "the environment variable that it names is not set"),
        ("file:missing.url", "the file that it names can't be read"),
    ],
)
def test_a_url_that_can_not_be_read_does_not_load(conf_file: Path, setting: str, reason: str) -> None:
    write(conf_file, setting)
    with pytest.raises(SettingsError, match=reason) as raised:
        load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake"})
    assert raised.value.key == "ledger.url"


def test_machines_that_share_a_ledger_share_rates(conf_file: Path) -> None:
    edit(conf_file, "[billing]", f'[ledger]\nurl = "{URL}"\n\n[billing]')
    with pytest.raises(SettingsError, match=r'ledger.url: needs \[state\] backend = "redis"'):
        load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake"})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/tollgate", "postgresql://db/tollgate"),
        ("postgresql:///tollgate?host=/run/postgresql", "postgresql:///tollgate"),
        (f"postgresql://u:{PASSWORD}@[::1]:5432/t?password={PASSWORD}", "postgresql://[::1]:5432/t"),
        (f"postgresql://u:pa/{PASSWORD}@db/t", "a PostgreSQL whose URL is not shown"),
        (f"postgresql://u:pa#{PASSWORD}@db/t", "a PostgreSQL whose URL is not shown"),
        (f"postgresql://u:pa?{PASSWORD}@db/t", "a PostgreSQL whose URL is not shown"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert hide_credentials(url) == shown


def test_a_password_may_be_in_the_query() -> None:
    assert has_bare_password(SecretStr(f"postgresql://db/t?password={PASSWORD}"))
    assert not has_bare_password(SecretStr("postgresql://user@db/t"))
    assert not has_bare_password("")

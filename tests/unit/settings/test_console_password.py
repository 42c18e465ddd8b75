"""The password of the console: where it comes from, what it must be, and that no error shows it."""

from pathlib import Path

import pytest
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.overview import find_file_warnings
from addon.settings.sealed_secrets import make_master_key
from addon.settings.settings import Settings, load_settings

PASSWORD = "obviously fake pass phrase"


def load(folder: Path, admin: str, **env: str) -> Settings:
    conf = write_files(folder)
    edit(conf, "[billing]", f"[admin]\n{admin}\n[billing]")
    return load_settings(conf, {"OPENAI_KEY": "sk-obviously-fake", **env})


def closed_reasons(settings: Settings) -> list[str]:
    return [one.reason for one in find_file_warnings(settings) if one.kind == "console_closed"]


def test_the_password_is_read_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text(f"{PASSWORD}\n")
    for settings in (
        load(tmp_path, 'console_password = "env:CONSOLE"', CONSOLE=PASSWORD),
        load(tmp_path, 'console_password = "file:phrase"'),
    ):
        assert settings.console_password
        assert settings.console_password.secret
        assert settings.console_password.secret.get_secret_value() == PASSWORD
        assert PASSWORD not in repr(settings.console_password)
        assert closed_reasons(settings) == []


def test_one_password_is_the_same_however_it_is_typed(tmp_path: Path) -> None:
    composed, parts = "caf\u00e9 caf\u00e9 caf\u00e9", "cafe\u0301 cafe\u0301 cafe\u0301"
    found = [
        load(tmp_path, 'console_password = "env:C"', C=one).console_password for one in (composed, parts)
    ]
    assert found[0] == found[1]


def test_machines_with_one_master_key_have_one_seed_of_sessions(tmp_path: Path) -> None:
    key, written = make_master_key(), 'console_password = "env:C"'
    (tmp_path / "master.key").write_text(key)
    (tmp_path / "master.key").chmod(0o600)
    places: tuple[dict[str, str], ...] = (
        {"TOLLGATE_SECRET_KEY": key},
        {"TOLLGATE_SECRET_KEY_FILE": str(tmp_path / "master.key")},
        {"TOLLGATE_SECRET_KEY": make_master_key()},
        {"TOLLGATE_SECRET_KEY": "no key"},
        {},
    )
    found = [load(tmp_path, written, C=PASSWORD, **one).console_password for one in places]
    variable, file, other, *none = [one.seed for one in found if one]
    assert variable == file != other
    assert (len(other or b""), none) == (32, [None, None])


def test_a_password_that_every_word_list_has_gets_a_warning(tmp_path: Path) -> None:
    for password, count in ((PASSWORD, 0), ("Password2026!", 1)):
        settings = load(tmp_path, 'console_password = "env:C"', C=password)
        found = [str(one) for one in find_file_warnings(settings) if one.kind == "console_password_common"]
        assert len(found) == count
        assert not [one for one in found if password in one]


@pytest.mark.parametrize("reference", ["env:CONSOLE", "file:none"])
def test_a_password_that_can_t_be_read_closes_the_console(tmp_path: Path, reference: str) -> None:
    settings = load(tmp_path, f'console_password = "{reference}"')
    assert settings.console_password
    assert settings.console_password.secret is None
    [reason] = closed_reasons(settings)
    assert reason.endswith(", so the console is closed")
    assert "none" not in reason


# [admin] host, whether a password is needed there
HOSTS = {
    "127.0.0.1": False,
    "127.8.9.1": False,
    "::1": False,
    "localhost": False,
    "LOCALHOST": False,
    "::ffff:127.0.0.1": False,
    "0.0.0.0": True,
    "::": True,
    "10.0.0.1": True,
    "localhost.example.com": True,
    "fe80::1%eth0": True,
    "127.1": True,
}


@pytest.mark.parametrize("host", HOSTS)
def test_an_address_that_others_reach_needs_a_password(tmp_path: Path, host: str) -> None:
    reasons = closed_reasons(load(tmp_path, f'host = "{host}"'))
    assert ["host is not loopback" in one for one in reasons] == [True] * HOSTS[host]
    both = load(tmp_path, f'host = "{host}"\nconsole_password = "env:C"', C=PASSWORD)
    assert closed_reasons(both) == []


# the section, the variable CONSOLE, the key, a part of the reason
WRONG = {
    "a bare password": (f'console_password = "{PASSWORD}"', "", "console_password", "a bare secret"),
    "too short": ('console_password = "env:CONSOLE"', "fake-short1", "console_password", "at least 12 char"),
    "too long": ('console_password = "env:CONSOLE"', "fake" * 257, "console_password", "at most 1024 char"),
    "two lines": ('console_password = "env:CONSOLE"', f"{PASSWORD}\nb", "console_password", "one line"),
    "a host with a port": ('console_hosts = ["a.example.com:81"]', "", "console_hosts[0]", "without a port"),
    "a host in upper case": ('console_hosts = ["A.example.com"]', "", "console_hosts[0]", "in lower case"),
    "a host twice": ('console_hosts = ["a", "a"]', "", "console_hosts", "twice"),
    "another word": ('edits = "yes"', "", "edits", 'true, false or "auto"'),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_without_showing_it(tmp_path: Path, case: str) -> None:
    section, password, key, reason = WRONG[case]
    with pytest.raises(SettingsError) as found:
        load(tmp_path, section, CONSOLE=password)
    assert found.value.key == f"admin.{key}"
    assert reason in found.value.reason
    assert "fake" not in str(found.value)

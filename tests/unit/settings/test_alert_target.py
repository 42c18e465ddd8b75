"""The receiver of alerts: where its URL and secret come from, and that no error shows them."""

from pathlib import Path

import pytest
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.overview import find_file_warnings
from addon.settings.settings import Settings, load_settings

URL, SECRET = "https://ops.example.com/hook?token=obviously-fake", "obviously-fake-secret"


def load(folder: Path, alerts: str, **env: str) -> Settings:
    conf = write_files(folder)
    edit(conf, "[billing]", f"[alerts]\n{alerts}\n[billing]")
    return load_settings(conf, {"OPENAI_KEY": "sk-obviously-fake", **env})


BOTH = 'webhook = "env:HOOK"\nsecret = "env:HOOK_SECRET"'


def test_the_url_and_the_secret_are_read_and_not_shown(tmp_path: Path) -> None:
    target = load(tmp_path, BOTH, HOOK=URL, HOOK_SECRET=SECRET).alert_target
    assert target
    assert target.url.get_secret_value() == URL
    assert target.secret
    assert target.secret.get_secret_value() == SECRET
    assert URL not in repr(target)
    assert SECRET not in repr(target)


def test_a_file_may_hold_the_url(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text(f"{URL}\n")
    target = load(tmp_path, 'webhook = "file:hook"').alert_target
    assert target
    assert (target.url.get_secret_value(), target.secret) == (URL, None)


@pytest.mark.parametrize(
    "env", [{}, {"HOOK": URL}, {"HOOK_SECRET": SECRET}, {"HOOK": URL, "HOOK_SECRET": ""}]
)
def test_an_unset_variable_is_a_warning_and_nothing_is_sent(tmp_path: Path, env: dict[str, str]) -> None:
    settings = load(tmp_path, BOTH, **env)
    assert settings.alert_target is None
    [warning] = [one for one in find_file_warnings(settings) if one.kind == "alerts_unset"]
    assert (warning.file, warning.key) == (tmp_path / "proxy.conf", "alerts")


def test_no_webhook_is_no_warning(tmp_path: Path) -> None:
    settings = load(tmp_path, 'webhook = ""')
    assert settings.alert_target is None
    assert "alerts_unset" not in {one.kind for one in find_file_warnings(settings)}


# the section, the variable HOOK, the key, a part of the reason
WRONG = {
    "a bare URL": (f'webhook = "{URL}"', "", "alerts.webhook", "a bare secret is not accepted"),
    "no URL": (
        'webhook = "env:HOOK"',
        "ops.example.com",
        "alerts.webhook",
        "must begin with https:// or http",
    ),
    "another scheme": ('webhook = "env:HOOK"', "ftp://x/obviously-fake", "alerts.webhook", "must begin with"),
    "no host": ('webhook = "env:HOOK"', "https:///obviously-fake", "alerts.webhook", "must name a host"),
    "two words": ('webhook = "env:HOOK"', "https://x/ obviously-fake", "alerts.webhook", "not one word"),
    "no such file": ('webhook = "file:none"', "", "alerts.webhook", "can't be read"),
    "only a secret": ('secret = "env:HOOK"', SECRET, "alerts.secret", "webhook is empty"),
    "an unknown key": ('webhok = "env:HOOK"', "", "alerts.webhok", 'did you mean "webhook"?'),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_without_showing_it(tmp_path: Path, case: str) -> None:
    section, hook, key, reason = WRONG[case]
    with pytest.raises(SettingsError) as found:
        load(tmp_path, section, HOOK=hook)
    assert found.value.key == key
    assert reason in found.value.reason
    assert "obviously-fake" not in str(found.value)

"""Shared settings load as one set. While they do not, the last good ones stay and workspaces are still read."""

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import ACME, CONF, FAMILIES, HASH_A, MODELS, PROVIDERS, replace

from addon.settings.errors import SettingsError


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS])
def test_broken_shared_settings_change_nothing_and_workspaces_can_be_edited(
    live: LiveSettings, name: str
) -> None:
    before = live.settings
    live.edit(PROVIDERS, "127.0.0.1:9999", "127.0.0.1:1111")
    live.write(name, live.text(name) + "[[[\n")
    live.edit(ACME, "active = true", "active = false")
    live.after(2)
    assert live.settings.providers is before.providers
    assert live.find_owner(HASH_A) is None
    [problem] = live.settings.problems
    assert (problem.file, problem.workspace) == (live.folder / name, None)
    live.write(name, live.text(name).removesuffix("[[[\n"))
    live.after(2)
    assert live.settings.providers["GROQ"].base_url == "http://127.0.0.1:1111"
    assert live.problems == ""


def test_a_gateway_does_not_start_with_broken_shared_settings(live: LiveSettings) -> None:
    live.write(MODELS, "[[[\n")
    with pytest.raises(SettingsError, match=r"models\.toml: is not TOML"):
        live.start()


def test_a_renewed_secret_takes_effect_even_if_it_was_missing(live: LiveSettings) -> None:
    live.edit(PROVIDERS, "env:GROQ_KEY", "file:../groq.secret")
    live.after(2)
    assert "GROQ.platform_key: the file that it names can't be read" in live.problems
    for text in ("gsk-fake-old", "gsk-fake-renewed"):
        replace(live.folder / "groq.secret", text)
        [key] = live.after(2).providers["GROQ"].platform_keys
        assert (key.get_secret_value(), live.problems) == (text, "")


def test_sections_that_need_a_restart_keep_their_values(live: LiveSettings) -> None:
    before = live.settings.conf
    live.edit(CONF, "port = 9000", "port = 9001")
    live.edit(CONF, "", '[paths]\nworkspaces = "nowhere"\n[limits]\npro_rpm = 7\n')
    settings = live.after(2)
    assert (settings.conf.listen, settings.conf.paths) == (before.listen, before.paths)
    assert (settings.conf.limits.pro_rpm, settings.written.listen.port) == (7, 9001)
    assert "acme" in settings.workspaces

"""Settings are frozen, absolute in their paths, and change their fingerprint with any text but a secret."""

from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from rig.python_calls import count_calls
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings

KEYS = {"OPENAI_KEY": "sk-obviously-fake"}


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def test_paths_are_absolute_and_relative_to_the_conf_file(
    conf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = load_settings(Path("proxy.conf"), {}).conf.paths
    assert paths.catalog == tmp_path / "catalog_data"
    assert paths.workspaces == tmp_path / "policies" / "workspaces"
    assert paths.database == tmp_path / "var" / "tollgate.db"


def test_absent_sections_and_keys_have_their_defaults(conf_file: Path) -> None:
    conf = load_settings(conf_file, {}).conf
    assert (conf.listen.port, conf.listen.host, conf.admin.port) == (9000, "127.0.0.1", 8081)
    assert conf.upstream.idle_timeout_s == 60
    assert conf.billing.markup_percent == Decimal(4)


def test_the_builtin_url_reaches_the_builtin_provider_and_its_models_only(conf_file: Path) -> None:
    before = load_settings(conf_file, KEYS)
    after = before.with_builtin_url("http://127.0.0.1:5/v1/", SecretStr("made-up"))
    for provider in (after.providers["SANDBOX"], after.models["sandbox-chat"].provider):
        assert provider.base_url == "http://127.0.0.1:5/v1"
        assert provider.platform_keys == (SecretStr("made-up"),)
    assert after.models["gpt-4o-mini"] == before.models["gpt-4o-mini"]
    assert before.providers["SANDBOX"].base_url == ""


def test_the_command_line_overrides_listen_under_the_same_checks(conf_file: Path) -> None:
    settings = load_settings(conf_file, KEYS)
    overridden = settings.with_listen(port=0, host=None)
    assert (overridden.conf.listen.port, overridden.conf.listen.host) == (0, "127.0.0.1")
    assert overridden.written.listen.port == 9000
    with pytest.raises(SettingsError, match="command line: workers: must be greater than or equal to 1"):
        settings.with_listen(workers=0)


def test_settings_are_frozen(conf_file: Path) -> None:
    settings = load_settings(conf_file, KEYS)
    with pytest.raises(FrozenInstanceError):
        settings.sandbox_enabled = True  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        settings.conf.listen.port = 1  # type: ignore[misc]
    for mapping in (settings.models, settings.keys, settings.families["reasoning"].clamps):
        with pytest.raises(TypeError):
            mapping["x"] = None  # type: ignore[index]


def test_equal_files_give_equal_settings_and_any_edit_changes_the_fingerprint(
    conf_file: Path, tmp_path: Path
) -> None:
    first, second = load_settings(conf_file, KEYS), load_settings(conf_file, KEYS)
    assert first == second
    edit(tmp_path / "policies/workspaces/beta.toml", "", "# a comment\n")
    assert load_settings(conf_file, KEYS).fingerprint != first.fingerprint


def test_equal_settings_are_compared_key_by_key(conf_file: Path) -> None:
    number = 100
    keys = [f'[[keys]]\nid = "k{n}"\nhash = "sha256:{n:064x}"\n' for n in range(number)]
    (conf_file.parent / "policies" / "workspaces" / "many.toml").write_text('name = "Many"\n' + "".join(keys))
    one, same = load_settings(conf_file, KEYS), load_settings(conf_file, KEYS)
    # Not all keys of the workspace for each of its keys: the event loop compares settings.
    assert count_calls(lambda: one == same) < number * 10
    assert one == same


def test_the_fingerprint_does_not_depend_on_secrets(conf_file: Path) -> None:
    assert load_settings(conf_file, {"OPENAI_KEY": "sk-fake-1"}).fingerprint == (
        load_settings(conf_file, {"OPENAI_KEY": "sk-fake-2"}).fingerprint
    )


def test_load_settings_refuses_a_broken_workspace_file(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / "policies/workspaces/acme.toml").write_text("broken")
    with pytest.raises(SettingsError, match=r"acme\.toml: is not TOML"):
        load_settings(conf_file, {})

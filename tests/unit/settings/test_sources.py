"""Files that can't be read are reported by their path; other files in a folder are not read."""

from pathlib import Path

import pytest
from rig.settings_files import ACME, CONF, FAMILIES, MODELS, PROVIDERS, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS])
def test_a_missing_file_is_reported(conf_file: Path, name: str) -> None:
    (conf_file.parent / name).unlink()
    with pytest.raises(SettingsError, match=f"{name}: no such file$"):
        load_settings(conf_file, {})


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS, ACME])
def test_a_file_that_is_not_utf8_is_reported_with_the_byte(conf_file: Path, name: str) -> None:
    file = conf_file.parent / name
    file.write_bytes(b"# caf\xe9\n" + file.read_bytes())
    with pytest.raises(SettingsError, match=f"{name}: is not UTF-8 at byte 5$"):
        load_settings(conf_file, {})


def test_a_folder_in_place_of_a_file_is_reported(conf_file: Path) -> None:
    (conf_file.parent / "policies/workspaces/folder.toml").mkdir()
    with pytest.raises(SettingsError, match=r"folder\.toml: is a directory$"):
        load_settings(conf_file, {})


@pytest.mark.parametrize(("key", "file"), [("workspaces", "no"), ("catalog", "no/families.toml")])
def test_a_missing_folder_is_reported(conf_file: Path, key: str, file: str) -> None:
    edit(conf_file, "", f'[paths]\n{key} = "no"\n')
    with pytest.raises(SettingsError, match="no such") as caught:
        load_settings(conf_file, {})
    assert caught.value.file == conf_file.parent / file


def test_hidden_files_in_the_workspaces_folder_are_not_read(conf_file: Path) -> None:
    (conf_file.parent / "policies/workspaces/.acme.toml").write_text("not TOML at all")
    assert list(load_settings(conf_file, {}).workspaces) == ["acme", "beta"]


def test_workspaces_may_be_in_the_folder_of_proxy_conf(conf_file: Path) -> None:
    with conf_file.open("a", encoding="utf-8") as file:
        file.write('[paths]\nworkspaces = "."\n')
    assert load_settings(conf_file, {}).workspaces == {}

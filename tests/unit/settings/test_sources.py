"""A changed file is read when it no longer changes, or after 1.5 s. Files that can't be read are reported by path."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rig.live_settings import LOOK_S, LiveSettings
from rig.settings_files import ACME, BETA, CONF, FAMILIES, HASH_A, MODELS, PROVIDERS, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.file_content import Stamp
from addon.settings.settings import SettingsFiles, load_settings
from addon.settings.sources import OVERDUE_S, is_due

NEW = "policies/workspaces/new.toml"
TWO_SECONDS = int(2 / LOOK_S)


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


def test_a_pipe_in_place_of_a_file_is_reported_and_not_waited_for(conf_file: Path) -> None:
    os.mkfifo(conf_file.parent / "policies/workspaces/pipe.toml")
    with pytest.raises(SettingsError, match=r"pipe\.toml: is a pipe, and not a file$"):
        load_settings(conf_file, {})


def test_a_pipe_in_place_of_proxy_conf_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "proxy.conf")
    with pytest.raises(SettingsError, match=r"proxy\.conf: is a pipe, and not a file$"):
        load_settings(tmp_path / "proxy.conf", {})


@pytest.mark.parametrize(
    ("key", "folder", "file"),
    [("workspaces", "no/folder", "no/folder"), ("catalog", "no", "no/families.toml")],
)
def test_a_missing_folder_is_reported(conf_file: Path, key: str, folder: str, file: str) -> None:
    edit(conf_file, "", f'[paths]\n{key} = "{folder}"\n')
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


# Changed files.


@pytest.mark.parametrize(
    ("before", "now", "changing_s", "due"),
    [
        ("read", "read", 0.0, False),
        ("read", "half", 0.5, False),
        ("half", "whole", 1.0, False),
        ("whole", "whole", 0.5, True),
        ("half", "read", 9.0, False),
        ("half", "whole", OVERDUE_S, True),
        ("whole", None, 0.5, False),
        (None, None, 1.0, True),
        ("whole", None, OVERDUE_S, False),
        ("read", "half", OVERDUE_S, False),
    ],
)
def test_a_changed_file_is_due_when_two_looks_agree_or_it_changed_for_too_long(
    before: str | None, now: str | None, changing_s: float, due: bool
) -> None:
    stamps: dict[str | None, Stamp] = {None: None, "read": (1, 9, 1), "half": (2, 0, 1), "whole": (3, 9, 1)}
    assert is_due(stamps["read"], stamps[before], stamps[now], changing_s) is due


@pytest.mark.parametrize(
    ("name", "old", "new", "takes_effect"),
    [
        (ACME, '"Acme"', '"Emca"', lambda live: live.acme.name == "Emca"),
        (MODELS, '"0.15"', '"0.25"', lambda live: "250000" in str(live.settings.models["gpt-4o-mini"])),
        (CONF, "", "[limits]\npro_rpm = 7\n", lambda live: live.settings.conf.limits.pro_rpm == 7),
    ],
)
def test_an_edit_takes_effect_at_the_second_look_but_not_during_the_write(
    live: LiveSettings, name: str, old: str, new: str, takes_effect: Callable[[LiveSettings], bool]
) -> None:
    whole = live.text(name)
    live.write(name, "")  # As an editor leaves it for a moment.
    live.after(1)
    assert live.problems == ""
    live.write(name, whole)
    live.edit(name, old, new)
    live.after(1)
    assert not takes_effect(live)
    live.after(1)
    assert takes_effect(live)
    assert live.problems == ""


def test_nothing_is_built_while_no_file_changes(live: LiveSettings) -> None:
    before = live.settings
    os.utime(live.folder / ACME)
    assert live.after(4) is before


def test_a_replaced_file_takes_effect_with_the_same_size_and_time(live: LiveSettings) -> None:
    file, other = live.folder / ACME, live.folder / "other"
    before = file.stat()
    other.write_text(file.read_text().replace('"Acme"', '"Emca"'))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)
    live.after(2)
    assert live.acme.name == "Emca"


def test_a_change_during_the_start_takes_effect(live: LiveSettings) -> None:
    live.files = SettingsFiles(live.folder / CONF, live.env)
    live.files.load()
    live.edit(ACME, '"Acme"', '"Early"')
    live.after(2)
    assert live.acme.name == "Early"


def test_a_key_is_revoked_within_two_seconds_while_other_files_are_written(live: LiveSettings) -> None:
    live.edit(ACME, "active = true", "active = false")
    for count in range(TWO_SECONDS):
        # A file that is saved every 0.3 s differs at each look.
        for name in (BETA, MODELS, CONF):
            live.write(name, live.text(name) + f"# {count}\n")
        live.after(1)
        if live.find_owner(HASH_A) is None:
            break
    assert (count, live.problems) == (1, "")


def test_a_file_that_changes_all_the_time_is_read_within_two_seconds(live: LiveSettings) -> None:
    live.edit(ACME, "active = true", "active = false")
    text = live.text(ACME)
    for count in range(TWO_SECONDS):
        live.write(ACME, f"{text}# {count}\n")
        live.after(1)
        if live.find_owner(HASH_A) is None:
            break
    # The edit may have come right after the previous look, so the time begins there.
    assert (count + 1) * LOOK_S == OVERDUE_S


def test_a_new_file_that_changes_all_the_time_is_read_within_two_seconds(live: LiveSettings) -> None:
    for count in range(TWO_SECONDS):
        live.write(NEW, f'name = "New"\n# {count}\n')
        live.after(1)
        if "new" in live.settings.workspaces:
            break
    assert (count + 1) * LOOK_S == OVERDUE_S


def test_a_changing_file_is_used_only_if_it_loads(live: LiveSettings) -> None:
    for count in range(10):
        live.write(ACME, f'name = "Acme\n# {count}\n')
        live.after(1)
        assert live.find_owner(HASH_A) == "acme"
    assert "acme.toml" in live.problems
    live.write(ACME, 'name = "Calm"\n')
    live.after(2)
    assert (live.acme.name, live.problems) == ("Calm", "")


def test_a_changing_catalog_that_does_not_load_delays_no_other_file_of_the_set(live: LiveSettings) -> None:
    whole = live.text(MODELS)
    live.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    for count in range(8):
        # It is always TOML, but names a provider that does not exist.
        live.write(MODELS, whole.replace('"GROQ"', f'"GROQ{count}"'))
        live.after(1)
    assert live.settings.conf.limits.pro_rpm == 7
    assert "openai/gpt-oss-20b" in live.settings.models
    assert "models.toml: " in live.problems
    live.write(MODELS, whole.replace('"0.15"', '"0.25"'))
    live.after(2)
    assert (live.settings.models["gpt-4o-mini"].wholesale.input_microusd_per_mtok, live.problems) == (
        250_000,
        "",
    )

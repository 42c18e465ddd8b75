"""What a machine says of its files, and which differences last."""

import json
from pathlib import Path

import pytest
from rig.settings_files import ACME, CONF, MODELS, edit, write_files

from addon.fleet.machines import Differences, Machine, describe_machine
from addon.settings.settings import SettingsFiles

ENV = {"OPENAI_KEY": "sk-obviously-fake", "GROQ_KEY": "sk-obviously-fake"}


def describe(folder: Path) -> Machine:
    files = SettingsFiles(folder / CONF, ENV)
    settings = files.load()
    return describe_machine(settings, files.built_from(), files.texts, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def test_a_machine_names_its_files_and_has_no_secret(folder: Path) -> None:
    made = describe(folder)
    assert made.name.endswith(f":{folder}")
    assert made.calls == 3
    assert {"proxy.conf [billing]", "catalog_data/models.toml", "acme.toml", "beta.toml"} <= made.files.keys()
    assert "proxy.conf [listen]" not in made.files
    assert {len(one) for one in made.files.values()} == {16}
    assert sorted(made.hashes) == ["acme", "beta"]
    assert "sk-obviously-fake" not in json.dumps(dict(made.files))


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (CONF, "port = 9000", "port = 9001", set()),
        (CONF, 'percent = "4"', 'percent = "5"', {"proxy.conf [billing]"}),
        (MODELS, '"0.15"', '"0.16"', {"catalog_data/models.toml"}),
        (ACME, "Acme", "Other", {"acme.toml"}),
    ],
    ids=["its port", "the markup", "a price", "a workspace"],
)
def test_what_machines_must_have_alike(
    folder: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    before = describe(folder).files
    edit(folder / file, old, new)
    after = describe(folder).files
    assert {name for name in before if after[name] != before[name]} == changed


def test_a_difference_is_reported_once_it_lasts() -> None:
    now_s = [0.0]
    differences = Differences(lambda: now_s[0])
    files = {"a": json.dumps({"x": "1"}), "b": json.dumps({"x": "1"}), "c": json.dumps({"x": "2"})}
    differences.note(files)
    assert not differences.find_lasting()
    now_s[0] = 61.0
    differences.note(files)
    [found] = differences.find_lasting()
    assert (found[0], found[1]) == ("c", "x")
    differences.note(files | {"c": json.dumps({"x": "1"})})
    assert not differences.find_lasting()

"""Changes between two sets of files: named by file and key, and never with a value."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from rig.settings_files import ACME, BETA, CONF, MODELS, SECRET, edit, write_files

from addon.settings.changes import MAX_NAMED, describe_changes, find_changed_keys
from addon.settings.settings import SettingsFiles

RULES = """
[[rules]]
keywords = ["sql"]
model = "a"
[[rules]]
keywords = ["vip"]
model = "b"
"""
KEYS = """
[[keys]]
id = "ci"
request_cap = 1
[[keys]]
id = "laptop"
"""

CASES = {
    "nothing": ("a = 1", "a = 1", []),
    "only layout": ("a = 1 # one", "a = 1", []),
    "a value, a new and a lost key": ("a = 1\nb = 2", "a = 2\nc = 3", ["a", "b removed", "c added"]),
    "another type": ("a = 1", "a = true", ["a"]),
    "a table": ('["gpt-4.1"]\nprice = "1"', '["gpt-4.1"]\nprice = "2"', ['"gpt-4.1".price']),
    "a new table": ("", "[new]\na = 1", ["new added"]),
    "a list of values": ("a = [1]", "a = [2]", ["a"]),
    "a key of a key": (KEYS, KEYS.replace("= 1", "= 2"), ["keys[ci].request_cap"]),
    "a new key": (KEYS, KEYS + '[[keys]]\nid = "new"', ["keys[new] added"]),
    "a lost key": (KEYS, KEYS.partition('[[keys]]\nid = "laptop')[0], ["keys[laptop] removed"]),
    "the order of keys": (KEYS, '[[keys]]\nid = "laptop"\n[[keys]]\nid = "ci"\nrequest_cap = 1', []),
    "all keys": (KEYS, "", ["keys removed"]),
    "a changed rule": (RULES, RULES.replace('"b"', '"c"'), ["rules[1].model"]),
    "a rule before others": (RULES, '[[rules]]\nkeywords = ["x"]\nmodel = "c"' + RULES, ["rules[0] added"]),
    "a lost rule": (RULES, '[[rules]]\nkeywords = ["vip"]\nmodel = "b"', ["rules[0] removed"]),
}


@pytest.mark.parametrize(("before", "after", "keys"), CASES.values(), ids=CASES)
def test_changed_keys_are_named(before: str, after: str, keys: list[str]) -> None:
    assert list(find_changed_keys(tomllib.loads(before), tomllib.loads(after))) == keys


@pytest.fixture
def changes(tmp_path: Path) -> Callable[[], str]:
    """A function that returns the changes of the files since they were written."""
    conf_file = write_files(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    edit(tmp_path / ACME, "", f'[byok.OPENAI]\nsecret = "file:{secret}"\n')
    first = SettingsFiles(conf_file, {})
    first.load()

    def describe() -> str:
        files = SettingsFiles(conf_file, {})
        files.load()
        return describe_changes(first.built_from(), files.built_from(), files.texts | first.texts)

    return describe


def test_files_are_named_with_their_keys(tmp_path: Path, changes: Callable[[], str]) -> None:
    assert changes() == ""
    edit(tmp_path / CONF, "port = 9000", "port = 9001")
    edit(tmp_path / MODELS, '"0.15"', '"0.16"')
    edit(tmp_path / ACME, 'plan = "pro"', 'plan = "standard"\nrpm_override = 7')
    (tmp_path / BETA).rename(tmp_path / "policies/workspaces/gamma.toml")
    assert changes() == (
        "models.toml: gpt-4o-mini.input_price_per_m; acme.toml: plan, rpm_override added; beta.toml removed; "
        "gamma.toml added; proxy.conf: listen.port"
    )


def test_layout_and_secrets_are_said_without_names_and_values(
    tmp_path: Path, changes: Callable[[], str]
) -> None:
    edit(tmp_path / ACME, "# made in May", "# made in June")
    (tmp_path / "secret").write_text(SECRET[::-1])
    assert changes() == "acme.toml: only its layout; secret files"


def test_the_line_is_bounded(tmp_path: Path, changes: Callable[[], str]) -> None:
    for number in range(MAX_NAMED + 5):
        (tmp_path / f"policies/workspaces/w{number:02}.toml").write_text('name = "W"\n')
    assert changes().endswith("; w19.toml added; 5 more")

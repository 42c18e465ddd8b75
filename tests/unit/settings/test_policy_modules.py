"""Operators' policy modules: which files load, the errors of the others, and how policies reach a worker."""

import re
import sys
from pathlib import Path

import pytest
from rig.configuration import ROOT
from rig.live_settings import LiveSettings
from rig.reviewed import reviewed
from rig.settings_files import SECRET, edit, replace, write_files

from addon.settings.errors import SettingsError
from addon.settings.policy_modules import OWN_MODULES, compile_policy
from addon.settings.sealed_secrets import make_master_key
from addon.settings.settings import Settings, SettingsFiles, load_settings
from addon.settings.snapshot import Snapshot, SnapshotSettings
from policies.refusal import Refusal
from policies.review import Narrowing, review

FILE = Path("/etc/tollgate/policies/mine.py")
GOOD = """\
from policies.review import Narrowing

CAPS = {"ci": 7}

def review(call):
    return Narrowing(max_completion_tokens=CAPS[call.key_id])
"""


def write_policy(folder: Path, name: str, source: str) -> Path:
    """Write a policy module atomically in the folder of proxy.conf."""
    file = folder / "policies" / f"{name}.py"
    replace(file, source)
    return file


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    """A good set of files with one policy."""
    conf_file = write_files(tmp_path)
    edit(conf_file, "", '[policies]\nextra = ["mine"]\n')
    write_policy(tmp_path, "mine", GOOD)
    return conf_file


def completion_cap(settings: Settings) -> int | None:
    return review(reviewed(), settings.policies)


def test_a_listed_module_is_a_policy(conf_file: Path) -> None:
    settings = load_settings(conf_file)
    assert [policy.name for policy in settings.policies] == ["mine"]
    assert completion_cap(settings) == 7


def test_without_a_list_there_is_no_policy_and_no_file_is_read(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    write_policy(tmp_path, "mine", "this is no Python")
    assert load_settings(conf_file).policies == ()


def test_policies_are_in_the_order_of_the_list(conf_file: Path) -> None:
    write_policy(conf_file.parent, "another", GOOD)
    edit(conf_file, '["mine"]', '["mine", "another"]')
    assert [policy.name for policy in load_settings(conf_file).policies] == ["mine", "another"]
    edit(conf_file, '["mine", "another"]', '["another", "mine"]')
    assert [policy.name for policy in load_settings(conf_file).policies] == ["another", "mine"]


NAMES = {
    "a file": ("x.py", "must be the name of a file in policies/"),
    "a path": ("../x", "must be the name of a file in policies/"),
    "a folder": ("workspaces/x", "must be the name of a file in policies/"),
    "nothing": ("", "must be the name of a file in policies/"),
    "a number": ("1x", "must be the name of a file in policies/"),
    "a foreign letter": ("größe", "must be the name of a file in policies/"),
    "two lines": ("x\\ny", "must be the name of a file in policies/"),
    "too long": ("x" * 65, "at most 64"),
    "one of the gateway's own": ("routing", '"routing" is one of the gateway\'s own modules'),
    "the module that operators import": ("review", '"review" is one of the gateway\'s own modules'),
    "a missing file": ("missing", "policies/missing.py: no such file"),
}


@pytest.mark.parametrize(("name", "reason"), NAMES.values(), ids=NAMES)
def test_a_wrong_name_is_refused_with_its_key(conf_file: Path, name: str, reason: str) -> None:
    edit(conf_file, '["mine"]', f'["mine", "{name}"]')
    with pytest.raises(SettingsError) as found:
        load_settings(conf_file)
    assert (found.value.file.name, found.value.key) == ("proxy.conf", "policies.extra[1]")
    assert reason in found.value.reason


def test_a_name_that_is_listed_twice_is_refused(conf_file: Path) -> None:
    edit(conf_file, '["mine"]', '["mine", "other", "mine"]')
    with pytest.raises(SettingsError, match=r'policies\.extra: names "mine" twice'):
        load_settings(conf_file)


def test_operators_may_use_no_name_of_a_module_of_the_core() -> None:
    assert {file.stem for file in (ROOT / "policies").glob("*.py")} - {"__init__"} == OWN_MODULES


# the source of the module, the reason
BROKEN = {
    "source that is not Python": ("def review(call:\n    pass\n", "line 1: is not Python: "),
    "an unfinished text": ("\n\nx = 'abc\n", "line 3: is not Python: unterminated string literal"),
    "source that is not UTF-8": ("# -*- coding: utf-8 -*-\nx = '\udcff'\n", "is not Python: "),
    "a null": ("x = 1\0\n", "is not Python"),
    "too deep": ("x = " + "(" * 300 + ")" * 300, "is not Python"),
    "nothing": ("", "has no function review(call)"),
    "another name": ("def reviews(call): ...\n", "has no function review(call)"),
    "no function": ("review = 5\n", "has no function review(call)"),
    "a class": ("class review:\n    def __init__(self, call): ...\n", "has no function review(call)"),
    "a builtin": ("review = len\n", "has no function review(call)"),
    "no argument": ("\ndef review(): ...\n", "line 2: review must take exactly one argument, the call"),
    "two arguments": ("def review(call, key): ...\n", "line 1: review must take exactly one argument"),
    "a second one with a default": ("def review(call, n=1): ...\n", "line 1: review must take exactly one"),
    "a keyword argument": ("def review(*, call): ...\n", "line 1: review must take exactly one argument"),
    "a second keyword argument": ("def review(call, *, n=1): ...\n", "line 1: review must take exactly one"),
    "any number of arguments": ("def review(*calls): ...\n", "line 1: review must take exactly one argument"),
    "any keyword arguments": (
        "def review(call, **more): ...\n",
        "line 1: review must take exactly one argument",
    ),
    "async": ("async def review(call): ...\n", "line 1: review must be a plain function, not async"),
    "a generator": ("def review(call):\n    yield\n", "line 1: review must be a plain function"),
    "an async generator": ("async def review(call):\n    yield\n", "line 1: review must be a plain function"),
    "an exception": (
        f"def f():\n    raise KeyError('{SECRET}')\nf()\n",
        "line 2: raises KeyError when it is loaded",
    ),
    "an exception elsewhere": (
        "import json\njson.loads('x')\n",
        "line 2: raises JSONDecodeError when it is loaded",
    ),
    "a missing import": ("\nimport no_such_module\n", "line 2: raises ModuleNotFoundError when it is"),
    "a sibling": ("from policies.other import x\n", "line 1: raises ModuleNotFoundError when it is loaded"),
    "exit()": (f"import sys\nsys.exit('{SECRET}')\n", "line 2: raises SystemExit when it is loaded"),
    "an interrupt": ("raise KeyboardInterrupt\n", "line 1: raises KeyboardInterrupt when it is loaded"),
    "a cancellation": (
        "import asyncio\nraise asyncio.CancelledError\n",
        "line 2: raises CancelledError when",
    ),
    "endless recursion": ("def f(): f()\nf()\n", "line 1: raises RecursionError when it is loaded"),
}


@pytest.mark.parametrize(("source", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_module_without_a_usable_review_does_not_load(source: str, reason: str) -> None:
    with pytest.raises(SettingsError) as found:
        compile_policy("mine", source.encode(errors="surrogateescape"), FILE)
    assert str(found.value).startswith(f"{FILE}: ")
    assert reason in found.value.reason
    assert "\n" not in str(found.value)
    assert SECRET not in str(found.value)
    assert "operators_policies.mine" not in sys.modules


def test_the_shared_settings_do_not_load_with_a_broken_module(conf_file: Path) -> None:
    file = write_policy(conf_file.parent, "mine", "def review(): ...\n")
    with pytest.raises(SettingsError, match=re.escape(f"{file}: line 1: review must take exactly one")):
        load_settings(conf_file)


def test_a_module_has_its_own_namespace_and_does_not_change_the_gateways_modules() -> None:
    first = compile_policy("first", b"x = 1\ndef review(call): return globals()['x']\n", FILE)
    second = compile_policy("second", b"x = 2\ndef review(call): return globals()['x']\n", FILE)
    assert [policy.function(reviewed()) for policy in (first, second)] == [1, 2]
    assert sys.modules["policies.refusal"].__dict__["Refusal"] is Refusal
    assert not [name for name in sys.modules if name.startswith("operators_policies")]


def test_a_module_may_define_data_classes() -> None:
    source = b"""\
from __future__ import annotations
from dataclasses import dataclass
from policies.review import Narrowing, ReviewedCall

@dataclass(frozen=True)
class Rule:
    key: str
    tokens: int

RULES = [Rule("ci", 5)]

def review(call: ReviewedCall) -> Narrowing | None:
    found = [rule.tokens for rule in RULES if rule.key == call.key_id]
    return Narrowing(max_completion_tokens=found[0]) if found else None
"""
    made = compile_policy("mine", source, FILE)
    assert review(reviewed(), [made]) == 5
    assert review(reviewed(key_id="other"), [made]) is None


def worker_of(conf_file: Path) -> tuple[Settings, SnapshotSettings]:
    """The settings of a supervisor, and those of its worker."""
    files, snapshot, key = SettingsFiles(conf_file), conf_file.with_name("snapshot"), make_master_key()
    settings = files.load()
    conf = files.built_from().shared_files[conf_file]
    Snapshot.of(settings, files.built_from(), conf).write(snapshot, key)
    return settings, SnapshotSettings(snapshot, key, {})


def test_a_policy_reaches_a_worker_as_its_source_and_is_compiled_there(conf_file: Path) -> None:
    settings, worker = worker_of(conf_file)
    write_policy(conf_file.parent, "mine", "this is no Python")
    received = worker.load()
    assert received == settings
    (before,), (after,) = settings.policies, received.policies
    assert after.function is not before.function
    assert after.function(reviewed()) == Narrowing(max_completion_tokens=7)


def test_a_policy_that_only_the_supervisor_can_load_is_an_error_in_a_worker(
    conf_file: Path,
) -> None:
    source = "import sys\nif hasattr(sys, 'tried_once'): raise RuntimeError\ndef review(call): ...\n"
    write_policy(conf_file.parent, "mine", source)
    _, worker = worker_of(conf_file)
    sys.tried_once = True  # type: ignore[attr-defined]
    try:
        with pytest.raises(SettingsError, match="line 2: raises RuntimeError when it is loaded"):
            worker.load()
    finally:
        del sys.tried_once  # type: ignore[attr-defined]


def test_the_same_source_is_the_same_policy(conf_file: Path) -> None:
    before = load_settings(conf_file)
    assert load_settings(conf_file) == before
    write_policy(conf_file.parent, "mine", GOOD.replace("7", "8"))
    after = load_settings(conf_file)
    assert after.policies != before.policies
    assert after.fingerprint != before.fingerprint
    assert (completion_cap(before), completion_cap(after)) == (7, 8)


def test_an_edit_takes_effect_and_a_broken_one_keeps_the_last_good_module(live: LiveSettings) -> None:
    file = write_policy(live.folder, "mine", GOOD)
    live.edit("proxy.conf", "", '[policies]\nextra = ["mine"]\n')
    assert completion_cap(live.after(2)) == 7
    replace(file, GOOD.replace("7", "8"))
    assert completion_cap(live.after(2)) == 8
    for broken, reason in (
        ("exit()\n", "raises SystemExit"),
        ("raise KeyboardInterrupt\n", "raises KeyboardInterrupt"),
        ("def review(): ...\n", "exactly one argument"),
    ):
        replace(file, broken)
        assert completion_cap(live.after(2)) == 8
        assert live.problems.startswith(f"{file}: line 1: ")
        assert reason in live.problems
    file.unlink()
    assert completion_cap(live.after(2)) == 8
    assert f"policies.extra[0]: {file}: no such file" in live.problems
    replace(file, GOOD.replace("7", "9"))
    assert (completion_cap(live.after(2)), live.problems) == (9, "")

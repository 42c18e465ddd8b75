"""Whether the console may change files: one reason for each case."""

import os
from pathlib import Path

import pytest
from rig.settings_files import edit, write_files

from addon.console.access.edits_allowed import find_edit_obstacle, find_unwritable
from addon.settings.conf_schema import COPIES_FOLDER
from addon.settings.settings import load_settings

PASSWORD = 'console_password = "env:CONSOLE"'
FLEET = '[state]\nbackend = "redis"\n[ledger]\nurl = "postgresql://127.0.0.1/tollgate"'

# the section [admin], [state], the variable CONSOLE, whether the folder can be written, a part of the reason
CASES: dict[str, tuple[str, str, str, bool, str | None]] = {
    "with a password": (PASSWORD, "", "a long pass phrase", True, None),
    "without a password": ("", "", "", True, "need a password: set [admin] console_password"),
    "with a password that is not set": (PASSWORD, "", "", True, "variable that it names is not set"),
    "edits = true without a password": ("edits = true", "", "", True, "need a password"),
    "edits = false": (f"{PASSWORD}\nedits = false", "", "a long pass phrase", True, "edits is false"),
    "a fleet": (PASSWORD, FLEET, "a long pass phrase", True, "each machine has its own files"),
    "a fleet, edits = true": (f"{PASSWORD}\nedits = true", FLEET, "a long pass phrase", True, None),
    "a fleet with its files in the ledger": (
        PASSWORD,
        f'{FLEET}\n[paths]\nworkspaces = "ledger"',
        "a long pass phrase",
        True,
        None,
    ),
    "a folder for reading": (PASSWORD, "", "a long pass phrase", False, "can't write "),
    "such a folder, edits = true": (f"{PASSWORD}\nedits = true", "", "a long pass phrase", False, None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reason_why_the_console_may_not_change_files(tmp_path: Path, case: str) -> None:
    admin, state, password, is_writable, reason = CASES[case]
    conf = write_files(tmp_path)
    edit(conf, "[billing]", f"[admin]\n{admin}\n{state}\n[billing]")
    (tmp_path / "var" / COPIES_FOLDER).mkdir(parents=True)
    settings = load_settings(conf, {"OPENAI_KEY": "sk-obviously-fake", "CONSOLE": password})
    found = find_edit_obstacle(settings, None if is_writable else tmp_path)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found
        assert "\n" not in found


def test_a_path_that_does_not_exist_can_still_be_made(tmp_path: Path) -> None:
    assert find_unwritable(tmp_path, tmp_path / "none") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everything")
def test_a_path_that_can_t_be_written_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert find_unwritable(tmp_path) == tmp_path

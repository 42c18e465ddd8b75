"""``tollgate completion``: each script in its own shell, against the command line of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rig.configuration import ROOT, environment
from rig.large import large_only

from addon.cli import main
from addon.commands import completion
from addon.settings.value_types import SHIPPED_CATALOG

PROGRAM = SHIPPED_CATALOG.with_name("run.sh")
_IN_BASH = """
source "$0"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tollgate_completion "$1"; }
complete_words "$@"
printf '%s\\n' "${COMPREPLY[@]}"
complete -p run.sh tollgate | wc -l
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose name needs quotes, with the program: a stand-in for run.sh, which makes no environment."""
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    program = folder / "run.sh"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m addon.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(completion, "SHIPPED_CATALOG", folder / "catalog_data")
    return folder


def script(folder: Path, shell: str) -> Path:
    made = CliRunner().invoke(main, ["completion", shell])
    assert made.exit_code == 0, made.output
    file = folder.parent / f"completion.{shell}"
    file.write_text(made.output)
    return file


def run(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    ran = subprocess.run(command, env=environment({}), capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.stdout.split("\n")


@large_only
def test_bash_completes_commands_and_only_the_run_sh_of_this_program(folder: Path) -> None:
    file = str(script(folder, "bash"))
    assert run("bash", "-c", _IN_BASH, file, "tollgate", "wal") == ["wallet", "2", ""]
    options = run("bash", "-c", _IN_BASH, file, str(folder / "run.sh"), "usage", "--work")
    assert options == ["--workspace", "2", ""]
    names = run("bash", "-c", _IN_BASH, file, "tollgate", "usage", "--by", "key,da")
    assert names == ["key,day", "2", ""]
    assert run("bash", "-c", _IN_BASH, file, "/elsewhere/run.sh", "wal") == ["", "2", ""]


def test_fish_completes_commands(folder: Path) -> None:
    file = script(folder, "fish")
    [found, _] = run("fish", "--no-config", "-c", f"source '{file}'; complete -C 'tollgate wal'")
    assert found.startswith("wallet\t")


def test_zsh_accepts_the_script(folder: Path) -> None:
    """Completion needs a terminal there, so only the syntax is checked."""
    assert run("zsh", "-f", "-n", str(script(folder, "zsh"))) == [""]


def test_the_program_is_the_run_sh_of_the_checkout() -> None:
    assert PROGRAM == ROOT / "run.sh"
    assert f"program={PROGRAM}" in CliRunner().invoke(main, ["completion", "bash"]).output

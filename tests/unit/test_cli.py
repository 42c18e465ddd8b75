"""The whole command line. Each command has its own tests."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import click
from click.testing import CliRunner
from rig.configuration import ROOT, environment
from rig.large import large_only

from addon.cli import COMMANDS, main
from addon.settings.api_keys import make_key


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shown = CliRunner().invoke(main, ["--version"])
    assert shown.output == f"tollgate, version {project['version']}\n"


def test_help_shows_the_name_of_the_program() -> None:
    for words in (["--help"], ["keys", "create", "--help"]):
        shown = subprocess.check_output([sys.executable, "-m", "addon.cli", *words], cwd=ROOT, text=True)
        assert shown.startswith("Usage: tollgate ")


def test_a_key_in_place_of_a_name_is_not_shown() -> None:
    for words in (["wallet"], ["wallet", "credit", "acme"], []):
        shown = CliRunner().invoke(main, [*words, key := make_key()])
        assert (shown.exit_code, key in shown.output) == (2, False)
        assert "***" in shown.output


def test_help_and_completion_name_all_commands_and_import_none_of_them() -> None:
    for variables, words in ({}, ["--help"]), ({"COMP_WORDS": "tollgate ", "COMP_CWORD": "1"}, []):
        variables |= {"_TOLLGATE_COMPLETE": "zsh_complete"} if variables else {}
        code = (
            "import sys, atexit; from addon.cli import COMMANDS, main\n"
            "atexit.register(lambda: print(*(name for name in sys.modules if 'addon.commands' in name)))\n"
            f"main({words}, prog_name='tollgate')"
        )
        shown = subprocess.check_output(
            [sys.executable, "-c", code], cwd=ROOT, text=True, env=os.environ | variables
        )
        assert {*COMMANDS} <= {*shown.split()}
        assert "addon.commands" not in shown


def test_the_list_of_commands_has_whole_lines() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    assert all(f" {place.summary}\n" in shown for place in COMMANDS.values())


def test_each_command_is_found() -> None:
    context = click.Context(main)
    assert {name: main.get_command(context, name).name for name in COMMANDS} == {
        name: name for name in COMMANDS
    }


def test_errors_show_control_characters_escaped(tmp_path: Path) -> None:
    """With ``color`` the output is that of a terminal, which would follow an escape sequence."""
    conf = tmp_path / "proxy.conf"
    conf.write_text('"\\u001b[31mred" = 1', encoding="utf-8")
    for words in (["keys", "list"], ["check"], ["serve"]):
        shown = CliRunner().invoke(main, [*words, "--conf", str(conf)], color=True)
        assert (shown.exit_code, "\x1b" in shown.output) == (1, False), shown.output
        assert r"\x1b[31mred" in shown.output
    shown = CliRunner().invoke(main, ["\x1b[31mred"], color=True)
    assert (shown.exit_code, "\x1b" in shown.output) == (2, False)


def test_a_command_is_imported_without_garbage_collection() -> None:
    code = (
        "import gc, click; from addon.cli import main\n"
        "found = []\n"
        "gc.callbacks.append(lambda phase, _: found.append(phase))\n"
        "main.get_command(click.Context(main), 'serve')\n"
        "print(found, gc.isenabled())"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert shown == "[] True\n"


def test_a_wrong_name_of_a_command_suggests_the_right_one() -> None:
    shown = CliRunner().invoke(main, ["key"])
    assert (shown.exit_code, shown.stderr.splitlines()[-1]) == (
        2,
        "Error: No such command 'key'. Did you mean 'keys'?",
    )


@large_only
def test_an_output_on_a_full_disk_is_one_line() -> None:
    for words in (["--version"], ["completion", "bash"], ["check", "--conf", "nope"]):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "addon.cli", *words],
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert (ended.returncode, ended.stderr) == (1, "Error: standard output: No space left on device\n")


@large_only
def test_a_deleted_current_folder_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    script = 'mkdir -p "$0"; cd "$0"; rmdir "$0"; exec "$@"'
    for words in ("-m addon.cli check", "-m addon.cli keys list", "-m addon.cli serve"):
        ended = subprocess.run(
            ["/bin/sh", "-c", script, str(folder), sys.executable, *words.split()],
            env=environment({"PYTHONPATH": str(ROOT)}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert ended.stderr.endswith(": the current folder does not exist any more\n"), ended.stderr
        assert "Traceback" not in ended.stderr

"""The whole command line. Each command has its own tests."""

import subprocess
import sys
import tomllib

from click.testing import CliRunner
from rig.configuration import ROOT

from addon.cli import main
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

"""One version, wherever it stands."""

import tomllib
from pathlib import Path

from addon import VERSION


def test_the_package_and_the_program_say_the_same_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION

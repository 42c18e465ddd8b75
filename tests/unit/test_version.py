"""All places agree on the version."""

import tomllib

from rig.configuration import ROOT

from addon import VERSION


def test_the_package_and_the_program_have_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION

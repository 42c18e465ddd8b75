"""Runs an install script of the tests where there are only a few programs on PATH."""

import shutil
import subprocess
from pathlib import Path

from rig.bounds import BOUND_S
from rig.configuration import ROOT


def copy_script(folder: Path, name: str) -> Path:
    """Return the script in a project of its own, in a folder with spaces, with nothing but what it needs."""
    tests = folder / "a folder with spaces" / "tests"
    tests.mkdir(parents=True)
    shutil.copy2(ROOT / "tests" / "debian_packages.sh", tests)
    return Path(shutil.copy2(ROOT / "tests" / name, tests))


def run_script(script: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Run the script with this PATH and without HOME, as a service does."""
    return subprocess.run(
        [str(script)], env={"PATH": path}, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def bare_path(folder: Path, *tools: str, **programs: str) -> str:
    """Return a PATH with a few plain tools and these programs (shell scripts), without apt and without others."""
    folder.mkdir()
    for tool in ("sh", "dirname", "sed", *tools):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    for name, text in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return str(folder)

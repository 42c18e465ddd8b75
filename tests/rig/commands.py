"""The ``tollgate`` command line on the files of a gateway, as an operator runs it."""

import subprocess
import sys
from pathlib import Path

from rig.configuration import TOLLGATE, environment
from rig.fork_server import run_forked


def tollgate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``tollgate ARGUMENTS --conf proxy.conf`` in ``folder``."""
    return run_alone(folder, *arguments, "--conf", str(folder / "proxy.conf"))


def run_alone(
    folder: Path, *arguments: str, stdin: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``tollgate ARGUMENTS`` in ``folder`` with these environment variables and this standard input."""
    command = [sys.executable, *TOLLGATE, *arguments]
    return run_forked(command, environment(variables), folder, stdin or "")

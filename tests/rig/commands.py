"""The ``tollgate`` command line on a gateway's files, as an operator would run it beside the gateway."""

import subprocess
import sys
from pathlib import Path

from rig.configuration import environment
from rig.upstream import BOUND_S


def tollgate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``tollgate ARGUMENTS --conf proxy.conf`` in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "addon.cli", *arguments, "--conf", str(folder / "proxy.conf")],
        env=environment({}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

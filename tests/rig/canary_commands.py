"""``tollgate`` in this process on the files of a gateway, with its output as bytes, to search it for secrets."""

import traceback
from pathlib import Path

from click.testing import CliRunner

from addon.cli import main

PROVIDERS = "catalog_data/providers.toml"
OWN, SOLO = "policies/workspaces/own.toml", "policies/workspaces/solo.toml"


def run_command(folder: Path, *arguments: str, conf: bool = True) -> tuple[int, bytes]:
    """Run ``tollgate ARGUMENTS``. Return the status and the output of both streams, with any traceback."""
    words = [*arguments, *(("--conf", str(folder / "proxy.conf")) if conf else ())]
    result = CliRunner().invoke(main, words)
    trace = "".join(traceback.format_exception(*result.exc_info)) if result.exc_info else ""
    return result.exit_code, (result.output + trace).encode()

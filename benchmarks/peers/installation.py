"""The programs of the peers, installed on demand into the user's cache folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LITELLM: Final = "litellm[proxy]==1.106.0"
PORTKEY: Final = {
    "private": True,
    "dependencies": {"@portkey-ai/gateway": "1.15.2"},
    "overrides": {"hono": "4.9.7", "@hono/node-server": "1.13.5", "@hono/node-ws": "1.2.0"},
}
"""The overrides are the versions in Portkey's own lock file. With newer ones it answers each stream with a 500."""
_LIMIT_S: Final = 900.0


class NotInstalledError(Exception):
    """A peer that cannot be installed here. Its text is the reason, one line."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all installed peers."""
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "tollgate-benchmarks"


def python_package(requirement: str, program: str) -> Path:
    """Return ``program`` of a Python package in an environment of its own. Install it if it is not there."""
    folder = cache_folder() / requirement.replace("[", "-").replace("]", "").replace("==", "-")
    installed = folder / "bin" / program
    if not _is_complete(folder):
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        _run([*pip, requirement])
        _mark_complete(folder)
    return installed


def node_package(name: str, manifest: str) -> Path:
    """Return the folder of an npm package and its dependencies. Install ``manifest`` if it is not there."""
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        raise NotInstalledError("there is no `node` with `npm`")
    folder = cache_folder() / name
    written = folder / "package.json"
    if not _is_complete(folder) or written.read_text(encoding="utf-8") != manifest:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        written.write_text(manifest, encoding="utf-8")
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
        _run([npm, "install", "--prefix", str(folder), *quiet])
        _mark_complete(folder)
    return folder / "node_modules"


def _run(command: list[str]) -> None:
    """Run a step of an installation. Raise ``NotInstalledError`` with its last line when it fails."""
    print(f"installing: {Path(command[0]).name} {' '.join(command[1:])}", file=sys.stderr)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(str(error)) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotInstalledError(f"{Path(command[0]).name} failed: {last[:200]}")


def _is_complete(folder: Path) -> bool:
    return (folder / "complete").exists()


def _mark_complete(folder: Path) -> None:
    (folder / "complete").touch()

"""The names of the environment variables that a running gateway has, for commands in a shell that lacks some of them.

A gateway writes the names, and never a value, into a file next to the ledger. It locks the file as long as it lives,
so that of a killed gateway counts no more.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from addon.runtime.folder_lock import hold_lock, is_locked


class RunningEnvironment(NamedTuple):
    """The process of a running gateway, and the names of its variables that are not empty."""

    pid: int
    names: frozenset[str]


@contextmanager
def published_environment(database: Path, conf_file: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Publish the names of ``env`` until the end of the context. A gateway also serves where that is not possible."""
    file = database.with_name(f"{_prefix(conf_file)}{os.getpid()}.json")
    with ExitStack() as held:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_dead(file.parent, conf_file)
            held.enter_context(hold_lock(file))
            held.callback(file.unlink, missing_ok=True)
            names = sorted(name for name, value in env.items() if value.strip())
            file.write_text(json.dumps(names), encoding="utf-8")
        yield


def find_environment(database: Path, conf_file: Path) -> RunningEnvironment | None:
    """Return the newest of the gateways that serve ``conf_file``, None where none runs. Raises OSError, ValueError."""
    alive = [file for file in _list_files(database.parent, conf_file) if is_locked(file)]
    if not alive:
        return None
    # During a takeover there are two.
    newest = max(alive, key=lambda file: file.stat().st_mtime_ns)
    names = json.loads(newest.read_text(encoding="utf-8"))
    return RunningEnvironment(int(newest.stem.rpartition("-")[2]), frozenset(map(str, names)))


def _prefix(conf_file: Path) -> str:
    return f"environment-{sha256(os.fsencode(conf_file.resolve())).hexdigest()[:12]}-"


def _list_files(folder: Path, conf_file: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [folder / name for name in names if name.startswith(_prefix(conf_file))]


def _remove_dead(folder: Path, conf_file: Path) -> None:
    for file in _list_files(folder, conf_file):
        if not is_locked(file):
            file.unlink(missing_ok=True)

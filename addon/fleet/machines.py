"""What each machine says of itself, and in which files the machines of a fleet differ. Source: docs/operating.md."""

import json
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from addon import VERSION
from addon.settings.builder import BuiltFrom
from addon.settings.file_content import make_absolute
from addon.settings.settings import Settings
from addon.settings.workspace_files import ServedText
from policies.fleet_files import Difference, Since, find_differences, find_lasting, follow

_OWN_SECTIONS: Final = frozenset({"listen", "admin", "paths", "log"})
"""The sections of proxy.conf that may differ from machine to machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine says of itself.

    ``files`` are digests by the name of a file, ``texts`` what its workspaces are served on, and ``hashes`` are those
    of the keys of each workspace.
    """

    name: str
    version: str
    settings: str
    workers: int
    calls: int
    files: Mapping[str, str]
    texts: Mapping[str, ServedText]
    hashes: Mapping[str, frozenset[str]]


def name_machine(settings: Settings) -> str:
    """Return the name of this machine: two gateways of one host have different folders."""
    return f"{socket.gethostname()}:{settings.conf_file.parent}"


def describe_machine(settings: Settings, built: BuiltFrom, texts: Collection[Path], calls: int) -> Machine:
    """Return what this machine says of itself. ``texts`` are the files without secrets."""
    return Machine(
        name_machine(settings),
        VERSION,
        settings.fingerprint,
        settings.conf.listen.workers,
        calls,
        _digest_files(settings, built, texts),
        built.texts,
        {
            name: frozenset(one.hash for one in workspace.credentials)
            for name, workspace in settings.workspaces.items()
        },
    )


def _digest_files(settings: Settings, built: BuiltFrom, texts: Collection[Path]) -> dict[str, str]:
    conf_file, found = make_absolute(settings.conf_file), {}
    for name in type(settings.written).model_fields:
        if name not in _OWN_SECTIONS:
            found[f"proxy.conf [{name}]"] = _digest(repr(getattr(settings.written, name)).encode())
    for file, (content, _) in built.shared_files.items():
        if file in texts and file != conf_file and file != settings.conf.listen.tls_certificate:
            found[f"{file.parent.name}/{file.name}"] = _digest(content)
    if not settings.conf.paths.are_workspaces_in_ledger:
        found |= {text.file.name: _digest(text.text) for text in built.texts.values()}
    return found


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


class Differences:
    """The files in which machines differ, and since when. ``time_s`` never decreases."""

    def __init__(self, time_s: Callable[[], float]) -> None:
        self._time_s = time_s
        self._since: Since = {}

    def note(self, files: Mapping[str, str]) -> None:
        """Note the files of each machine that lives, as JSON."""
        found = find_differences({name: json.loads(text) for name, text in files.items()})
        self._since = follow(self._since, found, self._time_s())

    def find_lasting(self) -> Sequence[Difference]:
        """Return the differences that are worth a report."""
        return find_lasting(self._since, self._time_s())

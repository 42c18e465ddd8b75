"""The workspace files: each is loaded by itself, then each workspace gets the text that it is served on.

A file that does not load only adds a problem. Its workspace is served on its last good text. Source:
docs/configuration.md, "Edits".
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from addon.settings.errors import Entry, Problem, SettingsError, join_errors, join_key_path
from addon.settings.fleet_keys import FleetKeys, turn_off
from addon.settings.last_good import LastGood
from addon.settings.loaded_file import LoadedFile, load_file
from addon.settings.parsed_text import ParsedText, find_hashes, parse_text
from addon.settings.secrets import Secrets
from addon.settings.shared_settings import SharedSettings
from addon.settings.sources import FileCopy, Sources
from addon.settings.workspace_builder import (
    duplicate_hash_error,
    remove_keys,
    resolve_last_good,
)
from addon.settings.workspace_schema import KeyTable, WorkspaceTable
from policies.key_claims import SettledClaims, settle_claims
from policies.model import Workspace


class ServedText(NamedTuple):
    """The text that a workspace is served on, and the hashes of the keys that are refused to it, or revoked."""

    file: Path
    text: bytes
    refused: frozenset[str]
    revoked: frozenset[str] = frozenset()


class WorkspaceFiles:
    """The workspace files of one gateway, with all their ``errors``.

    ``served`` are the workspaces by id, ``texts`` what they are served on.
    """

    def __init__(self, env: Mapping[str, str], sources: Sources, last_good: LastGood) -> None:
        self._env = env
        self._sources = sources
        self.last_good = last_good
        self._shared: SharedSettings | None = None
        self._files: dict[str, LoadedFile] = {}
        self._parsed_last_good: dict[str, ParsedText] = {}
        self._last_good_versions: Mapping[Path, int] = {}
        self._broken: frozenset[str] = frozenset()
        self.errors: tuple[SettingsError, ...] = ()
        self.fleet_keys = FleetKeys()
        self.served: dict[str, Workspace] = {}
        self.texts: dict[str, ServedText] = {}

    @property
    def is_empty(self) -> bool:
        return not self._files

    @property
    def digests(self) -> bytes:
        """The names of the workspaces with the digests of their texts."""
        digests = (b"%s\0%s" % (name.encode(), sha256(one.text).digest()) for name, one in self.texts.items())
        return b"".join(digests)

    @property
    def paths_read(self) -> set[Path]:
        """All files that the workspace files were loaded from, secret files included."""
        return set().union(*(file.versions for file in self._files.values()))

    def copy_secrets(self) -> Mapping[Path, FileCopy]:
        """Return copies of the secret files of workspaces, also those that only last good texts name."""
        needed = self.paths_read.union(self._last_good_versions)
        return self._sources.copy(needed - {file.file for file in self._files.values()})

    def look_at_last_good(self) -> bool:
        """Return whether another process has changed the last good text of a workspace whose file is broken."""
        return self.last_good.look(self._broken)

    # The check of one edited file.

    def fork(self, sources: Sources) -> "WorkspaceFiles":
        """Return the same workspaces over a fork of the sources. Nothing of its use comes back into this object."""
        fork = copy(self)
        fork._sources, fork.last_good = sources, self.last_good.fork()
        fork._files, fork._parsed_last_good = dict(self._files), dict(self._parsed_last_good)
        return fork

    def load_one(self, file: Path, shared: SharedSettings) -> tuple[Workspace | None, SettingsError | None]:
        """Load one file. Return its workspace, or its error: that of the file itself, whatever others claim."""
        name = file.stem
        self.last_good.look([name])
        before = self._files.get(name)
        if before and before.parsed and before.parsed.text == self.last_good.text(name):
            self._parsed_last_good[name] = before.parsed
        loaded = self._load(file, self._find_equal(shared))
        self._files[name] = loaded
        return loaded.workspace, loaded.error

    def claims_more(self, file: Path) -> bool:
        """Return whether ``file``, which has loaded, may claim a key that its workspace does not have yet.

        Without errors, no other workspace has such a key in its last good text. So this workspace keeps its keys,
        whatever others claim by now.
        """
        had = self._last_hashes(file.stem)
        return bool(self.errors) or had is None or not frozenset(had).issuperset(self._hashes(file))

    def may_be_contested(self, file: Path, files: Iterable[Path]) -> bool:
        """Return whether a text of another workspace may claim a key of ``file``, which has loaded. Parse few texts."""
        hashes = self._hashes(file)
        return bool(hashes) and any(
            not hashes.isdisjoint(self._list_hashes(other)) for other in files if other != file
        )

    def _hashes(self, file: Path) -> frozenset[str]:
        parsed = self._files[file.stem].parsed
        return frozenset(parsed.hashes if parsed else ())

    def _list_hashes(self, file: Path) -> Iterator[str]:
        """Yield at least the hashes that the file of a workspace, or its last good text, claims."""
        name = file.stem
        text, last_good, known = self._sources.peek(file), self.last_good.text(name), self._files.get(name)
        for one in {one for one in (text, last_good) if one is not None}:
            if known and known.parsed and known.parsed.text == one:
                yield from known.parsed.hashes
            else:
                yield from find_hashes(file, one)

    # Each workspace by itself.

    def load(self, files: Iterable[Path], shared: SharedSettings) -> None:
        """Load these files; forget all others and their last good texts."""
        shared = self._find_equal(shared)
        self._files = {file.stem: self._load(file, shared) for file in files}
        self.last_good.forget_others(self._files)
        self._parsed_last_good = {
            name: parsed for name, parsed in self._parsed_last_good.items() if name in self._files
        }

    def _find_equal(self, shared: SharedSettings) -> SharedSettings:
        """Return the shared settings before if they are equal for workspaces, else ``shared``."""
        before = self._shared
        if before and before.equals_for_workspaces(shared):
            return before
        self._shared = shared
        return shared

    def _load(self, file: Path, shared: SharedSettings) -> LoadedFile:
        return load_file(file, shared, self._files.get(file.stem), self._env, self._sources)

    def _find_last_good(self, name: str) -> ParsedText | None:
        """Return the last good text of a workspace."""
        text = self.last_good.text(name)
        if text is None:
            return None
        current = self._files[name]
        if current.parsed and current.parsed.text == text:
            return current.parsed
        parsed = self._parsed_last_good.get(name)
        if parsed is None or parsed.text != text:
            parsed = self._parsed_last_good[name] = parse_text(current.file, text)
        return parsed if parsed.table else None

    # All workspaces together.

    def choose_served(self) -> list[Problem]:
        """Choose the text that each workspace is served on; return the problems of broken files.

        The text is that of the file, else the last good one, without the keys that another workspace has.
        """
        with self._sources.record_versions() as self._last_good_versions:
            errors = self._choose_texts()
        self._broken = frozenset(errors)
        self.errors = tuple(error for name in sorted(errors) for error in errors[name].all)
        return [self._problem(name, error) for name, error in sorted(errors.items())]

    def _choose_texts(self) -> dict[str, SettingsError]:
        settled = settle_claims({name: self._claimed_hashes(name) for name in self._files}, self._last_hashes)
        errors = self._find_errors(settled)
        refused: dict[str, set[str]] = {}
        for name, key_hash in settled.refused:
            refused.setdefault(name, set()).add(key_hash)
        served, texts = {}, {}
        for name, file in self._files.items():
            current = self._find_current(file)
            is_chosen = current and name not in settled.gave_way
            chosen = file.parsed if is_chosen else self._find_last_good(name)
            if chosen is None or chosen.table is None:
                continue
            if current is None or chosen is not file.parsed:
                current = self._resolve_last_good(chosen.table, file)
            elsewhere = self.fleet_keys.find_claimed_elsewhere(name, chosen.hashes)
            texts[name] = ServedText(
                file.file,
                chosen.text,
                frozenset(refused.get(name, ())).union(elsewhere),
                self.fleet_keys.find_revoked(chosen.hashes),
            )
            served[name] = turn_off(remove_keys(current, texts[name].refused), texts[name].revoked)
            if name not in errors:
                self.last_good.take(name, chosen.text)
                if elsewhere:
                    errors[name] = self._claimed_elsewhere_error(name, elsewhere)
        self.served, self.texts = served, texts
        return errors

    def _find_current(self, file: LoadedFile) -> Workspace | None:
        """Return the workspace of the file as it is now, None when the last good text counts."""
        is_stopgap = file.stopgap and self.last_good.text(file.file.stem) is None
        return file.stopgap if is_stopgap else file.workspace

    def _resolve_last_good(self, table: WorkspaceTable, file: LoadedFile) -> Workspace:
        secrets = Secrets(self._env, self._sources, file.shared.conf.paths.master_keys)
        return resolve_last_good(table, file.file, file.shared, secrets, self.served.get(file.file.stem))

    def _find_errors(self, settled: SettledClaims) -> dict[str, SettingsError]:
        """Return the error of each broken file: its own, else that of a key that another workspace has."""
        errors = {name: file.error for name, file in self._files.items() if file.error}
        contests: dict[str, dict[str, str]] = {}
        for name, (key_hash, other) in settled.gave_way.items():
            contests.setdefault(name, {})[key_hash] = other
        for (name, key_hash), other in settled.refused.items():
            contests.setdefault(name, {}).setdefault(key_hash, other)
        for name, others in contests.items():
            if name not in errors:
                contested = [self._contested_key_error(name, *claim) for claim in others.items()]
                errors[name] = join_errors(contested)
        return errors

    def _contested_key_error(self, name: str, key_hash: str, other: str) -> SettingsError:
        (index, key), (_, other_key) = self._find_key(name, key_hash), self._find_key(other, key_hash)
        return duplicate_hash_error(self._files[name].file, index, key, key_hash, other_key.id, other)

    def _is_served_now(self, name: str) -> bool:
        """Return whether a workspace is served on its file as it is, but for keys that are refused."""
        parsed = self._files[name].parsed
        return parsed is not None and parsed.text == self.texts[name].text

    def _claimed_elsewhere_error(self, name: str, owners: Mapping[str, str]) -> SettingsError:
        found = []
        for key_hash, other in owners.items():
            index, key = self._find_key(name, key_hash)
            reason = f'workspace "{other}" has the same hash on another machine, and had it first'
            found.append(
                SettingsError(self._files[name].file, join_key_path("keys", Entry(index, key.id)), reason)
            )
        return join_errors(found)

    def _find_key(self, name: str, key_hash: str) -> tuple[int, KeyTable]:
        """Return the index of a key in a workspace's file, else in its last good text, and the key."""
        for parsed in (self._files[name].parsed, self._find_last_good(name)):
            keys = parsed.table.keys if parsed and parsed.table else ()
            for index, key in enumerate(keys):
                if key_hash in key.hashes:
                    return index, key
        raise AssertionError("only a workspace that claims a hash can contest it")

    def _claimed_hashes(self, name: str) -> tuple[str, ...]:
        file = self._files[name]
        return (
            file.parsed.hashes if file.parsed and self._find_current(file) else self._last_hashes(name) or ()
        )

    def _last_hashes(self, name: str) -> tuple[str, ...] | None:
        """Return the hashes that the last good text of a workspace claims."""
        last = self._find_last_good(name)
        return last.hashes if last else None

    def _problem(self, name: str, error: SettingsError) -> Problem:
        if name not in self.served:
            return Problem.of(error, f"workspace {name} is not served", name)
        file, is_new = self._files[name], self._find_last_good(name) is None
        if file.error is None and self._is_served_now(name):
            return Problem.of(error, f"the key is refused to workspace {name}", name)
        if file.stopgap and is_new:
            return Problem.of(error, f"workspace {name} is served with an rpm_override of 1", name)
        return Problem.of(error, f"workspace {name} keeps its last good settings", name)

"""Builds the settings from the files: the shared settings, each workspace by itself, and the problems of files.

A file that does not load only adds a problem. What did not change is not parsed or resolved again. Source:
docs/configuration.md, "Edits".
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError
from addon.settings.last_good import LastGood
from addon.settings.secrets import Secrets
from addon.settings.shared_settings import SharedSettings, load_shared_settings
from addon.settings.sources import FileCopy, Sources
from addon.settings.workspace_builder import (
    duplicate_hash_error,
    parse_workspace,
    resolve_last_good,
    resolve_workspace,
)
from addon.settings.workspace_schema import WorkspaceTable
from policies.key_claims import SettledClaims, settle_claims
from policies.model import Workspace


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that does not load, why, and the consequence. ``str`` is one line: file, dotted key, reason.

    ``workspace`` is the only one that the file concerns, or None when it concerns all.
    """

    file: Path
    key: str
    reason: str
    consequence: str
    workspace: str | None = None

    def __str__(self) -> str:
        return str(SettingsError(self.file, self.key, self.reason))


@dataclass(frozen=True, slots=True)
class BuiltSettings:
    """Settings to serve on. ``workspaces`` are by id; ``digest`` changes with any text that they were built from."""

    shared: SharedSettings
    workspaces: Mapping[str, Workspace]
    problems: tuple[Problem, ...]
    digest: bytes


class ServedText(NamedTuple):
    """The text that a workspace is served on, and the hashes of the keys that are refused to it."""

    file: Path
    text: bytes
    refused: frozenset[str]


class BuiltFrom(NamedTuple):
    """The files that settings were built from, as far as they are served. ``texts`` are by workspace.

    ``shared_files`` are those of the shared settings, secret files included. ``secret_files`` are those of workspaces.
    """

    shared_files: Mapping[Path, FileCopy]
    secret_files: Mapping[Path, FileCopy]
    texts: Mapping[str, ServedText]
    digest: bytes


@dataclass(frozen=True, slots=True)
class _ParsedText:
    """The text of a workspace file, with its table or its error."""

    text: bytes
    table: WorkspaceTable | None = None
    error: SettingsError | None = None
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _WorkspaceFile:
    """A workspace file: what it resolved to, and from what. ``error`` is the file's own, not a contested key."""

    file: Path
    shared: SharedSettings
    versions: Mapping[Path, int]
    parsed: _ParsedText | None = None
    workspace: Workspace | None = None
    error: SettingsError | None = None


class SettingsBuilder:
    """Builds settings from the same sources again and again."""

    def __init__(self, conf_file: Path, env: Mapping[str, str], sources: Sources) -> None:
        self._conf_file = conf_file
        self._env = env
        self._sources = sources
        self._running: ProxyConf | None = None
        self._shared: SharedSettings | None = None
        self._shared_versions: Mapping[Path, int] = {}
        self._shared_files: Mapping[Path, FileCopy] = {}
        self._shared_error: SettingsError | None = None
        self._is_shared_tried = False
        self._files: dict[str, _WorkspaceFile] = {}
        self._parsed_last_good: dict[str, _ParsedText] = {}
        self._served: dict[str, Workspace] = {}
        self._served_texts: dict[str, ServedText] = {}
        self._last_good_versions: Mapping[Path, int] = {}
        self._digest = b""
        self._broken: frozenset[str] = frozenset()
        self._last_good: LastGood | None = None

    @property
    def last_good(self) -> LastGood:
        """The last good texts. Their folder is known only after the shared settings have loaded once."""
        assert self._last_good  # noqa: S101
        return self._last_good

    def look_at_last_good(self) -> bool:
        """Return whether another process has changed the last good text of a workspace whose file is broken."""
        return self.last_good.look(self._broken)

    def build(self, running: ProxyConf | None = None) -> BuiltSettings:
        """Return the settings in the files now. Raises ``SettingsError`` when no settings have ever loaded.

        For ``running`` see ``load_shared_settings``.
        """
        shared = self._load_shared(running)
        problems = []
        if self._shared_error:
            problems.append(_problem(self._shared_error, "the settings do not load, the last good ones stay"))
        try:
            files = self._sources.list_toml(shared.conf.paths.workspaces)
        except SettingsError as error:
            if not self._files:
                raise
            files = []
            problems.append(_problem(error, "no workspace is served"))
        self._files = {file.stem: self._load_workspace(file, shared) for file in files}
        self._forget_deleted()
        with self._sources.record_versions() as self._last_good_versions:
            digests, errors = self._choose_served()
        self._broken = frozenset(errors)
        problems += [self._workspace_problem(name, error) for name, error in sorted(errors.items())]
        self._digest = sha256(shared.digest + b"".join(digests)).digest()
        return BuiltSettings(shared, dict(self._served), tuple(problems), self._digest)

    def built_from(self) -> BuiltFrom:
        """Return what the last settings were built from."""
        needed = set(self._last_good_versions).union(*(file.versions for file in self._files.values()))
        secret_files = self._sources.copy(needed - {file.file for file in self._files.values()})
        return BuiltFrom(self._shared_files, secret_files, self._served_texts, self._digest)

    def _forget_deleted(self) -> None:
        needed = set(self._shared_versions).union(*(file.versions for file in self._files.values()))
        self._sources.forget_others(needed)
        self.last_good.forget_others(self._files)
        self._parsed_last_good = {
            name: parsed for name, parsed in self._parsed_last_good.items() if name in self._files
        }

    # The shared settings.

    def _load_shared(self, running: ProxyConf | None) -> SharedSettings:
        """Return the shared settings in the files now, else the last ones that loaded."""
        is_same = self._is_shared_tried and running is self._running
        if self._shared and is_same and self._sources.is_current(self._shared_versions):
            return self._shared
        self._running, before, self._is_shared_tried = running, self._shared_versions, False
        error = self._shared_error = self._try_shared()
        if error and self._sources.revert(self._shared_versions):
            # A file that was read while it changed is used only if it loads.
            self._try_shared()
        if error:
            self._shared_versions = {**before, **self._shared_versions}
        self._is_shared_tried = True
        if self._shared is None:
            raise error or AssertionError("shared settings either load or have an error")
        if self._last_good is None:
            self._last_good = LastGood(self._shared.conf.paths.database.with_name("last-good"))
        return self._shared

    def _try_shared(self) -> SettingsError | None:
        with self._sources.record_versions() as self._shared_versions:
            try:
                self._shared = load_shared_settings(self._conf_file, self._env, self._sources, self._running)
            except SettingsError as error:
                return error
        self._shared_files = self._sources.copy(self._shared_versions)
        return None

    # Each workspace by itself.

    def _load_workspace(self, file: Path, shared: SharedSettings) -> _WorkspaceFile:
        before = self._files.get(file.stem)
        if before and before.shared is shared and self._sources.is_current(before.versions):
            return before
        parsed = None
        with self._sources.record_versions() as versions:
            try:
                text = self._sources.read(file)
                known = before.parsed if before else None
                parsed = known if known and known.text == text else _parse(file, text)
                workspace = self._resolve(parsed, file, shared)
            except Exception as error:  # noqa: BLE001  (no file of one customer may stop the others)
                return _WorkspaceFile(file, shared, versions, parsed, error=_settings_error(error, file))
        return _WorkspaceFile(file, shared, versions, parsed, workspace)

    def _resolve(self, parsed: _ParsedText, file: Path, shared: SharedSettings) -> Workspace:
        if parsed.table is None:
            raise parsed.error or AssertionError("a text has either a table or an error")
        return resolve_workspace(parsed.table, file, shared, Secrets(self._env, self._sources))

    def _find_last_good(self, name: str) -> _ParsedText | None:
        """Return the last good text of a workspace."""
        text = self.last_good.text(name)
        if text is None:
            return None
        current = self._files[name]
        if current.parsed and current.parsed.text == text:
            return current.parsed
        parsed = self._parsed_last_good.get(name)
        if parsed is None or parsed.text != text:
            parsed = self._parsed_last_good[name] = _parse(current.file, text)
        return parsed if parsed.table else None

    # All workspaces together.

    def _choose_served(self) -> tuple[list[bytes], dict[str, SettingsError]]:
        """Choose the text that each workspace is served on.

        Return the digests of these texts, and the error of each broken file.
        """
        settled = settle_claims({name: self._claimed_hashes(name) for name in self._files}, self._last_hashes)
        errors = self._find_errors(settled)
        refused: dict[str, set[str]] = {}
        for name, key_hash in settled.refused:
            refused.setdefault(name, set()).add(key_hash)
        served, texts, digests = {}, {}, []
        for name, file in self._files.items():
            is_loaded = file.workspace and name not in settled.gave_way
            chosen = file.parsed if is_loaded else self._find_last_good(name)
            if chosen is None or chosen.table is None:
                continue
            if chosen is file.parsed and file.workspace:
                workspace = file.workspace
            else:
                workspace = self._resolve_last_good(chosen.table, file)
            texts[name] = ServedText(file.file, chosen.text, frozenset(refused.get(name, ())))
            served[name] = without_keys(workspace, texts[name].refused)
            digests.append(b"%s\0%s" % (name.encode(), sha256(chosen.text).digest()))
            if name not in errors:
                self.last_good.take(name, chosen.text)
        self._served, self._served_texts = served, texts
        return digests, errors

    def _resolve_last_good(self, table: WorkspaceTable, file: _WorkspaceFile) -> Workspace:
        secrets = Secrets(self._env, self._sources)
        return resolve_last_good(table, file.file, file.shared, secrets, self._served.get(file.file.stem))

    def _find_errors(self, settled: SettledClaims) -> dict[str, SettingsError]:
        """Return the error of each broken file: its own, else that of a key that another workspace has."""
        errors = {name: file.error for name, file in self._files.items() if file.error}
        contests = dict(settled.gave_way)
        for (name, key_hash), other in settled.refused.items():
            contests.setdefault(name, (key_hash, other))
        for name, (key_hash, other) in contests.items():
            errors.setdefault(name, self._contested_key_error(name, key_hash, other))
        return errors

    def _contested_key_error(self, name: str, key_hash: str, other: str) -> SettingsError:
        (index, _), (_, other_id) = self._find_key(name, key_hash), self._find_key(other, key_hash)
        return duplicate_hash_error(self._files[name].file, index, other_id, other)

    def _find_key(self, name: str, key_hash: str) -> tuple[int, str]:
        """Return the index and the id of a key in a workspace's file, else in its last good text."""
        for parsed in (self._files[name].parsed, self._find_last_good(name)):
            keys = parsed.table.keys if parsed and parsed.table else ()
            for index, key in enumerate(keys):
                if key.hash == key_hash:
                    return index, key.id
        raise AssertionError("only a workspace that claims a hash can contest it")

    def _claimed_hashes(self, name: str) -> tuple[str, ...]:
        file = self._files[name]
        return file.parsed.hashes if file.parsed and file.workspace else self._last_hashes(name) or ()

    def _last_hashes(self, name: str) -> tuple[str, ...] | None:
        """Return the hashes that the last good text of a workspace claims."""
        last = self._find_last_good(name)
        return last.hashes if last else None

    def _workspace_problem(self, name: str, error: SettingsError) -> Problem:
        if name not in self._served:
            return _problem(error, f"workspace {name} is not served", name)
        if self._files[name].error is None and self._find_last_good(name) is None:
            return _problem(error, f"the key is refused to workspace {name}", name)
        return _problem(error, f"workspace {name} keeps its last good settings", name)


def without_keys(workspace: Workspace, refused: Container[str]) -> Workspace:
    """Return a workspace without the keys of these hashes."""
    keys = tuple(key for key in workspace.keys if key.hash not in refused)
    return replace(workspace, keys=keys) if len(keys) < len(workspace.keys) else workspace


def _parse(file: Path, text: bytes) -> _ParsedText:
    try:
        table = parse_workspace(file, text)
    except Exception as error:  # noqa: BLE001  (as in _load_workspace)
        return _ParsedText(text, error=_settings_error(error, file))
    return _ParsedText(text, table, hashes=tuple(key.hash for key in table.keys))


def _settings_error(error: Exception, file: Path) -> SettingsError:
    """Return the error to report for a file. Leave out the message of an unknown one: it may hold a secret."""
    if isinstance(error, SettingsError):
        return error
    return SettingsError(file, "", f"can't be loaded: {type(error).__name__}")


def _problem(error: SettingsError, consequence: str, workspace: str | None = None) -> Problem:
    return Problem(error.file, error.key, error.reason, consequence, workspace)

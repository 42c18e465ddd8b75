"""Builds the settings from the files: the shared settings, the workspaces, and the problems of broken files.

A file that did not change is not parsed or resolved again. A broken workspace file does not stop the others.
Source: docs/configuration.md, "Edits".
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import Problem, SettingsError, join_errors
from addon.settings.file_content import describe_error
from addon.settings.fleet_keys import FleetKeys, find_file
from addon.settings.last_good import LastGood
from addon.settings.shared_settings import SharedSettings, load_shared_settings
from addon.settings.sources import FileCopy, Sources
from addon.settings.workspace_files import ServedText, WorkspaceFiles
from policies.model import Workspace


@dataclass(frozen=True, slots=True)
class BuiltSettings:
    """Settings to serve on. ``workspaces`` are by id; ``digest`` changes with any text that they were built from."""

    shared: SharedSettings
    workspaces: Mapping[str, Workspace]
    problems: tuple[Problem, ...]
    digest: bytes


class BuiltFrom(NamedTuple):
    """The files that settings were built from, as far as they are served. ``texts`` are by workspace.

    ``shared_files`` are those of the shared settings, secret files included. ``secret_files`` are those of workspaces.
    """

    shared_files: Mapping[Path, FileCopy]
    secret_files: Mapping[Path, FileCopy]
    texts: Mapping[str, ServedText]
    digest: bytes


class CheckedFile(NamedTuple):
    """One workspace file as ``build`` would find it: its workspace, or its ``error`` with all others of the file."""

    shared: SharedSettings
    workspace: Workspace | None
    error: SettingsError | None


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
        self._is_shared_tried = self._is_built = False
        self._workspace_files: WorkspaceFiles | None = None
        self._digest = b""

    @property
    def last_good(self) -> LastGood:
        """The last good texts. Their folder is known only after the shared settings have loaded once."""
        return self._workspaces.last_good

    @property
    def errors(self) -> tuple[SettingsError, ...]:
        """All errors of the files, as the last ``build`` found them."""
        shared = self._shared_error.all if self._shared_error else ()
        return (*shared, *self._workspaces.errors)

    def look_at_last_good(self) -> bool:
        """Return whether another process has changed the last good text of a workspace whose file is broken."""
        return self._workspaces.look_at_last_good()

    @property
    def _workspaces(self) -> WorkspaceFiles:
        assert self._workspace_files  # noqa: S101
        return self._workspace_files

    def build(self, running: ProxyConf | None = None) -> BuiltSettings:
        """Return the settings in the files now. Raises ``SettingsError`` when no settings have ever loaded.

        For ``running`` see ``load_shared_settings``.
        """
        shared = self._load_shared(running)
        workspaces, problems = self._workspaces, []
        if self._shared_error:
            problems.append(
                Problem.of(self._shared_error, "the settings do not load, the last good ones stay")
            )
        try:
            files = self._sources.list_toml(shared.conf.paths.workspaces)
        except SettingsError as error:
            if workspaces.is_empty:
                raise
            files = []
            problems.append(Problem.of(error, "no workspace is served"))
        workspaces.load(files, shared)
        fleet_keys = find_file(shared.conf.paths.database)
        problems += self._read_fleet_keys(fleet_keys)
        self._sources.forget_others({*workspaces.paths_read.union(self._shared_versions), fleet_keys})
        problems += workspaces.choose_served()
        self._is_built = True
        self._digest = sha256(shared.digest + workspaces.digests).digest()
        return BuiltSettings(shared, dict(workspaces.served), tuple(problems), self._digest)

    def _read_fleet_keys(self, file: Path) -> list[Problem]:
        """Read what the ledger says of keys. Without a file that can be read, the last one counts."""
        try:
            self._workspaces.fleet_keys = FleetKeys.parse(self._sources.read_secret(file))
        except FileNotFoundError:
            self._workspaces.fleet_keys = FleetKeys()
        except (OSError, ValueError) as error:
            reason = describe_error(error) if isinstance(error, OSError) else str(error)
            return [Problem.of(SettingsError(file, "", reason), "keys stay revoked as they were")]
        return []

    def fork(self, sources: Sources) -> "SettingsBuilder":
        """Return a builder over a fork of the sources, which has all that this one has parsed.

        It is for one short use: nothing of it comes back into this builder.
        """
        fork = copy(self)
        fork._sources = sources
        fork._workspace_files = self._workspace_files and self._workspace_files.fork(sources)
        return fork

    def load_shared(self) -> None:
        """Load the shared settings alone. Raises ``SettingsError``."""
        self._load_shared(self._running)

    def load_one(self, file: Path) -> CheckedFile:
        """Load one workspace file, and no other. Raises ``SettingsError`` when the shared settings do not load."""
        shared = self._load_shared(self._running)
        if self._shared_error:
            raise self._shared_error
        return CheckedFile(shared, *self._workspaces.load_one(file, shared))

    def check_one(self, file: Path) -> CheckedFile:
        """Return one workspace file as ``build`` would find it, next to all others. Raises as ``load_one``.

        Other files are parsed only if one of them may claim a key of this file.
        """
        checked = self.load_one(file)
        if checked.error or (self._is_built and not self._workspaces.claims_more(file)):
            return checked
        files = self._sources.list_toml(checked.shared.conf.paths.workspaces)
        if not self._workspaces.may_be_contested(file, files):
            return checked
        self.build(self._running)
        errors = [error for error in self._workspaces.errors if error.file == file]
        if errors:
            return CheckedFile(checked.shared, None, join_errors(errors))
        return checked

    def built_from(self) -> BuiltFrom:
        """Return what the last settings were built from."""
        workspaces = self._workspaces
        return BuiltFrom(self._shared_files, workspaces.copy_secrets(), workspaces.texts, self._digest)

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
        if self._workspace_files is None:
            last_good = LastGood(self._shared.conf.paths.database.with_name("last-good"))
            self._workspace_files = WorkspaceFiles(self._env, self._sources, last_good)
        return self._shared

    def _try_shared(self) -> SettingsError | None:
        with self._sources.record_versions() as self._shared_versions:
            try:
                self._shared = load_shared_settings(self._conf_file, self._env, self._sources, self._running)
            except SettingsError as error:
                return error
        # The set has loaded, so a file that is missing now is an optional one that was deleted.
        self._shared_files = self._sources.copy(self._shared_versions, only_existing=True)
        return None

"""The settings of one moment as one text, which other processes of the gateway build their settings from.

It has the texts that the settings were built from, with their references to secrets, and the content of the
secret files that these name. A file is sealed with a key that only the processes of one run have, so no secret is
on the disk in clear. Source: docs/decisions/workers-load-a-snapshot.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from addon.runtime.atomic_files import write_atomically
from addon.settings.builder import BuiltFrom, BuiltSettings
from addon.settings.errors import Problem, SettingsError, describe_error
from addon.settings.file_content import Stamp, make_absolute, read_stamp
from addon.settings.fleet_keys import turn_off
from addon.settings.parsed_text import parse_text
from addon.settings.sealed_secrets import MasterKeys
from addon.settings.secrets import Secrets
from addon.settings.settings import Settings, make_settings
from addon.settings.shared_settings import SharedSettings, load_conf, load_shared_settings
from addon.settings.sources import FileCopy, Sources
from addon.settings.workspace_builder import remove_keys, resolve_last_good
from addon.settings.workspace_files import ServedText
from addon.settings.workspace_schema import WorkspaceTable
from policies.model import Workspace

SNAPSHOT_FILE: Final = "settings.snapshot"

SNAPSHOT_KEY_VARIABLE: Final = "TOLLGATE_SNAPSHOT_KEY"
"""The environment variable in which a supervisor gives its workers the key."""


class Snapshot(BaseModel):
    """The content that one set of settings is built from. ``started_conf`` is the proxy.conf of the start.

    ``listen`` and ``admin_port`` are those of its sections, with the options of the command line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    format: Literal[3] = 3
    conf_file: Path
    started_conf: FileCopy
    listen: dict[str, Any]
    admin_port: int
    built_from: BuiltFrom
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, settings: Settings, built_from: BuiltFrom, started_conf: FileCopy) -> Self:
        """Return the snapshot of ``settings``, which were built from ``built_from``."""
        return cls(
            conf_file=settings.conf_file,
            started_conf=started_conf,
            listen=settings.conf.listen.model_dump(mode="json"),
            admin_port=settings.conf.admin.port,
            built_from=built_from,
            problems=settings.problems,
        )

    def write(self, file: Path, key: str) -> None:
        """Replace ``file``, which only its owner may read. Raises OSError."""
        write_atomically(file, MasterKeys(key).seal(self.model_dump_json()))

    @classmethod
    def read(cls, file: Path, key: str) -> Self:
        """Return what ``write`` has written. Raises ``SettingsError``."""
        try:
            return cls.model_validate_json(MasterKeys(key).unseal(file.read_text("ascii")))
        except OSError as error:
            raise SettingsError(file, "", describe_error(error)) from None
        except ValidationError:
            reason = "is a snapshot of another version of the gateway; restart the gateway"
        except ValueError:
            reason = "is not a whole snapshot of this run of the gateway"
        raise SettingsError(file, "", reason)


class SnapshotBuilder:
    """Builds the settings of one snapshot after the other. Only what a new snapshot changes is built again."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._before = BuiltFrom({}, {}, {}, b"")
        self._shared: SharedSettings | None = None
        self._tables: dict[str, tuple[bytes, WorkspaceTable]] = {}
        self._workspaces: dict[str, Workspace] = {}

    def build(self, snapshot: Snapshot) -> Settings:
        """Return the settings of a snapshot. Raises ``SettingsError``."""
        now, before = snapshot.built_from, self._before
        shared = self._shared
        if shared is None or now.shared_files != before.shared_files:
            shared = self._load_shared(snapshot)
        is_same = shared is self._shared and now.secret_files == before.secret_files
        secrets = Secrets(self._env, Sources(copies=now.secret_files), shared.conf.paths.master_keys)
        workspaces = {
            name: self._workspaces[name]
            if is_same and before.texts.get(name) == text
            else self._resolve(name, text, shared, secrets)
            for name, text in now.texts.items()
        }
        self._before, self._shared, self._workspaces = now, shared, workspaces
        self._tables = {name: self._tables[name] for name in workspaces}
        settings = make_settings(BuiltSettings(shared, workspaces, snapshot.problems, now.digest))
        return settings.with_listen(**snapshot.listen).with_admin_port(snapshot.admin_port)

    def _load_shared(self, snapshot: Snapshot) -> SharedSettings:
        file = snapshot.conf_file
        started_with = load_conf(file, Sources(copies={make_absolute(file): snapshot.started_conf}))
        sources = Sources(copies=snapshot.built_from.shared_files)
        return load_shared_settings(file, self._env, sources, started_with)

    def _resolve(self, name: str, text: ServedText, shared: SharedSettings, secrets: Secrets) -> Workspace:
        parsed, table = self._tables.get(name, (None, None))
        if table is None or parsed != text.text:
            table = parse_text(text.file, text.text).served_table
            self._tables[name] = text.text, table
        workspace = resolve_last_good(table, text.file, shared, secrets, self._workspaces.get(name))
        return turn_off(remove_keys(workspace, text.refused), text.revoked)


class SnapshotSettings:
    """The settings of a worker, which its supervisor writes to ``file``."""

    def __init__(self, file: Path, key: str, env: Mapping[str, str]) -> None:
        self._file = file
        self._key = key
        self._builder = SnapshotBuilder(env)
        self._stamp: Stamp = None

    @property
    def is_changed(self) -> bool:
        """Whether there is a snapshot that ``load`` has not tried."""
        return read_stamp(self._file) != self._stamp

    def load(self) -> Settings:
        """Return the settings of the newest snapshot. Raises ``SettingsError``."""
        self._stamp = read_stamp(self._file)
        return self._builder.build(Snapshot.read(self._file, self._key))

"""``Settings``: proxy.conf, the catalog and the workspaces as one frozen value, with the problems of broken files.

Source: docs/configuration.md.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

from pydantic import SecretStr

from addon.settings.alert_target import AlertTarget
from addon.settings.builder import BuiltFrom, BuiltSettings, CheckedFile, SettingsBuilder
from addon.settings.conf_schema import Listen, ProxyConf
from addon.settings.console_password import ConsolePassword
from addon.settings.egress_proxy import EgressProxy
from addon.settings.errors import Problem, SettingsError
from addon.settings.file_content import make_absolute
from addon.settings.last_good import LastGood
from addon.settings.shared_settings import NEEDS_RESTART, load_conf
from addon.settings.sources import Sources
from addon.settings.validation import validate
from policies.family import Family
from policies.model import Credential, Model, Workspace
from policies.provider import Provider
from policies.review import Policy
from policies.route_table import RouteTable

__all__ = ["NEEDS_RESTART", "Settings", "SettingsFiles", "load_conf", "load_settings"]

_NO_OVERLAY: Mapping[Path, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Settings:
    """All that operators have set, at one moment.

    - ``provider_files`` has the file of each provider: that of the catalog or of its overlay.
    - ``keys`` has each secret of each key by its hex SHA-256.
    - ``overlaid_slugs`` are the models with a table in the catalog's overlay. ``unknown_hidden`` are slugs that the
      overlay hides, but the catalog does not have.
    - ``policies`` are the operators' own, in the order in which they run.
    - ``egress_proxy``: connections to providers go through it, if there is one.
    - ``alert_target``: alerts are sent there, if there is one.
    - ``console_password``: the console asks for it, if there is one.
    - ``written`` is proxy.conf as the file has it, ``conf`` as it is in force. They differ when the command line
      overrides the file, and while a change waits for a restart.
    - ``problems`` are the files that do not load.
    - ``routes`` are made of the other fields.
    """

    conf_file: Path
    conf: ProxyConf
    written: ProxyConf
    providers: Mapping[str, Provider]
    provider_files: Mapping[str, Path]
    families: Mapping[str, Family]
    models: Mapping[str, Model]
    overlaid_slugs: frozenset[str]
    unknown_hidden: tuple[str, ...]
    workspaces: Mapping[str, Workspace]
    keys: Mapping[str, Credential]
    policies: tuple[Policy, ...]
    sandbox_enabled: bool
    egress_proxy: EgressProxy | None
    alert_target: AlertTarget | None
    console_password: ConsolePassword | None
    fingerprint: str
    problems: tuple[Problem, ...] = ()
    routes: RouteTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        routes = RouteTable(self.models, self.providers, max_attempts=self.conf.upstream.max_attempts)
        object.__setattr__(self, "routes", routes)

    def with_builtin_url(self, url: str, key: SecretStr) -> Self:
        """Return a copy in which the builtin providers, also those of models, have this ``url`` and ``key``."""
        providers = {
            name: replace(
                provider, base_url=url.rstrip("/"), platform_keys=(key,), platform_key_names=("built-in",)
            )
            if provider.builtin
            else provider
            for name, provider in self.providers.items()
        }
        models = {slug: model.with_provider(providers) for slug, model in self.models.items()}
        return replace(self, providers=MappingProxyType(providers), models=MappingProxyType(models))

    def with_listen(self, **overrides: Any) -> Self:
        """Return a copy with these keys of ``[listen]``; None changes nothing. Raises ``SettingsError``."""
        given = {key: value for key, value in overrides.items() if value is not None}
        checked = validate(Listen, Path("command line"), self.conf.listen.model_dump() | given)
        return replace(self, conf=self.conf.model_copy(update={"listen": checked}))

    def with_admin_port(self, port: int | None) -> Self:
        """Return a copy with this ``[admin] port``; None changes nothing. Raises ``SettingsError``."""
        if port is None:
            return self
        admin, listen = self.conf.admin, self.conf.listen
        if port and (admin.host, port) == (listen.host, listen.port):
            raise SettingsError(Path("command line"), "admin-port", "must differ from the public port")
        return replace(
            self, conf=self.conf.model_copy(update={"admin": admin.model_copy(update={"port": port})})
        )


class SettingsFiles:
    """The operators' files, read again and again by one process. ``env`` is ``os.environ`` by default.

    ``overlay`` maps files to texts that replace the files on disk. So an edit can be tried before it is written.
    """

    def __init__(
        self,
        conf_file: Path,
        env: Mapping[str, str] | None = None,
        *,
        overlay: Mapping[Path, str] = _NO_OVERLAY,
    ) -> None:
        self.conf_file = conf_file
        self._sources = Sources(overlay)
        self._builder = SettingsBuilder(conf_file, os.environ if env is None else env, self._sources)
        self._lock = Lock()
        self._running: ProxyConf | None = None
        self._latest: Settings | None = None
        self._is_stale = True

    def fork(self, overlay: Mapping[Path, str] = _NO_OVERLAY) -> "SettingsFiles":
        """Return the files as they are now, for one short use in any thread, such as the check of an edit.

        It reads and parses only what changed since the last look, and changes nothing here. Raises ``SettingsError``
        when no settings have ever loaded.
        """
        fork = SettingsFiles(self.conf_file)
        with self._lock:
            if self._latest is None:
                self._builder.load_shared()
            fork._running = self._running
            fork._sources = self._sources.fork(overlay)
            fork._builder = self._builder.fork(fork._sources)
        return fork

    def load_workspace(self, file: Path) -> CheckedFile:
        """Load the file of one workspace by itself. Raises ``SettingsError`` when the others do not load."""
        return self._builder.load_one(make_absolute(file))

    def check_workspace(self, file: Path) -> CheckedFile:
        """Return the file of one workspace as ``load`` would find it. Raises as ``load_workspace``.

        ``load`` takes long where there are many workspaces.
        """
        return self._builder.check_one(make_absolute(file))

    def load(self) -> Settings:
        """Return the settings in the files now. Raises ``SettingsError`` when proxy.conf or the catalog does not load.

        A workspace file that does not load is one of the ``problems``; its workspace keeps its last good settings.
        """
        with self._lock:
            return self._load()

    def _load(self) -> Settings:
        self._latest = make_settings(self._builder.build(self._running))
        self._is_stale = False
        return self._latest

    def look(self, now_s: float, running: ProxyConf) -> Settings:
        """Return the settings to serve on: the same object while no file has changed.

        ``running`` is the conf of the process. Its ``NEEDS_RESTART`` sections stay in force. Raises ``SettingsError``
        when no settings have ever loaded.
        """
        with self._lock:
            changed = [self._sources.look(now_s), running is not self._running]
            if self._latest is not None:
                changed.append(self._builder.look_at_last_good())
            self._running = running
            # The next look does not find the same change again. So remember it until the settings are built.
            self._is_stale = self._is_stale or any(changed)
            return self._load() if self._latest is None or self._is_stale else self._latest

    def keep(self) -> None:
        """Write some of the last good texts that are not on disk yet. Raises OSError."""
        with self._lock:
            self._builder.last_good.keep()

    def built_from(self) -> BuiltFrom:
        """Return what the latest settings were built from. Do not call it while ``look`` runs."""
        return self._builder.built_from()

    @property
    def errors(self) -> tuple[SettingsError, ...]:
        """All errors of the files, as the last ``load`` found them. ``problems`` has only the first of each file."""
        return self._builder.errors

    @property
    def texts(self) -> frozenset[Path]:
        """The files of operators that were read, without files of secrets."""
        return self._sources.texts

    def find_changed_files(self) -> Mapping[Path, datetime | None]:
        """Return the files of ``texts`` with the time of their last change, None for a file that is gone.

        Any thread may ask.
        """
        return {file: self._sources.find_changed_at(file) for file in self.texts}

    @property
    def last_good(self) -> LastGood:
        """The last good text of each workspace."""
        return self._builder.last_good


def load_settings(conf_file: Path, env: Mapping[str, str] | None = None) -> Settings:
    """Return the ``Settings`` in all files. Raises ``SettingsError`` when any file has a problem."""
    settings = SettingsFiles(conf_file, env).load()
    if settings.problems:
        # When two files claim one key, report the later file.
        raise settings.problems[-1].error
    return settings


def make_settings(built: BuiltSettings) -> Settings:
    """Return what was built, as one set."""
    shared, workspaces = built.shared, built.workspaces
    return Settings(
        conf_file=shared.conf_file,
        conf=shared.conf,
        written=shared.written,
        providers=shared.providers,
        provider_files=shared.provider_files,
        families=shared.families,
        models=shared.models,
        workspaces=MappingProxyType(workspaces),
        keys=MappingProxyType(
            {one.hash: one for workspace in workspaces.values() for one in workspace.credentials}
        ),
        overlaid_slugs=shared.overlaid_slugs,
        unknown_hidden=shared.unknown_hidden,
        policies=shared.policies,
        sandbox_enabled=shared.sandbox_enabled,
        egress_proxy=shared.egress_proxy,
        alert_target=shared.alert_target,
        console_password=shared.console_password,
        fingerprint=built.digest.hex()[:16],
        problems=built.problems,
    )

"""proxy.conf, the catalog and the workspaces become one frozen ``Settings``, with what is wrong in which file.

Source: docs/configuration.md.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import SecretStr

from addon.settings.base import NEEDS_RESTART, load_conf
from addon.settings.builder import Builder, Built, Problem
from addon.settings.egress_proxy import EgressProxy
from addon.settings.files import SettingsError, validate
from addon.settings.files_schema import Listen, ProxyConf
from addon.settings.last_good import LastGood
from addon.settings.sources import Sources
from policies.family import Family
from policies.model import Key, Model, Provider, Workspace
from policies.review import Policy

__all__ = ["NEEDS_RESTART", "Settings", "SettingsFiles", "load_conf", "load_settings"]

_NO_OVERLAY: Mapping[Path, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that operators decide, at one moment. ``keys`` is indexed by the hex SHA-256 of the key.

    ``policies`` are operators' own, in the order in which they are asked. Connections to providers go through
    ``egress_proxy``, where there is one.
    ``written`` is proxy.conf as it stands in the file; ``conf`` is what holds. They differ where the command
    line overrides the file, and where a change waits for a restart. ``problems`` are the files that do not load.
    """

    conf: ProxyConf
    written: ProxyConf
    providers: Mapping[str, Provider]
    families: Mapping[str, Family]
    models: Mapping[str, Model]
    workspaces: Mapping[str, Workspace]
    keys: Mapping[str, tuple[Workspace, Key]]
    policies: tuple[Policy, ...]
    sandbox_enabled: bool
    egress_proxy: EgressProxy | None
    fingerprint: str
    problems: tuple[Problem, ...] = ()

    def with_builtin_url(self, url: str, key: SecretStr) -> Self:
        """Return a copy whose builtin providers, and the models that hold them, are at ``url`` with ``key``."""
        providers = {
            name: replace(provider, base_url=url.rstrip("/"), platform_keys=(key,))
            if provider.builtin
            else provider
            for name, provider in self.providers.items()
        }
        models = {
            slug: replace(model, provider=providers[model.provider.name])
            for slug, model in self.models.items()
        }
        return replace(self, providers=MappingProxyType(providers), models=MappingProxyType(models))

    def with_listen(self, **overrides: Any) -> Self:
        """Return a copy with keys of ``[listen]`` from the command line, None left out. Raises ``SettingsError``."""
        given = {key: value for key, value in overrides.items() if value is not None}
        checked = validate(Listen, Path("command line"), self.conf.listen.model_dump() | given)
        return replace(self, conf=self.conf.model_copy(update={"listen": checked}))


class SettingsFiles:
    """The operator's files as one process follows them. ``env`` is ``os.environ`` unless given.

    ``overlay`` maps files to texts that replace what is on disk, so that an edit is tried before it is written.
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
        self._builder = Builder(conf_file, os.environ if env is None else env, self._sources)
        self._running: ProxyConf | None = None
        self._latest: Settings | None = None
        self._is_stale = True

    def load(self) -> Settings:
        """Return the files as they are now. Raises ``SettingsError`` where proxy.conf and the catalog do not load.

        A workspace file that does not load is among the ``problems``, and its workspace on its last good settings.
        """
        self._latest = _settings(self._builder.build(self._running))
        self._is_stale = False
        return self._latest

    def look(self, now_s: float, running: ProxyConf) -> Settings:
        """Return the settings to serve on: the same object while no file says anything new.

        ``running`` is the conf of the process: its ``NEEDS_RESTART`` sections stay as they are. Raises
        ``SettingsError`` where nothing ever loaded.
        """
        changed = [self._sources.look(now_s), running is not self._running]
        if self._latest is not None:
            changed.append(self._builder.look_at_last_good())
        self._running = running
        # What a look finds is not found again, so it is remembered until it was built.
        self._is_stale = self._is_stale or any(changed)
        return self.load() if self._latest is None or self._is_stale else self._latest

    def keep(self) -> None:
        """Write the last good texts under var/, some at a time. Raises OSError."""
        self._builder.last_good.keep()

    @property
    def last_good(self) -> LastGood:
        """The last text of each workspace that loaded."""
        return self._builder.last_good


def load_settings(conf_file: Path, env: Mapping[str, str] | None = None) -> Settings:
    """Return all files as one ``Settings`` without problems. Raises ``SettingsError`` for the first file with one."""
    settings = SettingsFiles(conf_file, env).load()
    if settings.problems:
        # Of two files that claim one key, the later one is named.
        worst = settings.problems[-1]
        raise SettingsError(worst.file, worst.key, worst.reason)
    return settings


def _settings(built: Built) -> Settings:
    base, workspaces = built.base, built.workspaces
    return Settings(
        conf=base.conf,
        written=base.written,
        providers=base.providers,
        families=base.families,
        models=base.models,
        workspaces=MappingProxyType(workspaces),
        keys=MappingProxyType(
            {key.hash: (owner, key) for owner in workspaces.values() for key in owner.keys}
        ),
        policies=base.policies,
        sandbox_enabled=base.sandbox_enabled,
        egress_proxy=base.egress_proxy,
        fingerprint=built.digest.hex()[:16],
        problems=built.problems,
    )

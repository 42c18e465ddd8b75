"""proxy.conf, the catalog and the workspaces become one frozen ``Settings``, or one ``SettingsError``.

Tables are checked by ``addon/settings_files.py``, names between files by ``addon/settings_facts.py``.
Source: docs/configuration.md.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import SecretStr

from addon.policy_modules import load_policies
from addon.settings_facts import Facts
from addon.settings_files import Listen, ProxyConf
from addon.settings_io import SettingsError, Sources, validate
from policies.facts import Family, Key, Model, Provider, Workspace
from policies.review import Policy

NEEDS_RESTART = ("listen", "admin", "paths", "state")
"""Sections of proxy.conf whose changes a running gateway can't follow."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that operators decide, at one moment. ``keys`` is indexed by the hex SHA-256 of the key.

    ``policies`` are operators' own, in the order in which they are asked.
    ``written`` is proxy.conf as it stands in the file; ``conf`` is what holds. They differ where the command
    line overrides the file, and where a change waits for a restart.
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
    fingerprint: str

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


def load_conf(conf_file: Path, sources: Sources | None = None) -> ProxyConf:
    """Return proxy.conf alone, its paths absolute. Raises ``SettingsError``."""
    sources = sources or Sources()
    conf = validate(ProxyConf, conf_file, sources.read_toml(conf_file))
    if conf.listen.tls_certificate is not None:
        _check_certificate(conf_file, conf.listen.tls_certificate, sources)
    return conf


def load_settings(
    conf_file: Path,
    env: Mapping[str, str] | None = None,
    *,
    running: ProxyConf | None = None,
    sources: Sources | None = None,
) -> Settings:
    """Return all files as one ``Settings``; ``env`` is ``os.environ`` unless given. Raises ``SettingsError``.

    ``running`` is the conf of a process that is already up: its ``NEEDS_RESTART`` sections stay as they are.
    ``sources`` receives what was read.
    """
    sources = sources or Sources()
    written = load_conf(conf_file, sources)
    conf = written
    if running is not None:
        conf = written.model_copy(update={name: getattr(running, name) for name in NEEDS_RESTART})
    facts = Facts(conf, os.environ if env is None else env, sources)
    facts.load(conf_file)
    return Settings(
        conf=conf,
        written=written,
        providers=MappingProxyType(facts.providers),
        families=MappingProxyType(facts.families),
        models=MappingProxyType(facts.models),
        workspaces=MappingProxyType(facts.workspaces),
        keys=MappingProxyType(facts.keys),
        policies=load_policies(conf.policies.extra, conf_file, sources),
        sandbox_enabled=facts.sandbox_enabled,
        fingerprint=sources.fingerprint,
    )


def _check_certificate(conf_file: Path, certificate: Path, sources: Sources) -> None:
    try:
        sources.read(certificate)
        # An encrypted key would ask on the terminal; the empty password makes it an error.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, password="")
    except SettingsError as error:
        reason = f"{certificate}: {error.reason}"
    except (ssl.SSLError, OSError, ValueError):
        reason = f"{certificate}: is not a PEM file with a certificate and its unencrypted key"
    else:
        return
    raise SettingsError(conf_file, "listen.tls_certificate", reason)

"""proxy.conf, the catalog and operators' policies: one set, which loads as a whole or not at all.

Tables are checked by ``addon/settings/files_schema.py``, names between files by ``addon/settings/catalog_builder.py``.
Source: docs/configuration.md.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from addon.settings.catalog_builder import Facts
from addon.settings.egress_proxy import EgressProxy, parse_proxy
from addon.settings.files import SettingsError, validate
from addon.settings.files_schema import ProxyConf
from addon.settings.policy_modules import load_policies
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.value_types import SecretReference
from policies.family import Family
from policies.model import Model, Provider
from policies.review import Policy

NEEDS_RESTART: Final = ("listen", "admin", "paths", "state")
"""Sections of proxy.conf whose changes a running gateway can't follow."""


@dataclass(frozen=True, slots=True)
class Base:
    """What all workspaces share. ``digest`` changes with any text of the set; the rest is as in ``Settings``."""

    conf: ProxyConf
    written: ProxyConf
    providers: Mapping[str, Provider]
    families: Mapping[str, Family]
    models: Mapping[str, Model]
    policies: tuple[Policy, ...]
    sandbox_enabled: bool
    egress_proxy: EgressProxy | None
    digest: bytes


def load_base(
    conf_file: Path, env: Mapping[str, str], sources: Sources, running: ProxyConf | None = None
) -> Base:
    """Return the set, traced by ``sources``. Raises ``SettingsError``.

    ``running`` is the conf of a process that is already up: its ``NEEDS_RESTART`` sections stay as they are.
    """
    conf = written = load_conf(conf_file, sources)
    if running is not None:
        conf = written.model_copy(update={name: getattr(running, name) for name in NEEDS_RESTART})
    facts = Facts(conf, env, sources)
    facts.load(conf_file)
    policies = load_policies(conf.policies.extra, conf_file, sources)
    return Base(
        conf=conf,
        written=written,
        providers=MappingProxyType(facts.providers),
        families=MappingProxyType(facts.families),
        models=MappingProxyType(facts.models),
        policies=policies,
        sandbox_enabled=facts.sandbox_enabled,
        egress_proxy=_egress_proxy(conf.upstream.proxy, conf_file, Secrets(env, sources)),
        digest=sources.digest,
    )


def _egress_proxy(setting: SecretReference | str, conf_file: Path, secrets: Secrets) -> EgressProxy | None:
    """Return the proxy, which must be there where one is named: nothing goes past it."""
    if not setting:
        return None
    try:
        url = setting if isinstance(setting, str) else secrets.read(setting, conf_file.parent)
        if not url:
            raise ValueError("the environment variable that it names is not set")
        return parse_proxy(url)
    except ValueError as error:
        raise SettingsError(conf_file, "upstream.proxy", str(error)) from None


def load_conf(conf_file: Path, sources: Sources | None = None) -> ProxyConf:
    """Return proxy.conf alone, its paths absolute. Raises ``SettingsError``."""
    sources = sources or Sources()
    conf = validate(ProxyConf, conf_file, sources.read_toml(conf_file))
    if conf.listen.tls_certificate is not None:
        _check_certificate(conf_file, conf.listen.tls_certificate, sources)
    return conf


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

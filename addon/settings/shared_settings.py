"""The settings that all workspaces share: proxy.conf, the catalog and operators' policies.

They load as one set, or not at all. ``conf_schema`` and ``catalog_schema`` check the tables, ``catalog_builder`` the
names that refer to other files. Source: docs/configuration.md.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from addon.settings.alert_target import AlertTarget, load_alert_target
from addon.settings.catalog_builder import CatalogBuilder
from addon.settings.conf_schema import ProxyConf, State
from addon.settings.console_password import ConsolePassword, load_console_password
from addon.settings.egress_proxy import EgressProxy, parse_proxy
from addon.settings.errors import ErrorList, SettingsError, raise_first
from addon.settings.gateway_secrets import GatewaySecrets, load_gateway_secrets
from addon.settings.ledger_url import read_ledger_url
from addon.settings.policy_modules import load_policies
from addon.settings.redis_url import read_redis_url
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.validation import validate
from addon.settings.value_types import SecretReference
from policies.family import Family
from policies.model import Model
from policies.provider import Provider
from policies.review import Policy

NEEDS_RESTART: Final = ("listen", "admin", "paths", "state", "ledger", "log")
"""The sections of proxy.conf whose changes take effect only after a restart."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """One set of shared settings. ``digest`` changes with any text of the set.

    For the rest see ``Settings``.
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
    policies: tuple[Policy, ...]
    sandbox_enabled: bool
    egress_proxy: EgressProxy | None
    alert_target: AlertTarget | None
    console_password: ConsolePassword | None
    gateway_secrets: GatewaySecrets
    digest: bytes

    def equals_for_workspaces(self, other: "SharedSettings") -> bool:
        """Return whether workspaces can't differ with ``other``.

        They can't if providers, secrets, and the names of models with what they serve are the same.
        So most changes of proxy.conf, or of a price, resolve no workspace again.
        """
        return (
            self.providers == other.providers
            and self.gateway_secrets == other.gateway_secrets
            and _serves_by_slug(self.models) == _serves_by_slug(other.models)
        )


def _serves_by_slug(models: Mapping[str, Model]) -> dict[str, str | None]:
    return {slug: model.serves for slug, model in models.items()}


@dataclass(frozen=True, slots=True)
class SharedAttempt:
    """An attempt to load the set, with all its ``errors``.

    ``conf`` is None when not even the folders are known, ``shared`` when the catalog does not load.
    """

    conf: ProxyConf | None
    shared: SharedSettings | None
    errors: tuple[SettingsError, ...]


def load_shared_settings(
    conf_file: Path, env: Mapping[str, str], sources: Sources, running: ProxyConf | None = None
) -> SharedSettings:
    """Load the set; its digest is that of ``sources``. Raises ``SettingsError`` with all errors.

    ``running`` is the conf of a process that is already up. Its ``NEEDS_RESTART`` sections stay in force.
    """
    attempt = try_shared_settings(conf_file, env, sources, running)
    raise_first(attempt.errors)
    assert attempt.shared  # noqa: S101  (without an error, the set has loaded)
    return attempt.shared


def try_shared_settings(
    conf_file: Path, env: Mapping[str, str], sources: Sources, running: ProxyConf | None = None
) -> SharedAttempt:
    """Load as much of the set as possible. Sections of proxy.conf that do not load have their defaults."""
    errors = ErrorList()
    written = _load_good_sections(conf_file, sources, errors)
    if written is None:
        return SharedAttempt(None, None, tuple(errors.found))
    conf = written
    if running is not None:
        conf = written.model_copy(update={name: getattr(running, name) for name in NEEDS_RESTART})
    catalog = CatalogBuilder(conf, env, sources)
    errors.attempt(catalog.build, conf_file)
    others = _load_others(conf_file, conf, written, env, sources, errors)
    used = load_gateway_secrets(conf_file, (written, conf), catalog.key_uses, env, sources)
    shared = (
        _join(conf_file, conf, written, catalog, others, used, sources.digest) if catalog.is_built else None
    )
    return SharedAttempt(conf, shared, tuple(errors.found))


class _Others(NamedTuple):
    """The parts of the set that are neither proxy.conf nor the catalog. None: not configured, or it does not load."""

    policies: tuple[Policy, ...] | None
    egress_proxy: EgressProxy | None
    alert_target: AlertTarget | None
    console_password: ConsolePassword | None


def _load_others(
    conf_file: Path,
    conf: ProxyConf,
    written: ProxyConf,
    env: Mapping[str, str],
    sources: Sources,
    errors: ErrorList,
) -> _Others:
    secrets = Secrets(env, sources, conf.paths.master_keys)
    policies = errors.attempt(load_policies, conf.policies.extra, conf_file, sources)
    egress_proxy = errors.attempt(_load_egress_proxy, conf.upstream.proxy, conf_file, secrets)
    errors.attempt(_check_redis_url, written.state, conf_file, secrets)
    errors.attempt(_check_ledger_url, written, conf_file, secrets)
    alert_target = errors.attempt(load_alert_target, conf.alerts, conf_file, secrets)
    console_password = errors.attempt(load_console_password, conf.admin, conf_file, secrets)
    return _Others(policies, egress_proxy, alert_target, console_password)


def _join(
    conf_file: Path,
    conf: ProxyConf,
    written: ProxyConf,
    catalog: CatalogBuilder,
    others: _Others,
    gateway_secrets: GatewaySecrets,
    digest: bytes,
) -> SharedSettings:
    return SharedSettings(
        conf_file=conf_file,
        conf=conf,
        written=written,
        providers=MappingProxyType(catalog.providers),
        provider_files=MappingProxyType(catalog.provider_files),
        families=MappingProxyType(catalog.families),
        models=MappingProxyType(catalog.models),
        overlaid_slugs=catalog.overlaid_slugs,
        unknown_hidden=catalog.unknown_hidden,
        policies=others.policies or (),
        sandbox_enabled=catalog.sandbox_enabled,
        egress_proxy=others.egress_proxy,
        alert_target=others.alert_target,
        console_password=others.console_password,
        gateway_secrets=gateway_secrets,
        digest=digest,
    )


def _load_good_sections(conf_file: Path, sources: Sources, errors: ErrorList) -> ProxyConf | None:
    """Return proxy.conf with the sections that load, None when ``[paths]`` does not: no other file is known then."""
    with errors.collect():
        return load_conf(conf_file, sources)
    good = {}
    with suppress(SettingsError):
        for name, section in sources.read_toml(conf_file).items():
            try:
                validate(ProxyConf, conf_file, {name: section})
            except SettingsError:
                if name == "paths":
                    raise
            else:
                good[name] = section
        return validate(ProxyConf, conf_file, good)
    return None


def _load_egress_proxy(
    setting: SecretReference | str, conf_file: Path, secrets: Secrets
) -> EgressProxy | None:
    """Return the egress proxy, or None when none is configured.

    Raises ``SettingsError`` when its URL can't be read: calls must never go past a configured proxy.
    """
    if not setting:
        return None
    try:
        return parse_proxy(
            setting if isinstance(setting, str) else secrets.require(setting, conf_file.parent)
        )
    except ValueError as error:
        raise SettingsError(conf_file, "upstream.proxy", str(error)) from None


def _check_redis_url(state: State, conf_file: Path, secrets: Secrets) -> None:
    """Raise ``SettingsError`` when the URL of Redis is needed, but can't be read."""
    try:
        if state.backend == "redis":
            read_redis_url(state.redis_url, secrets)
    except ValueError as error:
        raise SettingsError(conf_file, "state.redis_url", str(error)) from None


def _check_ledger_url(conf: ProxyConf, conf_file: Path, secrets: Secrets) -> None:
    """Raise ``SettingsError`` when the URL of the ledger can't be read."""
    try:
        if conf.ledger.url:
            read_ledger_url(conf.ledger.url, secrets)
    except ValueError as error:
        raise SettingsError(conf_file, "ledger.url", str(error)) from None


def load_conf(conf_file: Path, sources: Sources | None = None) -> ProxyConf:
    """Return proxy.conf alone, its paths absolute. Raises ``SettingsError``."""
    sources = sources or Sources()
    conf = validate(ProxyConf, conf_file, sources.read_toml(conf_file))
    # The process that made a copy has checked it.
    if conf.listen.tls_certificate is not None and not sources.is_copy:
        _check_certificate(conf_file, conf.listen.tls_certificate, sources)
    return conf


def _check_certificate(conf_file: Path, certificate: Path, sources: Sources) -> None:
    import ssl  # It takes long to import, and most commands read no certificate.

    try:
        sources.read(certificate)
        # An encrypted key would ask for its password on the terminal. The empty password turns that into an error.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, password="")
    except SettingsError as error:
        reason = f"{certificate}: {error.reason}"
    except (ssl.SSLError, OSError, ValueError):
        reason = f"{certificate}: is not a PEM file with a certificate and its unencrypted key"
    else:
        return
    raise SettingsError(conf_file, "listen.tls_certificate", reason)

"""One workspace file becomes one ``Workspace``: strictly, or, where it was good before, with what is left of the rest.

Source: docs/configuration.md, "Edits".
"""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from addon.settings.base import Base
from addon.settings.files import SettingsError, check_known, dotted, validate
from addon.settings.files_schema import KeyTable, WorkspaceTable
from addon.settings.secrets import Secrets
from addon.settings.sources import parse_toml
from addon.settings.value_types import NAME, NAME_IS
from policies.model import Byok, Heuristic, Key, KeywordRule, Provider, Workspace


def parse_workspace(file: Path, said: bytes) -> WorkspaceTable:
    """Return the table that ``file`` says, checked by itself. Raises ``SettingsError``."""
    if not NAME.fullmatch(file.stem):
        raise SettingsError(file, "", f"the file's name is the workspace's id; it must be {NAME_IS}")
    table = validate(WorkspaceTable, file, parse_toml(said, file))
    ids: set[str] = set()
    hashes: dict[str, str] = {}
    for index, key in enumerate(table.keys):
        if key.id in ids:
            raise SettingsError(file, dotted("keys", index, "id"), f'"{key.id}" is used twice')
        ids.add(key.id)
        if (other := hashes.setdefault(key.hash, key.id)) != key.id:
            raise same_hash(file, index, other, file.stem)
    return table


def same_hash(file: Path, index: int, other_key: str, other_workspace: str) -> SettingsError:
    """Return the fault of a key whose hash another one claims."""
    reason = f'the same hash as key "{other_key}" of workspace "{other_workspace}"'
    return SettingsError(file, dotted("keys", index, "hash"), reason)


def resolve_workspace(table: WorkspaceTable, file: Path, base: Base, secrets: Secrets) -> Workspace:
    """Return the workspace that ``table`` describes; every name must exist. Raises ``SettingsError``."""
    for path, slug in _models_named(table):
        check_known(slug, base.models, file, *path, kind="model")
    byok = {}
    for name, own in table.byok.items():
        provider = base.providers[check_known(name, base.providers, file, "byok", name, kind="provider")]
        if not _takes_keys(provider):
            raise SettingsError(file, dotted("byok", name), "the provider takes no key")
        byok[name] = Byok(secrets.find(own.secret, provider.auth, file, "byok", name, "secret"), own.routing)
    return _workspace(table, file, byok)


def resolve_last_good(
    table: WorkspaceTable, file: Path, base: Base, secrets: Secrets, served: Workspace | None
) -> Workspace:
    """Return the workspace that ``table`` describes, as far as the catalog and the secrets of today go.

    A model or provider that is gone refuses the calls that need it, and no other. A secret that can't be read stays
    the one of ``served``, which the workspace has been until now.
    """
    byok = {}
    for name, own in table.byok.items():
        provider, secret = base.providers.get(name), None
        if provider and _takes_keys(provider):
            try:
                secret = secrets.find(own.secret, provider.auth, file, "byok", name, "secret")
            except SettingsError:
                secret = served.byok[name].secret if served and name in served.byok else None
        # Without the entry, the calls would be paid from the platform's key.
        byok[name] = Byok(secret, own.routing)
    return _workspace(table, file, byok)


def _workspace(table: WorkspaceTable, file: Path, byok: dict[str, Byok]) -> Workspace:
    return Workspace(
        id=file.stem,
        name=table.name,
        plan=table.plan,
        keys=tuple(_key(key) for key in table.keys),
        rpm_override=table.rpm_override,
        monthly_spend_cap_nanousd=table.monthly_spend_cap_usd,
        overage_protection=table.overage_protection,
        states_overage_protection="overage_protection" in table.model_fields_set,
        default_model=table.default_model,
        fallback_model=table.fallback_model,
        safety_net=table.safety_net,
        byok=MappingProxyType(byok),
        rules=tuple(KeywordRule(rule.keywords, rule.model) for rule in table.rules),
        heuristics=tuple(Heuristic(h.when, h.model, h.threshold_tokens) for h in table.heuristics),
    )


def _takes_keys(provider: Provider) -> bool:
    return provider.auth != "none" and not provider.builtin


def _key(table: KeyTable) -> Key:
    return Key(
        id=table.id,
        hash=table.hash,
        active=table.active,
        spend_cap_nanousd=table.spend_cap_usd,
        spend_reset=table.spend_reset,
        request_cap=table.request_cap,
        request_reset=table.request_reset,
    )


def _models_named(table: WorkspaceTable) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every place of a workspace file that names a model, with the name."""
    for key in ("default_model", "fallback_model"):
        if (slug := getattr(table, key)) is not None:
            yield (key,), slug
    for key in ("rules", "heuristics"):
        for index, entry in enumerate(getattr(table, key)):
            yield (key, index, "model"), entry.model

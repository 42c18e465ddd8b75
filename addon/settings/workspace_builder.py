"""A ``Workspace``, made from its file. A file must resolve fully; a last good text resolves as far as it can.

Source: docs/configuration.md, "Edits".
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import SecretStr

from addon.settings.errors import (
    MAX_ERRORS,
    Entry,
    ErrorList,
    SettingsError,
    join_key_path,
    raise_first,
)
from addon.settings.file_content import decode_text, parse_toml
from addon.settings.secrets import Secrets
from addon.settings.shared_settings import SharedSettings
from addon.settings.validation import check_known, validate
from addon.settings.value_types import NAME, NAME_IS
from addon.settings.workspace_schema import ByokTable, KeyTable, WorkspaceTable
from addon.text.toml import find_line
from policies.aliases import Alias, Aliases
from policies.allowed_models import AllowedModels, fold_slug
from policies.model import Budget, Byok, Key, Workspace
from policies.provider import Provider
from policies.routing_rules import Heuristic, KeywordRule

_OVERRIDE: Final = "rpm_override"


def parse_workspace(file: Path, content: bytes) -> WorkspaceTable:
    """Return the table in the content of ``file``, checked without other files.

    Raises ``SettingsError`` with all errors.
    """
    if not NAME.fullmatch(file.stem):
        raise SettingsError(file, "", f"the file's name is the workspace's id; it must be {NAME_IS}")
    return _check_distinct(_validate(file, content), file)


def parse_without_override(file: Path, content: bytes, error: SettingsError) -> WorkspaceTable | None:
    """Return the table with an ``rpm_override`` of 1, if ``error`` says that this value can't be read and no more.

    Raises ``SettingsError`` when then the table has other errors.
    """
    if any(one.key != _OVERRIDE for one in error.all):
        return None
    table = parse_toml(content, file) | {_OVERRIDE: 1}
    return _check_distinct(validate(WorkspaceTable, file, table), file)


def _validate(file: Path, content: bytes) -> WorkspaceTable:
    table = parse_toml(content, file)
    try:
        return validate(WorkspaceTable, file, table)
    except SettingsError as error:
        line = find_line(decode_text(content, file), _OVERRIDE)
        raise_first(_name_line(one, line) for one in error.all)
        raise


def _name_line(error: SettingsError, line: int | None) -> SettingsError:
    if line is None or error.key != _OVERRIDE:
        return error
    return SettingsError(error.file, error.key, f"{error.reason} (at line {line})")


def _check_distinct(table: WorkspaceTable, file: Path) -> WorkspaceTable:
    ids: set[str] = set()
    hashes: dict[str, str] = {}
    errors = ErrorList()
    for index, key in enumerate(table.keys):
        if key.id in ids:
            errors.add(SettingsError(file, join_key_path("keys", index, "id"), f'"{key.id}" is used twice'))
        ids.add(key.id)
        for key_hash in key.hashes:
            if (other := hashes.setdefault(key_hash, key.id)) != key.id:
                errors.add(duplicate_hash_error(file, index, key, key_hash, other, file.stem))
    for array, name, values in (
        ("budgets", "for", [one.of for one in table.budgets]),
        ("aliases", "name", [fold_slug(one.name) for one in table.aliases]),
    ):
        for index, value in enumerate(values):
            if value in values[:index]:
                errors.add(SettingsError(file, join_key_path(array, index, name), f'"{value}" is used twice'))
    errors.raise_found()
    return table


def duplicate_hash_error(
    file: Path, index: int, key: KeyTable, key_hash: str, other_key: str, other_workspace: str
) -> SettingsError:
    """Return the error of ``key`` at ``index``, one of whose hashes another key claims too."""
    reason = f'the same hash as key "{other_key}" of workspace "{other_workspace}"'
    name = "hash" if key.hash == key_hash else "previous_hash"
    return SettingsError(file, join_key_path("keys", Entry(index, key.id), name), reason)


def resolve_workspace(
    table: WorkspaceTable, file: Path, shared: SharedSettings, secrets: Secrets
) -> Workspace:
    """Return the workspace that ``table`` describes. Raises ``SettingsError`` with each name that does not exist."""
    errors = ErrorList(MAX_ERRORS)
    for path, slug in _find_model_names(table):
        with errors.collect():
            check_known(slug, shared.models, file, *path, kind="model")
            if path[0] != "aliases" and shared.models[slug].serves != "chat":
                reason = f'"{slug}" makes embeddings, so it serves no chat call'
                raise SettingsError(file, join_key_path(*path), reason)
    byok = {}
    for name, own in table.byok.items():
        with errors.collect():
            byok[name] = _resolve_byok(own, name, file, shared, secrets)
    errors.raise_found()
    return _make_workspace(table, file, byok)


def _resolve_byok(own: ByokTable, name: str, file: Path, shared: SharedSettings, secrets: Secrets) -> Byok:
    provider = shared.providers[check_known(name, shared.providers, file, "byok", name, kind="provider")]
    if not can_take_keys(provider):
        raise SettingsError(file, join_key_path("byok", name), "the provider takes no key")
    secret = _read_own_secret(own, provider, file, shared, secrets)
    return Byok(secret, own.routing, own.secret.variable)


class _GatewaySecretError(SettingsError):
    """A workspace names a secret of the gateway."""


def _read_own_secret(
    own: ByokTable, provider: Provider, file: Path, shared: SharedSettings, secrets: Secrets
) -> SecretStr | None:
    """Return a customer's secret, None where its variable is not set. Raises ``SettingsError``."""
    place = shared.gateway_secrets.find_reference(own.secret, file.parent)
    path = ("byok", provider.name, "secret")
    secret = None if place else secrets.find(own.secret, provider.auth, file, *path)
    if place := place or shared.gateway_secrets.find_secret(secret):
        reason = f"is a secret of the gateway, which no workspace may use: that of {place}"
        raise _GatewaySecretError(file, join_key_path(*path), reason)
    return secret


def resolve_last_good(
    table: WorkspaceTable, file: Path, shared: SharedSettings, secrets: Secrets, served: Workspace | None
) -> Workspace:
    """Return the workspace that ``table`` describes, as far as the current catalog and secrets allow.

    When a model or provider is gone, only the calls that need it are refused. For a secret that can't be read, keep
    the secret of ``served``, the workspace as it was served until now. A secret of the gateway is never used.
    """
    byok = {}
    for name, own in table.byok.items():
        provider, secret = shared.providers.get(name), None
        if provider and can_take_keys(provider):
            try:
                secret = _read_own_secret(own, provider, file, shared, secrets)
            except _GatewaySecretError:
                secret = None
            except SettingsError:
                secret = _find_served_secret(name, shared, served)
        # Without the entry, the platform would pay for the calls.
        byok[name] = Byok(secret, own.routing, own.secret.variable)
    return _make_workspace(table, file, byok)


def _find_served_secret(name: str, shared: SharedSettings, served: Workspace | None) -> SecretStr | None:
    secret = served.byok[name].secret if served and name in served.byok else None
    return None if shared.gateway_secrets.find_secret(secret) else secret


def _make_workspace(table: WorkspaceTable, file: Path, byok: dict[str, Byok]) -> Workspace:
    return Workspace(
        id=file.stem,
        name=table.name,
        plan=table.plan,
        keys=tuple(_make_key(key) for key in table.keys),
        rpm_override=table.rpm_override,
        tpm=table.tpm,
        monthly_spend_cap_nanousd=table.monthly_spend_cap_usd,
        overage_protection=table.overage_protection,
        states_overage_protection="overage_protection" in table.model_fields_set,
        default_model=table.default_model,
        fallback_model=table.fallback_model,
        context_fallback_model=table.context_fallback_model,
        safety_net=table.safety_net,
        alert_at_percent=table.alert_at_percent,
        hosted_tools=frozenset(table.hosted_tools),
        byok=MappingProxyType(byok),
        rules=tuple(KeywordRule(rule.keywords, rule.model) for rule in table.rules),
        heuristics=tuple(Heuristic(h.when, h.model, h.threshold_tokens) for h in table.heuristics),
        aliases=Aliases(tuple(Alias(one.name, one.model) for one in table.aliases)),
        budgets=tuple(
            Budget(one.of, one.spend_cap_usd, one.spend_reset, one.required, one.rpm, one.tpm)
            for one in table.budgets
        ),
    )


def remove_keys(workspace: Workspace, refused: frozenset[str]) -> Workspace:
    """Return a workspace without the keys of these hashes, and without previous secrets of these hashes."""
    if not refused:
        return workspace
    keys = [key for key in workspace.keys if key.hash not in refused]
    kept = tuple(
        replace(key, previous_hash=None, previous_until=None) if key.previous_hash in refused else key
        for key in keys
    )
    return replace(workspace, keys=kept)


def can_take_keys(provider: Provider) -> bool:
    """Return whether a customer may have an own key for a provider."""
    return provider.auth != "none" and not provider.builtin


def _make_key(table: KeyTable) -> Key:
    return Key(
        id=table.id,
        hash=table.hash,
        active=table.active,
        spend_cap_nanousd=table.spend_cap_usd,
        spend_reset=table.spend_reset,
        request_cap=table.request_cap,
        request_reset=table.request_reset,
        tpm=table.tpm,
        label=table.label,
        expires_at=table.expires_at,
        models=None if table.models is None else AllowedModels(table.models),
        previous_hash=table.previous_hash,
        previous_until=table.previous_until,
    )


def _find_model_names(table: WorkspaceTable) -> Iterator[tuple[tuple[str | Entry, ...], str]]:
    """Return the key path and the name of each model in a workspace file."""
    for key in ("default_model", "fallback_model", "context_fallback_model"):
        if (slug := getattr(table, key)) is not None:
            yield (key,), slug
    for index, rule in enumerate(table.rules):
        yield ("rules", Entry(index, rule.keywords[0]), "model"), rule.model
    for index, heuristic in enumerate(table.heuristics):
        yield ("heuristics", Entry(index, heuristic.when), "model"), heuristic.model
    for index, alias in enumerate(table.aliases):
        yield ("aliases", Entry(index, alias.name), "model"), alias.model

"""Warnings about settings that load, but can't serve all that they name.

``tollgate check`` and the log of ``serve`` show the same list. Source: docs/commands.md, "tollgate check".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Literal

from policies.alert_rules import KEY_LEAD_S
from policies.fallback import find_unserved_reason
from policies.key_models import find_idle_patterns
from policies.limits import is_exposed
from policies.model import Key, Model, Workspace
from policies.provider import Provider
from policies.token_limits import LEAST_ANSWERS, find_likely_tokens
from policies.utc_time import format_utc

type WarningKind = Literal[
    "no_active_key",
    "platform_key_unset",
    "base_url_has_path",
    "own_key_unset",
    "model_unserved",
    "key_expired",
    "key_expires_soon",
    "key_models_match_nothing",
    "overage_protection_off",
    "rpm_override_below_1",
    "tpm_below_likely_call",
    "quota_below_workers",
    "overlay_hides_nothing",
    "alerts_unset",
    "redis_password_bare",
    "ledger_password_bare",
    "ledger_no_standby",
    "ledger_commits_early",
    "ledger_not_on_disk",
    "console_closed",
    "console_password_common",
    "open_to_others",
    "copies_stale",
]
type WarningPlace = Literal["workspaces", "workspace", "providers", "models"]

_EXPIRES_SOON: Final = timedelta(seconds=max(KEY_LEAD_S))
_CHAT_PATH: Final = "/chat/completions"
_ADDED_PATHS: Final = MappingProxyType({"anthropic": ("/messages",), "gemini": ("/models",)})
"""The paths that each dialect adds to ``base_url``, apart from ``chat_path``."""


@dataclass(frozen=True, slots=True)
class SettingsWarning:
    """One warning. Its file is that of the ``place``, and of the workspace or provider ``name`` where there is one."""

    kind: WarningKind
    place: WarningPlace
    name: str
    key: str
    reason: str


def find_warnings(
    providers: Mapping[str, Provider],
    models: Mapping[str, Model],
    workspaces: Mapping[str, Workspace],
    now: datetime,
    unknown_hidden: Iterable[str] = (),
    workers: int = 1,
) -> list[SettingsWarning]:
    """Return all warnings at ``now`` (UTC), those about the catalog first.

    ``unknown_hidden`` as in ``Settings``. ``workers`` are the processes of this machine that serve calls.
    """
    return [
        *_check_platform_keys(providers.values(), models.values()),
        *_check_base_urls(providers.values()),
        *_check_hidden(unknown_hidden),
        *_check_quotas(models.values(), workers),
        *_check_active_keys(workspaces.values(), now),
        *(warning for workspace in workspaces.values() for warning in _check_workspace(workspace, models)),
        *(warning for workspace in workspaces.values() for warning in _check_keys(workspace, models, now)),
    ]


def find_new_warnings(
    models: Mapping[str, Model],
    others: Collection[Workspace],
    before: Workspace | None,
    after: Workspace,
    now: datetime,
) -> list[SettingsWarning]:
    """Return the warnings that the change of one workspace brings. ``others`` are the other workspaces."""

    def find(workspace: Workspace | None) -> list[SettingsWarning]:
        if workspace is None:
            return [*_check_active_keys(others, now)]
        return [
            *_check_active_keys([workspace, *others], now),
            *_check_workspace(workspace, models),
            *_check_keys(workspace, models, now),
        ]

    known = frozenset(find(before))
    return [one for one in find(after) if one not in known]


def _check_platform_keys(
    providers: Collection[Provider], models: Iterable[Model]
) -> Iterator[SettingsWarning]:
    served = [model for model in models if model.active and not model.byok_only]
    used = {place.provider.name for model in served for place in model.places}
    lacking = [one for one in providers if one.unset_variables and one.name in used]
    others = [one for one in providers if one.platform_secret is not None and one.name in used]
    if lacking and not others and any(one.builtin and one.name in used for one in providers):
        variables = _join_variables(lacking)
        reason = f"no platform key is set, so only the built-in provider answers; set one of {variables}"
        yield SettingsWarning("platform_key_unset", "providers", "", "", reason)
        return
    unserved = [one for one in lacking if not one.platform_keys]
    if len(unserved) > 1:
        names = ", ".join(one.name for one in unserved)
        reason = (
            f"no platform key is set for {names}, so their models serve only calls with customers' own keys;"
            f" the variables are {_join_variables(unserved)}"
        )
        yield SettingsWarning("platform_key_unset", "providers", "", "", reason)
    for provider in lacking:
        if provider.platform_keys or len(unserved) == 1:
            yield _describe_unset(provider)


def _join_variables(providers: Iterable[Provider]) -> str:
    """Return the variables that are not set, each once: two providers may share one."""
    return ", ".join(dict.fromkeys(variable for one in providers for variable in one.unset_variables))


def _describe_unset(provider: Provider) -> SettingsWarning:
    key = f"{provider.name}.platform_key{'s' if provider.keys_written > 1 else ''}"
    variables = ", ".join(provider.unset_variables)
    verb = "is" if len(provider.unset_variables) == 1 else "are"
    if provider.platform_keys:
        effect = "; the other keys are used"
    else:
        effect = ", so its models serve only calls with customers' own keys"
    reason = f"{variables} {verb} not set{effect}"
    return SettingsWarning("platform_key_unset", "providers", provider.name, key, reason)


def _check_base_urls(providers: Iterable[Provider]) -> Iterator[SettingsWarning]:
    for provider in providers:
        if path := _find_repeated_path(provider):
            reason = f"ends in {path}, which the gateway adds itself; leave it out"
            yield SettingsWarning(
                "base_url_has_path", "providers", provider.name, f"{provider.name}.base_url", reason
            )


def _find_repeated_path(provider: Provider) -> str | None:
    """Return the end of ``base_url`` that each call would have twice."""
    paths: tuple[str, ...] = _ADDED_PATHS.get(provider.dialect, ())
    if provider.dialect == "openai":
        own = provider.chat_path.partition("?")[0]
        paths = () if own == "/" else (own, _CHAT_PATH, provider.responses_path.partition("?")[0])
    return next((path for path in paths if provider.base_url.endswith(path)), None)


def _check_hidden(unknown_hidden: Iterable[str]) -> Iterator[SettingsWarning]:
    for slug in unknown_hidden:
        reason = "hides no model: the catalog has none of this name"
        yield SettingsWarning("overlay_hides_nothing", "models", "", f'"{slug}"', reason)


def _check_quotas(models: Iterable[Model], workers: int) -> Iterator[SettingsWarning]:
    """Yield a warning for each limit of a place that is less than one for each worker."""
    seen: set[str] = set()
    for model in models:
        for place in model.places:
            if place.quota is None or place.place in seen:
                continue
            seen.add(place.place)
            for name, limit in place.quota.limits.items():
                if limit < workers:
                    less = f"is {limit}, less than the {workers} workers, of which each may use 1"
                    reason = f"{name} of {place.place} {less}"
                    yield SettingsWarning("quota_below_workers", "models", "", f'"{model.slug}"', reason)


def _check_active_keys(workspaces: Collection[Workspace], now: datetime) -> Iterator[SettingsWarning]:
    if any(key.why_refused(now) is None for workspace in workspaces for key in workspace.keys):
        return
    lacks = "no workspace has an active key" if workspaces else "there is no workspace"
    reason = f"{lacks}, so every call is refused; make one: tollgate keys create NAME --new"
    yield SettingsWarning("no_active_key", "workspaces", "", "", reason)


def _check_workspace(workspace: Workspace, models: Mapping[str, Model]) -> Iterator[SettingsWarning]:
    for name, own in workspace.byok.items():
        if own.secret is None and own.variable:
            effect = "; calls that need it are refused" if own.routing else ""
            reason = f"{own.variable} is not set{effect}"
            yield SettingsWarning("own_key_unset", "workspace", workspace.id, f"byok.{name}.secret", reason)
    for key, slug in _find_named_models(workspace):
        if why := find_unserved_reason(models.get(slug), workspace):
            reason = f"{slug} serves no call: {why}"
            yield SettingsWarning("model_unserved", "workspace", workspace.id, key, reason)
    if workspace.rpm_override is not None and workspace.rpm_override < 1:
        reason = "is below 1, and counts as 1"
        yield SettingsWarning("rpm_override_below_1", "workspace", workspace.id, "rpm_override", reason)
    if workspace.tpm is not None:
        yield from _check_tpm(workspace.tpm, "tpm", workspace, models.values())
    for index, budget in enumerate(workspace.budgets):
        if budget.tpm is not None:
            place = f"budgets[{index}] ({budget.of}).tpm"
            yield from _check_tpm(budget.tpm, place, workspace, models.values())
    if is_exposed(workspace):
        reason = "is off, so calls at once may cost far more than is left in the wallet"
        yield SettingsWarning(
            "overage_protection_off", "workspace", workspace.id, "overage_protection", reason
        )


def _check_keys(
    workspace: Workspace, models: Mapping[str, Model], now: datetime
) -> Iterator[SettingsWarning]:
    """Yield the warnings about active keys. A key that is not active serves nothing on purpose."""
    for index, key in enumerate(workspace.keys):
        path = f"keys[{index}] ({key.id})"
        if key.active and key.expires_at is not None and key.expires_at - now <= _EXPIRES_SOON:
            is_over = key.expires_at <= now
            kind: WarningKind = "key_expired" if is_over else "key_expires_soon"
            reason = f"the key {'expired' if is_over else 'expires'} at {format_utc(key.expires_at)}"
            yield SettingsWarning(kind, "workspace", workspace.id, f"{path}.expires_at", reason)
        if key.active and key.tpm is not None:
            yield from _check_tpm(key.tpm, f"{path}.tpm", workspace, _find_allowed(key, models))
        for pattern in find_idle_patterns(key, workspace, models) if key.active else ():
            reason = f"{pattern} matches no model of the catalog"
            yield SettingsWarning(
                "key_models_match_nothing", "workspace", workspace.id, f"{path}.models", reason
            )


def _find_allowed(key: Key, models: Mapping[str, Model]) -> list[Model]:
    return [one for one in models.values() if key.models is None or key.models.allows(one.slug)]


def _check_tpm(
    tpm: int, place: str, workspace: Workspace, models: Iterable[Model]
) -> Iterator[SettingsWarning]:
    """Yield a warning if a limit is less than a call without a cap takes of it, for a model that is served."""
    takes = {
        one.slug: likely
        for one in models
        if (likely := find_likely_tokens(one.max_completion_tokens, 1)) > tpm
        and find_unserved_reason(one, workspace) is None
    }
    if takes:
        most = max(takes, key=takes.__getitem__)
        others = f" and {len(takes) - 1} more models" if len(takes) > 1 else ""
        reason = (
            f"is less than a call without a cap takes for {most} ({takes[most]}){others};"
            f" until {LEAST_ANSWERS} answers of the model are known, such calls are refused"
        )
        yield SettingsWarning("tpm_below_likely_call", "workspace", workspace.id, place, reason)


def _find_named_models(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield the key and the slug of each model that a workspace's file names."""
    if workspace.default_model is not None:
        yield "default_model", workspace.default_model
    if workspace.fallback_model is not None:
        yield "fallback_model", workspace.fallback_model
    if workspace.context_fallback_model is not None:
        yield "context_fallback_model", workspace.context_fallback_model
    for index, rule in enumerate(workspace.rules):
        yield f"rules[{index}] ({rule.keywords[0]}).model", rule.model
    for index, heuristic in enumerate(workspace.heuristics):
        yield f"heuristics[{index}] ({heuristic.when}).model", heuristic.model
    for index, alias in enumerate(workspace.aliases):
        yield f"aliases[{index}] ({alias.name}).model", alias.model

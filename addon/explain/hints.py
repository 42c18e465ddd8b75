"""Hints for an explanation that may differ in a gateway whose environment has other keys."""

from typing import Final

from addon.explain.explanation import Explanation, Refused
from addon.settings.settings import Settings
from policies.model import Workspace

BUILT_IN_HINT: Final = "The built-in provider serves while no provider key is set."


def serves_built_in(explanation: Explanation, settings: Settings) -> bool:
    """Return whether the built-in provider serves the call only because no provider key is set."""
    providers = [attempt.target.model.provider for attempt in explanation.attempts]
    return settings.conf.sandbox.enabled == "auto" and any(provider.builtin for provider in providers)


def may_lack_keys(explanation: Explanation, settings: Settings, workspace: Workspace) -> bool:
    """Return whether a key that is not set may be why a call is refused, or has no second attempt."""
    is_key_missing = explanation.no_fallback_reason is not None and " key" in explanation.no_fallback_reason
    may_lack = is_key_missing or _may_lack_a_key(explanation.refused, settings)
    return may_lack and _lacks_keys(settings, workspace)


def _lacks_keys(settings: Settings, workspace: Workspace) -> bool:
    platform = [provider.platform_secret for provider in settings.providers.values() if not provider.builtin]
    return None in platform or any(byok.secret is None for byok in workspace.byok.values())


def _may_lack_a_key(refused: Refused | None, settings: Settings) -> bool:
    """Return whether a missing platform key may be the cause of a refusal.

    Other causes are a model that the catalog turns off or limits to customers' own keys, and a builtin model, which is
    off because there are keys.
    """
    if refused is None or refused.step != "routing":
        return False
    models = settings.models.values()
    if refused.answer.code == "byok_required":
        keyless = [model.slug for model in models if model.needs_own_key and not model.byok_only]
        return any(f"'{slug}'" in refused.answer.message for slug in keyless)
    if refused.answer.code != "invalid_state":
        return False
    turned_off = [model.slug for model in models if not model.active and not model.provider.builtin]
    return not any(f"'{slug}'" in refused.answer.message for slug in turned_off)

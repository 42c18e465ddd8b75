"""What may follow a failed attempt: at most one other, and none after a failure that is the client's own.

Platform-managed: the workspace's fallback model. With a customer's own key: the same model on the platform's key, the
Safety Net, where the catalog's row allows it. Source: contract, "What the service does" (optional fallback) and
"Errors" (byok_required, 402 situations); docs/routing.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from policies.model import Attempt, Model, Workspace
from policies.refusal import Refusal
from policies.spend import Denial, refusal_of

_FAILED_STATUSES = frozenset({401, 403, 408, 429})
# The customer's own account is used up, or lacks the model; the platform's need not.
_FAILED_OWN_STATUSES = frozenset({402, 404})


def is_failure(status: int, *, in_success: bool = False, before_net: bool = False) -> bool:
    """Tell whether an attempt failed as another need not: what a second is made for, and what a circuit counts.

    ``status`` is the normalized one, so 502 and 504 where no answer came; ``in_success``: the provider said 200, and
    then an error, or nothing that can be read; ``before_net``: the attempt is one that the Safety Net follows.
    """
    failed = _FAILED_STATUSES | _FAILED_OWN_STATUSES if before_net else _FAILED_STATUSES
    return in_success or status in failed or status >= 500


@dataclass(frozen=True, slots=True)
class Alone:
    """Nothing follows an attempt. ``why`` is for operators; ``barred`` is told in place of the failure, if anything."""

    why: str
    barred: Refusal | None = None


def second_attempt(first: Attempt, workspace: Workspace, models: Mapping[str, Model]) -> Attempt | Alone:
    """Return what follows ``first`` if it fails, or why nothing does."""
    if first.mode == "byok":
        return _on_the_platform(first.model, models) if workspace.safety_net else Alone("safety_net is off")
    slug = workspace.fallback_model
    if slug is None:
        return Alone("the workspace has no fallback_model")
    if slug == first.model.slug:
        return Alone("fallback_model is the same model")
    fallback = _fallback(models.get(slug), workspace)
    if isinstance(fallback, str):
        return Alone(f"fallback_model {slug} can't serve: {fallback}")
    return fallback


def _on_the_platform(model: Model, models: Mapping[str, Model]) -> Attempt | Alone:
    if model.slug not in models:  # No row allows it, nor has it a price.
        return Alone("the Safety Net serves models of the catalog only")
    if model.byok_only:
        return Alone(f"{model.slug} is byok_only, which bars the Safety Net", _barred(model))
    secret = model.provider.platform_secret
    if secret is None:
        return Alone(f"{model.provider.name} has no platform key for the Safety Net")
    return Attempt(model, "payg", secret, is_fallback=True)


def _barred(model: Model) -> Refusal:
    return Refusal(
        "byok_required",
        f"The call with your own {model.provider.name} key failed, and the Safety Net can't repeat it: "
        f"'{model.slug}' is never served with the platform's keys.",
    )


def _fallback(model: Model | None, workspace: Workspace) -> Attempt | str:
    """Return the attempt at a fallback model, or why that can serve no call of the workspace."""
    if model is None:
        return "it is not in the catalog"
    if not model.active:
        return "it is not active"
    byok = workspace.routed_key(model.provider)
    if byok and byok.secret is not None:
        return Attempt(model, "byok", byok.secret, is_fallback=True)
    if byok or model.byok_only:
        return f"there is no {model.provider.name} key of the workspace's own"
    secret = model.provider.platform_secret
    if secret is None:
        return f"{model.provider.name} has no platform key"
    return Attempt(model, "payg", secret, is_fallback=True)


def idle_fallback(workspace: Workspace, models: Mapping[str, Model]) -> str | None:
    """Return why a workspace's ``fallback_model`` can serve no call, None where it can or there is none."""
    if workspace.fallback_model is None:
        return None
    fallback = _fallback(models.get(workspace.fallback_model), workspace)
    return fallback if isinstance(fallback, str) else None


def refusal_after_failure(denial: Denial, failed: Attempt, now: datetime) -> Refusal | None:
    """Return what a client is told where no limit has room for what follows ``failed``; None: of the failure itself.

    The customer's own key failed, and without the money nothing else is left to try: that must be known to be mended.
    A fallback model is the operator's choice, and no reason to hide why the call's own model failed.
    Source: contract, "402 situations" (Safety Net).
    """
    if failed.mode != "byok":
        return None
    return refusal_of(denial, now, note="cannot use the Safety Net fallback")

"""What may follow a failed attempt: at most one other, and none after a failure that is the client's own.

Platform-managed: the workspace's fallback model. With a customer's own key: the same model on the platform's key, the
Safety Net, where the catalog's row allows it. Source: contract, "What the service does" (optional fallback) and
"Errors" (byok_required, 402 situations); docs/routing.md.
"""

from collections.abc import Mapping

from policies.facts import Attempt, Model, Workspace
from policies.refusal import Refusal
from policies.spend import Denial, refusal_of

_FAILED_STATUSES = frozenset({401, 403, 408, 429})


def is_failure(status: int, *, in_success: bool = False) -> bool:
    """Tell whether an attempt failed as another need not: what a second is made for, and what a circuit counts.

    ``status`` is the normalized one, so 502 and 504 where no answer came; ``in_success``: the provider said 200, and
    then an error, or nothing that can be read.
    """
    return in_success or status in _FAILED_STATUSES or status >= 500


def second_attempt(
    first: Attempt, workspace: Workspace, models: Mapping[str, Model]
) -> Attempt | Refusal | None:
    """Return what follows ``first`` if it fails: an attempt, a refusal to be told in its place, or nothing."""
    if first.mode == "byok":
        return _on_the_platform(first.model, models) if workspace.safety_net else None
    slug = workspace.fallback_model
    if slug is None or slug == first.model.slug:
        return None
    return _fallback(models[slug], workspace)


def _on_the_platform(model: Model, models: Mapping[str, Model]) -> Attempt | Refusal | None:
    if model.slug not in models:
        return None  # No row of the catalog allows it, nor has it a price.
    if model.byok_only:
        return Refusal(
            "byok_required",
            f"The call with your own {model.provider.name} key failed, and the Safety Net can't repeat it: "
            f"'{model.slug}' is never served with the platform's keys.",
        )
    secret = model.provider.platform_secret
    return None if secret is None else Attempt(model, "payg", secret, is_fallback=True)


def _fallback(model: Model, workspace: Workspace) -> Attempt | None:
    if not model.active:
        return None
    if byok := workspace.routed_key(model.provider):
        return None if byok.secret is None else Attempt(model, "byok", byok.secret, is_fallback=True)
    secret = None if model.byok_only else model.provider.platform_secret
    return None if secret is None else Attempt(model, "payg", secret, is_fallback=True)


def idle_fallback(workspace: Workspace, models: Mapping[str, Model]) -> str | None:
    """Return why a workspace's ``fallback_model`` can serve no call, None where it can or there is none."""
    if workspace.fallback_model is None:
        return None
    model = models[workspace.fallback_model]
    if _fallback(model, workspace):
        return None
    if not model.active:
        return "it is not active"
    if workspace.routed_key(model.provider) or model.byok_only:
        return f"there is no {model.provider.name} key of the workspace's own"
    return f"{model.provider.name} has no platform key"


def refusal_after_failure(denial: Denial, failed: Attempt) -> Refusal | None:
    """Return what a client is told where no limit has room for what follows ``failed``; None: of the failure itself.

    The customer's own key failed, and without the money nothing else is left to try: that must be known to be mended.
    A fallback model is the operator's choice, and no reason to hide why the call's own model failed.
    Source: contract, "402 situations" (Safety Net).
    """
    if failed.mode != "byok":
        return None
    told = refusal_of(denial)
    return Refusal(
        told.code, f"{told.message.removesuffix('.')}; cannot use the Safety Net fallback.", told.param
    )

"""What may follow a failed attempt: further places of the model, and then its fallback.

Nothing follows the client's own errors, except for a prompt that is too long for a model: a larger window may hold it.

| the model's places are called with | its fallback is |
|---|---|
| platform keys (PAYG) | the workspace's fallback model |
| the customer's own keys (BYOK) | the same model with platform keys (the Safety Net), where the catalog allows it |

Source: contract, "What the service does" (optional fallback) and "Errors" (byok_required, 402 situations);
docs/routing.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from policies.model import Model, Workspace
from policies.places import has_own_place, list_own_targets, list_platform_targets
from policies.refusal import Refusal
from policies.route import Target
from policies.spend import Denial, make_denial_refusal

BAD_REQUEST: Final = 400
_FAILED_STATUSES = frozenset({401, 403, 408, 429})
# The customer's own account is used up, or lacks the model. The platform's account may not.
_FAILED_OWN_STATUSES = frozenset({402, 404})
_TOO_LONG_STATUSES = frozenset({400, 413, 422})
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|limit)"  # most of them
    r"|(?:prompt|input) is too long"  # Anthropic, Bedrock
    r"|prompt exceeds max length|maximum prompt length|exceeded model token limit"  # Z.ai, xAI, Moonshot
    r"|input tokens? (?:count .{0,40})?exceeds? the|too many tokens"  # Google, OpenAI; Cohere
    r"|reduce the length of",  # Groq, Cerebras
    re.IGNORECASE,
)
"""The vendors' words for a prompt, or a prompt with its cap, that the window of a model does not hold."""
_FOREIGN_REASONING = re.compile(
    r"encrypted content\b.{0,400}could not be (?:verified|decrypted)|invalid_encrypted_content",  # OpenAI
    re.IGNORECASE | re.DOTALL,
)
"""A vendor's words for reasoning in a request that another vendor, or another account of it, has encrypted."""


def is_failure(status: int, *, in_success: bool = False, before_net: bool = False) -> bool:
    """Return whether another attempt may succeed where one ended in ``status``. Circuits count the same failures.

    ``status`` is the normalized one: 502 or 504 where no answer came. ``in_success``: the provider answered 200, and
    then sent an error or nothing readable. ``before_net``: the Safety Net may follow the attempt.
    """
    failed = _FAILED_STATUSES | _FAILED_OWN_STATUSES if before_net else _FAILED_STATUSES
    return in_success or status in failed or status >= 500


def is_too_long(status: int, message: str) -> bool:
    """Return whether a refusal says that the prompt is too long. This is no failure of the provider."""
    return status in _TOO_LONG_STATUSES and _TOO_LONG.search(message) is not None


def is_foreign_reasoning(status: int, message: str) -> bool:
    """Return whether a refusal says that reasoning in the request can't be decrypted. Without it, the call may work."""
    return status == BAD_REQUEST and _FOREIGN_REASONING.search(message) is not None


def has_longer_window(following: Model, failed: Model, *, if_unknown: bool = False) -> bool:
    """Return whether a prompt that was too long for ``failed`` may fit into ``following``.

    ``if_unknown`` is the answer where the catalog does not say how long a window is.
    """
    if failed.context_window is None or following.context_window is None:
        return if_unknown
    return following.context_window > failed.context_window


@dataclass(frozen=True, slots=True)
class NoFallback:
    """No attempt follows. ``reason`` is for operators.

    ``refusal``, where there is one, is what the client gets instead of the first attempt's failure.
    """

    reason: str
    refusal: Refusal | None = None


def choose_fallback(
    first: Target, workspace: Workspace, models: Mapping[str, Model]
) -> tuple[Target, ...] | NoFallback:
    """Return the targets that follow once the places of the model of ``first`` failed, or why none follow."""
    if first.mode == "byok":
        if not workspace.safety_net:
            return NoFallback("safety_net is off")
        return _on_the_platform(models.get(first.model.slug), first.model)
    slug = workspace.fallback_model
    if first.model.serves == "embeddings":
        return NoFallback("the vectors of two models can't be compared")
    if slug is None:
        return NoFallback("the workspace has no fallback_model")
    if slug == first.model.slug:
        return NoFallback("fallback_model is the same model")
    if _makes_embeddings(slug, models):
        return NoFallback(f"fallback_model {slug} makes embeddings")
    fallback = _fallback(models.get(slug), workspace)
    if isinstance(fallback, str):
        return NoFallback(f"fallback_model {slug} can't serve: {fallback}")
    return fallback


def list_long_prompt_targets(
    first: Target, workspace: Workspace, models: Mapping[str, Model]
) -> tuple[Target, ...]:
    """Return the places of ``context_fallback_model``, none where it can't serve the calls of ``first``.

    A call with the customer's own key goes to the platform's only by the Safety Net.
    """
    slug = workspace.context_fallback_model
    if slug is None or slug == first.model.slug or _makes_embeddings(slug, models):
        return ()
    if first.model.serves == "embeddings":
        return ()
    found = _fallback(models.get(slug), workspace)
    if isinstance(found, str) or (
        first.mode == "byok" and found[0].mode == "payg" and not workspace.safety_net
    ):
        return ()
    return found


def _makes_embeddings(slug: str, models: Mapping[str, Model]) -> bool:
    """Return whether a model that a workspace's file names for chat makes embeddings by now."""
    model = models.get(slug)
    return model is not None and model.serves == "embeddings"


def _on_the_platform(listed: Model | None, model: Model) -> tuple[Target, ...] | NoFallback:
    if listed is None:  # No row allows it, and it has no price.
        return NoFallback("the Safety Net serves models of the catalog only")
    if listed.byok_only:
        return NoFallback(f"{listed.slug} is byok_only, which bars the Safety Net", _fallback_refusal(model))
    if targets := list_platform_targets(listed, is_fallback=True):
        return targets
    return NoFallback(f"{listed.provider.name} has no platform key for the Safety Net")


def _fallback_refusal(model: Model) -> Refusal:
    return Refusal(
        "byok_required",
        f"The call with your own {model.provider.name} key failed, and the Safety Net can't repeat it: "
        f"'{model.slug}' is never served with the platform's keys.",
    )


def _fallback(model: Model | None, workspace: Workspace) -> tuple[Target, ...] | str:
    """Return the targets of a fallback model, or why this model can serve no call of the workspace."""
    if model is None:
        return "it is not in the catalog"
    if not model.active:
        return "it is not active"
    has_own = has_own_place(model, workspace)
    if has_own and (targets := list_own_targets(model, workspace, is_fallback=True)):
        return targets
    if has_own or model.byok_only:
        return f"there is no {model.provider.name} key of the workspace's own"
    if targets := list_platform_targets(model, is_fallback=True):
        return targets
    return f"{model.provider.name} has no platform key"


def find_unserved_reason(model: Model | None, workspace: Workspace) -> str | None:
    """Return why a model can serve no call of a workspace; None where it can. ``model`` is None outside the catalog."""
    if model and model.active and model.provider.builtin and not model.byok_only:
        return None  # The key of a builtin provider is known only once it is started.
    found = _fallback(model, workspace)
    return found if isinstance(found, str) else None


def find_refusal_after_failure(
    denial: Denial, failed: Target, following: Target, now: datetime
) -> Refusal | None:
    """Return the refusal that the client gets where a limit has no room for the attempt at ``following``.

    ``failed`` is the target of the one before. None: the client gets the failure of the first attempt. That is so for a
    fallback model, which is the operator's choice and must not hide why the call's own model failed. The Safety Net's
    refusal is shown, because only the customer can add the money. Source: contract, "402 situations" (Safety Net).
    """
    is_net = (failed.mode, following.mode) == ("byok", "payg") and failed.model.slug == following.model.slug
    if not is_net:
        return None
    return make_denial_refusal(denial, now, note="cannot use the Safety Net fallback")

"""The JSON of an explanation: exact integers for programs. docs/commands.md lists its keys."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from msgspec import structs

from addon.explain.explanation import ExplainedAttempt, Explanation, Refused
from policies.budgets import parse_scope
from policies.token_limits import TokenLimit


def make_explanation_record(
    workspace: str, key_id: str, explanation: Explanation, hints: Sequence[str]
) -> dict[str, Any]:
    """Return an explanation as values of JSON."""
    return {
        "workspace": workspace,
        "key_id": key_id,
        "limit_rpm": explanation.limit_rpm,
        "overage_protection": explanation.overage_protection,
        "workspace_tpm": explanation.workspace_tpm,
        "key_tpm": explanation.key_tpm,
        "api": explanation.api,
        "budget_rates": [_make_rate_record(one) for one in explanation.budget_rates],
        "requested_model": explanation.requested_model,
        "stream": explanation.stream,
        "decided_by": explanation.decided_by,
        "attempts": [_make_attempt_record(attempt) for attempt in explanation.attempts],
        "why_alone": explanation.no_fallback_reason,
        "left_out": [one._asdict() for one in explanation.left_out],
        "unknown": list(explanation.unknown),
        "told_on_failure": explanation.error_on_failure and asdict(explanation.error_on_failure),
        "refusal": _make_refusal_record(explanation.refused),
        "hints": list(hints),
    }


def _make_rate_record(limit: TokenLimit) -> dict[str, Any]:
    budget = parse_scope(limit.scope).budget
    return {"budget": budget, "value": limit.value, "unit": limit.unit, "per_minute": limit.per_minute}


def _make_attempt_record(explained: ExplainedAttempt) -> dict[str, Any]:
    target = explained.target
    return {
        "model_slug": target.model.slug,
        "provider": target.model.provider.name,
        "mode": target.mode,
        "upstream_model_id": target.model.upstream_model_id,
        "deployment": target.model.deployment,
        "fallback": target.is_fallback,
        "reasons": list(explained.reasons),
        "on_failure": [one._asdict() for one in explained.following],
        "dialect": target.model.dialect,
        "built_in": target.model.provider.builtin,
        "url": explained.url,
        "native": explained.is_native,
        "caps": {**asdict(explained.caps), "won": explained.caps.won},
        "prompt_nanousd": explained.prompt_nanousd,
        "hold_nanousd": explained.hold_nanousd,
        "tokens": explained.tokens,
        "limits": explained.limits,
        "fields": [structs.asdict(change) for change in explained.fields],
        "body": explained.body,
        "refusal": _make_refusal_record(explained.refused),
    }


def _make_refusal_record(refused: Refused | None) -> dict[str, Any] | None:
    if refused is None:
        return None
    return {"step": refused.step, **asdict(refused.answer), "why": refused.why}

"""An explanation as ``tollgate explain`` prints it: drawn for people, or JSON with exact integers for programs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from tabulate import tabulate

from addon.commands.output import LIMIT_HEADERS, format_json, format_limit, replace_unprintable
from addon.explain.explanation import ExplainedAttempt, Explanation, Refused
from addon.text.errors import ErrorAnswer
from policies.money import format_nanousd

_FIELD_WIDTHS = (22, 8, 32, 32)
_CAP_NAMES = ("client", "policies", "catalog", "budget")
_MODES = {"payg": "the platform's key", "byok": "the workspace's own key"}


def format_explanation_json(workspace: str, key_id: str, told: Explanation, hints: Sequence[str]) -> str:
    """Return it for programs. Keys: docs/commands.md."""
    return format_json(
        {
            "workspace": workspace,
            "key_id": key_id,
            "limit_rpm": told.limit_rpm,
            "overage_protection": told.overage_protection,
            "requested_model": told.requested_model,
            "stream": told.stream,
            "decided_by": told.decided_by,
            "attempts": [_attempt_record(attempt) for attempt in told.attempts],
            "why_alone": told.why_alone,
            "told_on_failure": told.told_on_failure and asdict(told.told_on_failure),
            "refusal": _refusal_record(told.refused),
            "hints": list(hints),
        }
    )


def format_explanation(workspace: str, key_id: str, told: Explanation, hints: Sequence[str]) -> str:
    """Return it for people, in 100 columns where no name is longer."""
    asked = told.requested_model or "no model"
    how = "streamed" if told.stream else "whole"
    protection = "on" if told.overage_protection else "off"
    head = [
        f"{workspace}/{key_id} asks for {asked}, {how}",
        f"limits: {told.limit_rpm} requests a minute, overage protection {protection}",
    ]
    if told.decided_by:
        head.append(f"decided by: {told.decided_by}")
    parts = ["\n".join(head)]
    for number, attempt in enumerate(told.attempts, 1):
        parts += _attempt_parts(number, attempt)
    parts.append("\n".join([*_ending(told), *hints]))
    return replace_unprintable("\n\n".join(part for part in parts if part))


def _attempt_record(told: ExplainedAttempt) -> dict[str, Any]:
    attempt = told.attempt
    return {
        "model_slug": attempt.model.slug,
        "provider": attempt.model.provider.name,
        "mode": attempt.mode,
        "upstream_model_id": attempt.model.upstream_model_id,
        "fallback": attempt.is_fallback,
        "built_in": attempt.model.provider.builtin,
        "url": told.url,
        "caps": {**asdict(told.caps), "won": told.caps.won},
        "prompt_nanousd": told.prompt_nanousd,
        "hold_nanousd": told.hold_nanousd,
        "limits": told.limits,
        "fields": [asdict(change) for change in told.fields],
        "body": told.body,
        "refusal": _refusal_record(told.refused),
    }


def _refusal_record(refused: Refused | None) -> dict[str, Any] | None:
    if refused is None:
        return None
    return {"step": refused.step, **asdict(refused.answer), "why": refused.why}


def _attempt_parts(number: int, told: ExplainedAttempt) -> Iterator[str]:
    attempt = told.attempt
    model, provider = attempt.model, attempt.model.provider
    place = ", built in" if provider.builtin else f", {told.url}" if told.url else ""
    title = f"Attempt {number}{', where the first failed' if number > 1 else ''}: "
    title += f"{model.slug} at {provider.name}"
    key = "no key" if provider.auth == "none" else _MODES[attempt.mode]
    yield "\n".join([title, f"mode: {attempt.mode} ({key})", f"upstream: {model.upstream_model_id}{place}"])
    yield _caps(told)
    if told.limits:
        rows = [format_limit(row) for row in told.limits]
        yield tabulate(rows, LIMIT_HEADERS, disable_numparse=True, colalign=("left",) * 2 + ("right",) * 4)
    if told.fields:
        cells = [_wrapped((one.field, one.action, one.reason, one.source)) for one in told.fields]
        yield tabulate(cells, ("field", "becomes", "because", "source"), disable_numparse=True)
    if told.refused and number > 1:
        yield f"It is not made, refused {_refusal(told.refused)}"


def _caps(told: ExplainedAttempt) -> str:
    caps = told.caps
    rows = [
        (name, getattr(caps, name), "sent" if name == caps.won else "")
        for name in _CAP_NAMES
        if getattr(caps, name) is not None
    ]
    table = tabulate(
        rows, ("cap of", "tokens", ""), disable_numparse=True, colalign=("left", "right", "left")
    )
    if told.hold_nanousd is None:
        return table if rows else ""
    held = f"held: {format_nanousd(told.hold_nanousd)} USD"
    if told.prompt_nanousd:
        held += f", {format_nanousd(told.prompt_nanousd)} of it for the prompt"
    return f"{table}\n{held}" if rows else held


def _wrapped(cells: Iterable[str]) -> list[str]:
    """Break cells between words only, where they have any: a name with a hyphen is one."""
    widths = zip(cells, _FIELD_WIDTHS, strict=True)
    return ["\n".join(wrap(cell, width, break_on_hyphens=False)) for cell, width in widths]


def _ending(told: Explanation) -> Iterator[str]:
    if told.refused:
        yield f"Refused {_refusal(told.refused)}"
        return
    if told.why_alone:
        yield f"There is no second attempt: {told.why_alone}."
    if told.told_on_failure:
        yield f"Where the first attempt fails, the client is told: {_error(told.told_on_failure)}"


def _refusal(refused: Refused) -> str:
    why = f" ({refused.why})" if refused.why else ""
    return f"by the {refused.step}: {_error(refused.answer)}{why}"


def _error(error: ErrorAnswer) -> str:
    param = f", param {error.param}" if error.param else ""
    return f"{error.status} {error.code}{param}: {error.message}"

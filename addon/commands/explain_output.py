"""The output of ``tollgate explain``: text for people, JSON with exact integers for programs."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from tabulate import tabulate

from addon.commands.output import LIMIT_HEADERS, format_limit
from addon.explain.explanation import ExplainedAttempt, Explanation, Refused
from addon.text.errors import ErrorAnswer
from addon.text.unprintable import escape_unprintable
from policies.money import format_nanousd

_FIELD_WIDTHS = (22, 8, 32, 32)
_CAP_NAMES = ("client", "policies", "catalog", "budget")
_MODES = {"payg": "the platform's key", "byok": "the workspace's own key"}


def format_explanation(workspace: str, key_id: str, explanation: Explanation, hints: Sequence[str]) -> str:
    """Return an explanation as text, 100 columns wide unless a name is longer."""
    asked = explanation.requested_model or "no model"
    form = "streamed" if explanation.stream else "whole"
    protection = "on" if explanation.overage_protection else "off"
    head = [
        f"{workspace}/{key_id} asks for {asked}, {form}",
        f"limits: {explanation.limit_rpm} requests a minute, overage protection {protection}",
    ]
    if explanation.decided_by:
        head.append(f"decided by: {explanation.decided_by}")
    parts = ["\n".join(head)]
    for number, attempt in enumerate(explanation.attempts, 1):
        parts += _format_attempt(number, attempt)
    parts.append("\n".join([*_format_end(explanation), *hints]))
    return escape_unprintable("\n\n".join(part for part in parts if part))


def _format_attempt(number: int, explained: ExplainedAttempt) -> Iterator[str]:
    target = explained.target
    model, provider = target.model, target.model.provider
    place = ", built in" if provider.builtin else f", {explained.url}" if explained.url else ""
    title = f"Attempt {number}{', if the first fails' if number > 1 else ''}: "
    title += f"{model.slug} at {provider.name}"
    key = "no key" if provider.auth == "none" else _MODES[target.mode]
    yield "\n".join([title, f"mode: {target.mode} ({key})", f"upstream: {model.upstream_model_id}{place}"])
    yield _format_caps(explained)
    if explained.limits:
        rows = [format_limit(row) for row in explained.limits]
        yield tabulate(rows, LIMIT_HEADERS, disable_numparse=True, colalign=("left",) * 2 + ("right",) * 4)
    if explained.fields:
        cells = [_wrap_cells((one.field, one.action, one.reason, one.source)) for one in explained.fields]
        yield tabulate(cells, ("field", "becomes", "because", "source"), disable_numparse=True)
    if explained.refused and number > 1:
        yield f"It is not made: refused {_format_refusal(explained.refused)}"


def _format_caps(explained: ExplainedAttempt) -> str:
    caps = explained.caps
    rows = [
        (name, getattr(caps, name), "sent" if name == caps.won else "")
        for name in _CAP_NAMES
        if getattr(caps, name) is not None
    ]
    table = tabulate(
        rows, ("cap of", "tokens", ""), disable_numparse=True, colalign=("left", "right", "left")
    )
    if explained.hold_nanousd is None:
        return table if rows else ""
    held = f"held: {format_nanousd(explained.hold_nanousd)} USD"
    if explained.prompt_nanousd:
        held += f", {format_nanousd(explained.prompt_nanousd)} of it for the prompt"
    return f"{table}\n{held}" if rows else held


def _wrap_cells(cells: Iterable[str]) -> list[str]:
    """Wrap cells between words. A name with a hyphen is one word."""
    widths = zip(cells, _FIELD_WIDTHS, strict=True)
    return ["\n".join(wrap(cell, width, break_on_hyphens=False)) for cell, width in widths]


def _format_end(explanation: Explanation) -> Iterator[str]:
    if explanation.refused:
        yield f"Refused {_format_refusal(explanation.refused)}"
        return
    if explanation.no_fallback_reason:
        yield f"There is no second attempt: {explanation.no_fallback_reason}."
    if explanation.error_on_failure:
        yield f"If the first attempt fails, the client gets: {_format_error(explanation.error_on_failure)}"


def _format_refusal(refused: Refused) -> str:
    why = f" ({refused.why})" if refused.why else ""
    return f"by the {refused.step}: {_format_error(refused.answer)}{why}"


def _format_error(error: ErrorAnswer) -> str:
    param = f", param {error.param}" if error.param else ""
    return f"{error.status} {error.code}{param}: {error.message}"

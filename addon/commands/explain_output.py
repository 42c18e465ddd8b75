"""The output of ``tollgate explain`` for people. ``explain.records`` has the JSON for programs."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from tabulate import tabulate

from addon.commands.output import LIMIT_HEADERS, format_limit
from addon.explain.explanation import CAP_NAMES, ExplainedAttempt, Explanation
from addon.explain.sentences import (
    describe_call,
    describe_end,
    describe_following,
    describe_left_out,
    describe_mode,
    describe_refusal,
    describe_requests,
    describe_tokens,
    describe_way,
    name_attempt,
)
from addon.text.unprintable import escape_unprintable
from policies.money import format_nanousd

_FIELD_WIDTHS = (22, 8, 32, 32)
_FOLLOWING_WIDTHS = (44, 54)


def format_explanation(workspace: str, key_id: str, explanation: Explanation, hints: Sequence[str]) -> str:
    """Return an explanation as text, 100 columns wide unless a name is longer."""
    protection = "on" if explanation.overage_protection else "off"
    head = [
        describe_call(workspace, key_id, explanation),
        f"limits: {explanation.limit_rpm} requests a minute, overage protection {protection}",
    ]
    if requests := describe_requests(explanation):
        head.append(f"requests a minute: {requests}")
    if tokens := describe_tokens(explanation):
        head.append(f"tokens a minute: {tokens}")
    if explanation.decided_by:
        head.append(f"decided by: {explanation.decided_by}")
    parts = ["\n".join(head)]
    for number, attempt in enumerate(explanation.attempts, 1):
        parts += _format_attempt(number, attempt)
    refused = [f"Refused {describe_refusal(explanation.refused)}"] if explanation.refused else []
    parts.append("\n".join([*refused, *describe_end(explanation), *describe_left_out(explanation), *hints]))
    return escape_unprintable("\n\n".join(part for part in parts if part))


def _format_attempt(number: int, explained: ExplainedAttempt) -> Iterator[str]:
    target = explained.target
    model, provider = target.model, target.model.provider
    place = ", built in" if provider.builtin else f", {explained.url}" if explained.url else ""
    yield "\n".join(
        [
            name_attempt(number, explained),
            f"mode: {describe_mode(target)}",
            f"upstream: {model.upstream_model_id}{place}",
            *describe_way(explained),
            *(f"because: {reason}" for reason in explained.reasons),
        ]
    )
    yield _format_caps(explained)
    if explained.limits:
        rows = [format_limit(row) for row in explained.limits]
        yield tabulate(rows, LIMIT_HEADERS, disable_numparse=True, colalign=("left",) * 2 + ("right",) * 4)
    if explained.fields:
        cells = [_wrap_cells((one.field, one.action, one.reason, one.source)) for one in explained.fields]
        yield tabulate(cells, ("field", "becomes", "because", "source"), disable_numparse=True)
    if explained.following:
        lines = [
            ["\n".join(wrap(one, width)) for one, width in zip(pair, _FOLLOWING_WIDTHS, strict=True)]
            for pair in describe_following(number, explained)
        ]
        yield tabulate(lines, ("if it fails with", "then"), disable_numparse=True)
    if explained.refused and number > 1:
        yield f"It is not made: refused {describe_refusal(explained.refused)}"


def _format_caps(explained: ExplainedAttempt) -> str:
    caps = explained.caps
    rows = [
        (name, getattr(caps, name), "sent" if name == caps.won else "")
        for name in CAP_NAMES
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

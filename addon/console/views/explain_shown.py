"""The parts that only the page ``/explain`` has: sentences, and the difference between the two bodies."""

import json
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from addon.console import display
from addon.edits.diff import DiffLine, read_diff
from addon.explain.explanation import ExplainedAttempt, Explanation, Refused
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
from addon.text.table import Table

MAX_SHOWN_CHARS: Final = 100_000
MAX_COMPARED_LINES: Final = 1_000
"""Longer bodies are not compared: that takes too long."""

_CONTEXT_LINES: Final = 3


def make_explanation_shown(
    workspace: str, key_id: str, explanation: Explanation, hints: Sequence[str], body: str
) -> Mapping[str, Any]:
    """Return the sentences of an explanation, and those of each attempt."""
    return {
        "head": f"{describe_call(workspace, key_id, explanation)}.",
        "attempts": [_make_attempt(number, one, body) for number, one in enumerate(explanation.attempts, 1)],
        "requests": describe_requests(explanation),
        "tokens": describe_tokens(explanation),
        "end": [*describe_end(explanation), *describe_left_out(explanation), *hints],
        "refusal": _show_refusal(explanation.refused),
    }


def _make_attempt(number: int, attempt: ExplainedAttempt, body: str) -> Mapping[str, Any]:
    model = attempt.target.model
    sent = None if attempt.body is None else _format(attempt.body)
    return {
        "title": name_attempt(number, attempt),
        "mode": describe_mode(attempt.target),
        "way": next(describe_way(attempt), "").removeprefix("way: "),
        "model": model.upstream_model_id,
        "url": "built in" if model.provider.builtin else attempt.url,
        "held": _show_hold(attempt),
        "cap": attempt.caps.sent,
        "won": attempt.caps.won,
        "reasons": attempt.reasons,
        "following": Table(("failures", "then"), list(describe_following(number, attempt))),
        "refusal": _show_refusal(attempt.refused),
        "sent": sent and sent[:MAX_SHOWN_CHARS],
        "is_cut": sent is not None and len(sent) > MAX_SHOWN_CHARS,
        "difference": _compare(body, sent) if sent else (),
    }


def _show_hold(attempt: ExplainedAttempt) -> str | None:
    if attempt.hold_nanousd is None:
        return None
    held, prompt = display.exact_money(attempt.hold_nanousd), attempt.prompt_nanousd
    return f"{held}, of it {display.exact_money(prompt)} for the prompt" if prompt else held


def _show_refusal(refused: Refused | None) -> str | None:
    return f"Refused {describe_refusal(refused)}" if refused else None


def _format(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)


def _compare(given: str, sent: str) -> Sequence[DiffLine]:
    """Return the lines of both bodies, those that differ with three lines around them."""
    before, after = _format(json.loads(given)).splitlines(), sent.splitlines()
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return ()
    # The first two lines name files.
    lines = list(unified_diff(before, after, n=_CONTEXT_LINES, lineterm=""))[2:]
    return read_diff("\n".join(lines))

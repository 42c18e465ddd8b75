"""The parts that only the page ``/explain`` has: sentences, and the difference between the two bodies."""

import json
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final, Literal

from addon.console import display

MAX_SHOWN_CHARS: Final = 100_000
MAX_COMPARED_LINES: Final = 1_000
"""Longer bodies are not compared: that takes too long."""

_CONTEXT_LINES: Final = 3
_MODES: Final = {"payg": "the platform's key", "byok": "the workspace's own key"}

type Line = tuple[Literal["ins", "del", "same"], str]


def make_explanation_shown(record: Mapping[str, Any], body: str) -> Mapping[str, Any]:
    """Return the sentences of an explanation, and those of each attempt."""
    return {
        "head": _describe_call(record),
        "attempts": [_make_attempt(number, one, body) for number, one in enumerate(record["attempts"], 1)],
        "end": _describe_end(record),
        "refusal": describe_refusal(record["refusal"]),
    }


def _describe_call(record: Mapping[str, Any]) -> str:
    asked = record["requested_model"] or "no model"
    form = "streamed" if record["stream"] else "whole"
    return f"{record['workspace']}/{record['key_id']} asks for {asked}, {form}."


def _make_attempt(number: int, attempt: Mapping[str, Any], body: str) -> Mapping[str, Any]:
    then = ", if the first fails" if number > 1 else ""
    sent = None if attempt["body"] is None else _format(attempt["body"])
    return {
        "title": f"Attempt {number}{then}: {attempt['model_slug']} at {attempt['provider']}",
        "mode": f"{attempt['mode']} ({_MODES[attempt['mode']]})",
        "model": attempt["upstream_model_id"],
        "url": "built in" if attempt["built_in"] else attempt["url"],
        "held": _describe_hold(attempt),
        "cap": attempt["caps"]["sent"],
        "won": attempt["caps"]["won"],
        "refusal": describe_refusal(attempt["refusal"]),
        "sent": sent and sent[:MAX_SHOWN_CHARS],
        "is_cut": sent is not None and len(sent) > MAX_SHOWN_CHARS,
        "difference": _compare(body, sent) if sent else (),
    }


def _describe_hold(attempt: Mapping[str, Any]) -> str | None:
    if attempt["hold_nanousd"] is None:
        return None
    held = display.exact_money(attempt["hold_nanousd"])
    prompt = attempt["prompt_nanousd"]
    return f"{held}, of it {display.exact_money(prompt)} for the prompt" if prompt else held


def _describe_end(record: Mapping[str, Any]) -> Sequence[str]:
    lines = []
    if record["refusal"] is None and record["why_alone"]:
        lines.append(f"There is no second attempt: {record['why_alone']}.")
    if record["refusal"] is None and record["told_on_failure"]:
        lines.append(
            f"If the first attempt fails, the client gets: {_describe_error(record['told_on_failure'])}"
        )
    return [*lines, *record["hints"]]


def describe_refusal(refusal: Mapping[str, Any] | None) -> str | None:
    """Return the error that the client gets, with the step that refuses."""
    if refusal is None:
        return None
    why = f" ({refusal['why']})" if refusal["why"] else ""
    return f"Refused by the {refusal['step']}: {_describe_error(refusal)}{why}"


def _describe_error(error: Mapping[str, Any]) -> str:
    param = f", param {error['param']}" if error["param"] else ""
    return f"{error['status']} {error['code']}{param}: {error['message']}"


def _format(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)


def _compare(given: str, sent: str) -> Sequence[Line]:
    """Return the lines of both bodies, those that differ with three lines around them."""
    before, after = _format(json.loads(given)).splitlines(), sent.splitlines()
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return ()
    kinds: Mapping[str, Literal["ins", "del", "same"]] = {"+": "ins", "-": "del"}
    lines = list(unified_diff(before, after, n=_CONTEXT_LINES, lineterm=""))[2:]
    return [(kinds.get(line[:1], "same"), line) for line in lines]

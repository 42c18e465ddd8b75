"""A recording in the OpenAI chat shape, read from the raw JSON, from every place that providers use.

Source: the recordings themselves; the README of the corpus lists the places.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rig.readers import STANDARD, Answer, ReadChoice, ToolCall, read_arguments

type Payload = Mapping[str, Any]

FINISH = {
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "": "stop",
}
"""The reasons in the recordings that are not standard, and their meanings."""
THINK = re.compile(
    r"\s*<(?P<tag>think|reasoning)>(?P<reasoning>.*?)(?:</(?P=tag)>\s*(?P<text>.*)|\Z)", re.DOTALL
)


def read(payloads: Iterable[Payload], *, think_tags: bool, is_single: bool = False) -> Answer:
    """Read a whole answer (one payload), or the payloads of a stream.

    ``is_single``: one choice was asked for, so every index means 0 (TGI 1.4 counts tokens there).
    """
    choices: dict[int, _Choice] = {}
    usage: Mapping[str, Any] | None = None
    for payload in payloads:
        usage = payload.get("usage") or usage
        for choice in payload.get("choices") or ():
            index = 0 if is_single else choice.get("index", 0)
            choices.setdefault(index, _Choice()).add(choice)
    return Answer({index: choice.result(think_tags) for index, choice in choices.items()}, usage)


class _Choice:
    """One choice that grows delta by delta; a whole message is its only delta."""

    def __init__(self) -> None:
        self.text = self.reasoning = ""
        self.calls: list[dict[str, Any]] = []
        self.finish_reason: str | None = None

    def add(self, choice: Payload) -> None:
        made = choice.get("delta") or choice.get("message") or {}
        if "message" in choice and not any(made.get(key) for key in ("content", "tool_calls", "reasoning")):
            made = choice["message"]
        text, thinking = _content(made.get("content", choice.get("text") if not made else None))
        self.text += text
        self.reasoning += _reasoning(made) or thinking
        for call in made.get("tool_calls") or ():
            self._add_call(call)
        if self.finish_reason is None:
            self.finish_reason = choice.get("finish_reason")

    def _add_call(self, call: Payload) -> None:
        function = call.get("function") or call.get("custom") or {}
        at = self._find(call, function)
        if at is None:
            at = {"index": call.get("index"), "id": None, "name": "", "pieces": []}
            self.calls.append(at)
        at["id"] = at["id"] or call.get("id")
        at["name"] = at["name"] or function.get("name") or ""
        pieces = function.get("arguments", function.get("parameters", function.get("input")))
        at["pieces"].append(pieces)

    def _find(self, call: Payload, function: Payload) -> dict[str, Any] | None:
        """Return the call that this piece continues, or None when it begins one."""
        id_, index = call.get("id"), call.get("index")
        if index is not None:
            same = [known for known in self.calls if known["index"] == index]
            # Some servers number every call 0; then only the ids differ.
            return next((known for known in same if not id_ or known["id"] in (None, id_)), None)
        if id_:
            return next((known for known in self.calls if known["id"] == id_), None)
        return None if function.get("name") or not self.calls else self.calls[-1]

    def result(self, think_tags: bool) -> ReadChoice:
        text, reasoning = self.text, self.reasoning
        if think_tags and (split := THINK.fullmatch(text)):
            text, reasoning = split["text"] or "", reasoning + split["reasoning"]
        calls = [ToolCall(_id(call["id"]), call["name"], _arguments(call["pieces"])) for call in self.calls]
        return ReadChoice(text, reasoning, calls, _finish(self.finish_reason, bool(calls)))


def _content(content: Any) -> tuple[str, str]:
    """Return the text and the thinking of content: a string, a list of parts or an object."""
    if isinstance(content, dict):
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False), ""
    if not isinstance(content, list):
        return content or "", ""
    text = "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    thinking = [part for part in content if part.get("type") == "thinking"]
    return text, "".join(_thinking(part.get("thinking")) for part in thinking)


def _thinking(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part.get("text") or "" for part in value)
    return value or ""


def _reasoning(made: Payload) -> str:
    """Return the text of the first place that is not empty: the same text is often in two of them."""
    details = made.get("reasoning_details") or ()
    # Encrypted details have no text, and a signature is not reasoning.
    details_text = "".join(detail.get("text") or detail.get("summary") or "" for detail in details)
    return made.get("reasoning_content") or made.get("reasoning") or details_text


def _arguments(pieces: list[Any]) -> Any:
    if len(pieces) == 1 and isinstance(pieces[0], dict):
        return pieces[0]
    return read_arguments("".join(piece for piece in pieces if isinstance(piece, str)))


def _id(value: Any) -> str | None:
    # A number is not an id (TGI: 0 for every call); the gateway makes one.
    return value if value and isinstance(value, str) else None


def _finish(reason: str | None, has_calls: bool) -> str | None:
    meant = reason if reason in STANDARD or reason is None else FINISH[reason]
    return "tool_calls" if meant == "stop" and has_calls else meant

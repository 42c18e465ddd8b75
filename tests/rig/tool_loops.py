"""Providers with a memory: a task of two steps with tools, whose reasoning must come back as each provider wants it.

The first answer reasons and calls two tools at once, the second calls one that takes free text, the third is the end. A
provider refuses a request that lacks its reasoning, or that its vendor would refuse.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rig import anthropic_answers, gemini_answers
from rig.scripts import DONE, USAGE, Received, Script, chunk, chunked, completion, event, whole
from rig.vendors import VENDORS
from rig.vendors.rules import refusal

CITIES = ("Oslo", "Rome")
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NOTE = 'It rains\nin "Oslo".'
END = "Take an umbrella."
STEPS: Mapping[int, int] = {0: 0, len(CITIES): 1, len(CITIES) + 1: 2}
"""The number of the answer, by the number of results in the request."""

type Body = Mapping[str, Any]
type Answer = Callable[[int, bool], Script]


@dataclass(frozen=True)
class Loop:
    """One provider. ``recalled`` is the reasoning in a request; it must be the beginning of ``thoughts``."""

    provider: str
    slug: str
    thoughts: tuple[str, ...]
    recalled: Callable[[Body], list[str]]
    results: Callable[[Body], int]
    answer: Answer
    takes_pictures: bool = True

    def begin(self, request: Received) -> Script:
        """Give the first answer, whatever conversation there was."""
        return self.refuse(request) or self.answer(0, _streams(request))

    def refuse(self, request: Received) -> Script | None:
        """Refuse what the vendor would."""
        if refused := refusal(VENDORS[self.provider], request.target, request.body):
            status, said = refused
            return whole(said, status)
        return None

    def behave(self, request: Received) -> Script:
        """Answer a request of the task."""
        if refused := self.refuse(request):
            return refused
        body = request.json()
        number = STEPS[self.results(body)]
        if (recalled := self.recalled(body)) != list(self.thoughts[:number]):
            return whole({"error": {"message": f"reasoning of answer {number} is {recalled}"}}, 400)
        return self.answer(number, _streams(request))


def _streams(request: Received) -> bool:
    return bool(request.json().get("stream")) or ":streamGenerateContent" in request.target


# --- a server of the chat API that wants reasoning_content ---------------------------------------------------------


def _chat_call(index: int, call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": index, "id": call_id, "type": "function", "function": function}


def _chat(number: int, streams: bool) -> Script:
    weather = [_chat_call(at, f"call_{city}", "weather", {"city": city}) for at, city in enumerate(CITIES)]
    calls = (weather, [_chat_call(0, "call_note", "note", {"input": NOTE})], [])[number]
    text = ("I look.", None, END)[number]
    delta: dict[str, Any] = {"role": "assistant", "reasoning_content": f"Thought {number}", "content": text}
    finish = "tool_calls" if calls else "stop"
    if not streams:
        choice = {"index": 0, "message": delta | {"tool_calls": calls}, "finish_reason": finish}
        return whole(completion(choices=[choice]))
    said = [
        chunk(reasoning_content="Thought "),
        chunk(reasoning_content=str(number)),
        *([chunk(text)] if text else []),
        *(chunk(tool_calls=[call]) for call in calls),
        chunk(finish=finish),
        chunk(usage=USAGE),
    ]
    return chunked(*map(event, said), DONE)


def _chat_recalled(body: Body) -> list[str]:
    return [one.get("reasoning_content", "") for one in body["messages"] if one.get("tool_calls")]


def _chat_results(body: Body) -> int:
    return sum(one["role"] == "tool" for one in body["messages"])


# --- Claude --------------------------------------------------------------------------------------------------------


def _use(call_id: str, name: str, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _claude(number: int, streams: bool) -> Script:
    thought = {"type": "thinking", "thinking": f"Thought {number}", "signature": f"signature-{number}"}
    sealed = {"type": "redacted_thinking", "data": "sealed-1"}
    blocks = (
        [
            thought,
            {"type": "text", "text": "I look."},
            *(_use(f"toolu_{city}", "weather", {"city": city}) for city in CITIES),
        ],
        [sealed, _use("toolu_note", "note", {"input": NOTE})],
        [thought, {"type": "text", "text": END}],
    )[number]
    reason = "end_turn" if number == 2 else "tool_use"
    if not streams:
        return whole(anthropic_answers.answer(*blocks, stop_reason=reason))
    said = anthropic_answers.events(*blocks, stop_reason=reason, pieces=3)
    return chunked(*(f"event: {one['type']}\n".encode() + event(one) for one in said))


def _claude_blocks(body: Body) -> list[Any]:
    return [block for turn in body["messages"] for block in turn["content"] if isinstance(block, dict)]


def _claude_recalled(body: Body) -> list[str]:
    blocks = [block for block in _claude_blocks(body) if "thinking" in block["type"]]
    return [block.get("signature") or block["data"] for block in blocks]


def _claude_results(body: Body) -> int:
    return sum(block["type"] == "tool_result" for block in _claude_blocks(body))


# --- Gemini --------------------------------------------------------------------------------------------------------


def _function_call(name: str, given: Any, **signed: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": given}, **signed}


def _gemini(number: int, streams: bool) -> Script:
    oslo, rome = ({"city": city} for city in CITIES)
    parts = (
        [
            {"text": "Thought 0", "thought": True},
            {"text": "I look."},
            _function_call("weather", oslo, thoughtSignature="c2lnbmF0dXJlLTA="),
            _function_call("weather", rome),
        ],
        [_function_call("note", {"input": NOTE}, thoughtSignature="c2lnbmF0dXJlLTE=")],
        [{"text": END}],
    )[number]
    if not streams:
        return whole(gemini_answers.answer(*parts, usageMetadata=gemini_answers.USAGE))
    said = [gemini_answers.answer(part, finish=None) for part in parts]
    last = gemini_answers.answer(usageMetadata=gemini_answers.USAGE)
    return chunked(*map(event, [*said, last]))


def _gemini_parts(body: Body) -> list[Any]:
    return [part for content in body["contents"] for part in content["parts"]]


def _gemini_recalled(body: Body) -> list[str]:
    return [part["thoughtSignature"] for part in _gemini_parts(body) if "thoughtSignature" in part]


def _gemini_results(body: Body) -> int:
    return sum("functionResponse" in part for part in _gemini_parts(body))


LOOPS = (
    Loop(
        "DEEPSEEK",
        "deepseek-v4-pro",
        ("Thought 0", "Thought 1"),
        _chat_recalled,
        _chat_results,
        _chat,
        takes_pictures=False,
    ),
    Loop(
        "ANTHROPIC",
        "claude-opus-5-5",
        ("signature-0", "sealed-1"),
        _claude_recalled,
        _claude_results,
        _claude,
    ),
    Loop(
        "GOOGLE",
        "gemini-3.8-flash",
        ("c2lnbmF0dXJlLTA=", "c2lnbmF0dXJlLTE="),
        _gemini_recalled,
        _gemini_results,
        _gemini,
    ),
)


def provider_of(request: Received) -> str:
    """Return the name of the provider in the path of a request (``strict_vendors.base_url``)."""
    return request.target.split("/")[2]


def find_loop(request: Received) -> Loop:
    """Return the provider that a request is for."""
    return next(loop for loop in LOOPS if loop.provider == provider_of(request))


def behave(request: Received) -> Script:
    """Answer a request of the task as its provider does."""
    return find_loop(request).behave(request)

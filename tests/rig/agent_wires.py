"""What a model says in each dialect: a thought, then tool calls or a text, and what its requests say of tools."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rig import anthropic_answers, fake_bedrock, gemini_answers, native_responses
from rig.native_converse_stream import event_frame, stream_of
from rig.scripts import DONE, Script, chunk, chunked, completion, event, whole

type Body = Mapping[str, Any]

WORD = re.compile(r"word-[0-9a-f]{8}")
TITLE = '{"title": "A note is copied"}'
"""The answer to requests without tools, which agents make for a title and the like, or with a schema. Some clients have
their schema as the only tool: then these are its arguments."""


@dataclass(frozen=True)
class Call:
    """A tool call: a function with its arguments, or a tool that takes free text. ``{word}`` is the word of the note.

    ``otherwise`` is made where the agent does not offer the tool.
    """

    name: str
    given: Mapping[str, Any] | str
    otherwise: "Call | None" = None


@dataclass(frozen=True)
class Turn:
    """What a vendor says: a thought, and calls or the last text. ``usage`` is that of chat completions."""

    number: int
    calls: Sequence[Call]
    text: str
    usage: Mapping[str, int]

    @property
    def thought(self) -> str:
        return f"Thought {self.number}"

    @property
    def signature(self) -> str:
        return f"signature-{self.number}"

    @property
    def encoded_signature(self) -> str:
        return base64.b64encode(self.signature.encode()).decode()

    def call_id(self, index: int) -> str:
        return f"call_{self.number}_{index}"


@dataclass(frozen=True)
class Wire:
    """One dialect: reads the tools that a request offers and the results of its calls, and writes a turn.

    ``tools`` yields names with whether the tool takes free text. ``mark`` is the part of the reasoning in an answer
    that must come back with the next request.
    """

    tools: Callable[[Body], Iterator[tuple[str, bool]]]
    results: Callable[[Body], Iterator[Any]]
    write: Callable[[Turn, Body, bool], Script]
    mark: Callable[[Turn], str] = lambda turn: turn.signature


# --- chat completions ----------------------------------------------------------------------------------------------


def _chat_tools(body: Body) -> Iterator[tuple[str, bool]]:
    for tool in body.get("tools") or ():
        yield tool[tool["type"]]["name"], tool["type"] == "custom"


def _chat_results(body: Body) -> Iterator[Any]:
    return (one["content"] for one in body["messages"] if one["role"] == "tool")


def _chat(turn: Turn, body: Body, streams: bool) -> Script:
    calls = [
        {
            "index": index,
            "id": turn.call_id(index),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.given)},
        }
        for index, call in enumerate(turn.calls)
    ]
    finish = "tool_calls" if calls else "stop"
    if not streams:
        said = {"role": "assistant", "reasoning_content": turn.thought, "content": turn.text or None}
        message = said | ({"tool_calls": calls} if calls else {})
        return whole(
            completion(choices=[{"index": 0, "message": message, "finish_reason": finish}], usage=turn.usage)
        )
    chunks = [
        chunk(role="assistant", reasoning_content=turn.thought),
        *(chunk(piece) for piece in _halves(turn.text)),
        *(chunk(tool_calls=[call]) for call in calls),
        chunk(finish=finish),
        chunk(usage=turn.usage),
    ]
    return chunked(*map(event, chunks), DONE)


# --- Messages --------------------------------------------------------------------------------------------------------


def _claude_tools(body: Body) -> Iterator[tuple[str, bool]]:
    return ((tool["name"], False) for tool in body.get("tools") or ())


def _claude_results(body: Body) -> Iterator[Any]:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                yield block["content"]


def _claude(turn: Turn, body: Body, streams: bool) -> Script:
    is_thinking = body.get("thinking", {}).get("type", "disabled") != "disabled"
    thought = {"type": "thinking", "thinking": turn.thought, "signature": turn.signature}
    blocks = [
        *([thought] if is_thinking else []),
        *([{"type": "text", "text": turn.text}] if turn.text else []),
        *(
            {"type": "tool_use", "id": turn.call_id(index), "name": call.name, "input": call.given}
            for index, call in enumerate(turn.calls)
        ),
    ]
    reason = "tool_use" if turn.calls else "end_turn"
    if not streams:
        return whole(anthropic_answers.answer(*blocks, stop_reason=reason))
    said = anthropic_answers.events(*blocks, stop_reason=reason, pieces=2)
    return chunked(*(f"event: {one['type']}\n".encode() + event(one) for one in said))


# --- Gemini ----------------------------------------------------------------------------------------------------------


def _gemini_tools(body: Body) -> Iterator[tuple[str, bool]]:
    for tool in body.get("tools") or ():
        for declared in tool.get("functionDeclarations", ()):
            yield declared["name"], False


def _gemini_results(body: Body) -> Iterator[Any]:
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                yield part["functionResponse"]["response"]


def _gemini(turn: Turn, _body: Body, streams: bool) -> Script:
    signature = {"thoughtSignature": turn.encoded_signature}
    parts: list[dict[str, Any]] = [{"text": turn.thought, "thought": True}]
    parts += [{"text": piece} for piece in _halves(turn.text)]
    parts += [
        {
            "functionCall": {"name": call.name, "args": call.given, "id": turn.call_id(index)},
            **({} if index else signature),
        }
        for index, call in enumerate(turn.calls)
    ]
    usage = {"usageMetadata": gemini_answers.USAGE}
    if not streams:
        return whole(gemini_answers.answer(*parts, **usage))
    said = [gemini_answers.answer(part, finish=None) for part in parts]
    return chunked(*map(event, [*said, gemini_answers.answer(**usage)]))


# --- Converse --------------------------------------------------------------------------------------------------------


def _converse_tools(body: Body) -> Iterator[tuple[str, bool]]:
    for tool in body.get("toolConfig", {}).get("tools", ()):
        if "toolSpec" in tool:
            yield tool["toolSpec"]["name"], False


def _converse_results(body: Body) -> Iterator[Any]:
    for message in body["messages"]:
        for block in message["content"]:
            if "toolResult" in block:
                yield block["toolResult"]["content"]


def _converse(turn: Turn, body: Body, streams: bool) -> Script:
    is_thinking = "thinking" in body.get("additionalModelRequestFields", {})
    text = {"text": turn.thought, "signature": turn.signature}
    blocks: list[dict[str, Any]] = [{"reasoningContent": {"reasoningText": text}}] if is_thinking else []
    blocks += [{"text": turn.text}] if turn.text else []
    blocks += [
        {"toolUse": {"toolUseId": turn.call_id(index), "name": call.name, "input": call.given}}
        for index, call in enumerate(turn.calls)
    ]
    answer = fake_bedrock.HELLO | {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": "tool_use" if turn.calls else "end_turn",
    }
    frames = [event_frame(name, payload) for name, payload in stream_of(answer)]
    return chunked(*frames, content_type="application/vnd.amazon.eventstream") if streams else whole(answer)


# --- Responses -------------------------------------------------------------------------------------------------------


def _responses_tools(body: Body) -> Iterator[tuple[str, bool]]:
    for tool in body.get("tools") or ():
        if tool["type"] in ("function", "custom"):
            yield tool["name"], tool["type"] == "custom"


def _responses_results(body: Body) -> Iterator[Any]:
    for item in body["input"] if isinstance(body["input"], list) else ():
        if item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield item["output"]


def _responses(turn: Turn, body: Body, streams: bool) -> Script:
    items = [native_responses.reasoning(turn.thought, encrypted=turn.signature)]
    items += [native_responses.message(turn.text)] if turn.text else []
    for index, call in enumerate(turn.calls):
        made = native_responses.custom_call if isinstance(call.given, str) else native_responses.function_call
        items.append(made(call.name, call.given, turn.call_id(index)))  # type: ignore[arg-type]
    said = native_responses.response(*items, to=body, number=turn.number + 1)
    return native_responses.script(said, streams=streams)


WIRES: Mapping[str, Wire] = {
    "chat/completions": Wire(_chat_tools, _chat_results, _chat, lambda turn: turn.thought),
    "messages": Wire(_claude_tools, _claude_results, _claude),
    "generateContent": Wire(_gemini_tools, _gemini_results, _gemini, lambda turn: turn.encoded_signature),
    "responses": Wire(_responses_tools, _responses_results, _responses),
    "converse": Wire(_converse_tools, _converse_results, _converse),
}
STREAMS = {":streamGenerateContent": ":generateContent", "/converse-stream": "/converse"}
"""The ends of paths of streams, where the body does not say it."""


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]

"""A small answer of each wire shape, whole and streamed, and the same answer with one value replaced."""

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rig.native_converse_stream import encode_frame

type Path = tuple[str | int, ...]

PLACEHOLDER = "the value that is replaced"


@dataclass(frozen=True)
class Sample:
    """One answer. ``payloads`` is its JSON: one value, or one for each event. ``names`` are the types of frames."""

    dialect: str
    family: str
    streamed: bool
    payloads: tuple[Any, ...]
    names: tuple[str, ...] = ()

    def encode(self) -> list[bytes]:
        """Return the bytes of each payload as they come from a provider."""
        pieces = [self._frame(number, json.dumps(one).encode()) for number, one in enumerate(self.payloads)]
        return [*pieces, b"data: [DONE]\n\n"] if self.streamed and self.dialect == "openai" else pieces

    def _frame(self, number: int, text: bytes) -> bytes:
        if not self.streamed:
            return text
        if not self.names:
            return b"data: %b\n\n" % text
        kind = {":message-type": "event", ":content-type": "application/json"}
        return encode_frame({":event-type": self.names[number], **kind}, text)

    def places(self) -> Iterator[tuple[int, Path]]:
        """Yield each place: the number of a payload, and a path in it."""
        for number, payload in enumerate(self.payloads):
            for path in _paths(payload):
                yield number, path

    def variants(self, place: tuple[int, Path], values: Iterable[bytes]) -> Iterator[list[bytes]]:
        """Yield the answer with each JSON text of ``values`` at ``place``, and without a member that is there."""
        (number, path), pieces = place, self.encode()
        payload = [copy.deepcopy(self.payloads[number])]
        holder: Any = payload
        *above, name = (0, *path)
        for step in above:
            holder = holder[step]
        holder[name] = PLACEHOLDER
        before, after = json.dumps(payload[0]).encode().split(json.dumps(PLACEHOLDER).encode())
        texts = [before + value + after for value in values]
        if isinstance(holder, dict):
            del holder[name]
            texts.append(json.dumps(payload[0]).encode())
        for text in texts:
            yield [*pieces[:number], self._frame(number, text), *pieces[number + 1 :]]


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, member in members:
        yield from _paths(member, (*path, name))


LOGPROBS = {
    "content": [
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": None,
            "top_logprobs": [{"token": "b", "logprob": -9.5, "bytes": [98]}],
        }
    ],
    "refusal": None,
}
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 7,
    "total_tokens": 16,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up"}


def _chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **more}]}


def _call(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


OPENAI_WHOLE = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "up",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hello", "reasoning": "why", "refusal": None},
            "logprobs": LOGPROBS,
            "finish_reason": "stop",
        },
        {
            "index": 1,
            "message": {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
                "tool_calls": [_call("f", '{"a": 1}')],
            },
            "finish_reason": "tool_calls",
        },
    ],
    "usage": USAGE,
    "system_fingerprint": "fp",
}
OPENAI_STREAM = (
    HEAD | _chunk({"role": "assistant", "content": "", "annotations": [{"type": "url_citation"}]}),
    _chunk(
        {"reasoning": "why", "reasoning_details": [{"type": "reasoning.text", "text": "why", "index": 0}]}
    ),
    _chunk({"content": "hello"}),
    _chunk({"content": "hello you"}),
    _chunk({"tool_calls": [_call("f", "", index=0)]}),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
    HEAD | _chunk({"content": "."}, finish_reason="tool_calls", logprobs=None),
    HEAD | {"choices": [], "usage": USAGE, "x_more": {"a": 1}},
)
ANTHROPIC_WHOLE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "up",
    "content": [
        {"type": "thinking", "thinking": "why", "signature": "sig"},
        {"type": "redacted_thinking", "data": "QQ=="},
        {"type": "text", "text": "hello"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 9,
        "output_tokens": 7,
        "cache_read_input_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 2},
    },
}


def _block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    )


ANTHROPIC_STREAM = (
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
    *_block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "why"},
        {"type": "signature_delta", "signature": "sig"},
    ),
    *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hello"}),
    *_block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    ),
    *_block(3, {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {"b": 2}}),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)
GEMINI_METADATA = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 18,
}


def _gemini(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    return {
        "responseId": "r1",
        "candidates": [candidate],
        "usageMetadata": GEMINI_METADATA,
        "modelVersion": "up",
    }


GEMINI_CALL = {"functionCall": {"name": "f", "args": {"a": 1}, "id": "fc1"}, "thoughtSignature": "QQ=="}
GEMINI_WHOLE = _gemini(
    {"text": "why", "thought": True},
    {"text": "hello", "thoughtSignature": "QQ=="},
    {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
    {"executableCode": {"code": "1"}},
    GEMINI_CALL,
    finishReason="STOP",
    avgLogprobs=-0.5,
    logprobsResult={
        "chosenCandidates": [{"token": "a", "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "b", "logProbability": -9.5}]}],
    },
)
GEMINI_STREAM = (
    _gemini({"text": "why", "thought": True}),
    _gemini({"text": "hello", "thoughtSignature": "QQ=="}),
    _gemini({"inlineData": {"mimeType": "image/png", "data": "QQ=="}}, {"executableCode": {"code": "1"}}),
    _gemini(GEMINI_CALL, finishReason="MALFORMED_FUNCTION_CALL"),
)
BEDROCK_WHOLE = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "why", "signature": "sig"}}},
                {"reasoningContent": {"redactedContent": "UVE9PQ=="}},
                {"text": "hello"},
                {"citationsContent": {"content": [{"text": "cited"}]}},
                {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16, "cacheReadInputTokens": 3},
    "metrics": {"latencyMs": 1},
}
BEDROCK_STREAM = (
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "why"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "sig"}}}),
    (
        "contentBlockDelta",
        {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "UVE9PQ=="}}},
    ),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "hello"}}),
    ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"a": 1}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    ("contentBlockStart", {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "t2", "name": "g"}}}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}}),
)

SAMPLES = {
    "openai whole": Sample("openai", "vllm", False, (OPENAI_WHOLE,)),
    "openai stream": Sample("openai", "vllm", True, OPENAI_STREAM),
    "anthropic whole": Sample("anthropic", "claude", False, (ANTHROPIC_WHOLE,)),
    "anthropic stream": Sample("anthropic", "claude", True, ANTHROPIC_STREAM),
    "gemini whole": Sample("gemini", "gemini", False, (GEMINI_WHOLE,)),
    "gemini stream": Sample("gemini", "gemini", True, GEMINI_STREAM),
    "bedrock whole": Sample("bedrock", "bedrock-converse", False, (BEDROCK_WHOLE,)),
    "bedrock stream": Sample(
        "bedrock",
        "bedrock-converse",
        True,
        tuple(payload for _, payload in BEDROCK_STREAM),
        tuple(name for name, _ in BEDROCK_STREAM),
    ),
}

"""One call in three APIs: the chat request, the request to each provider, and its answer."""

import re
from collections.abc import Mapping
from typing import Any

from rig.scripts import DONE, Script, chunk, chunked, completion, event, whole

# --- the request in each API -------------------------------------------------------------------------------------

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How is the weather in Oslo?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
    {"role": "user", "content": "And in Rome?"},
]
FUNCTION = {"name": "weather", "description": "Tells the weather.", "parameters": WEATHER}
DECLARATION = {
    "name": "weather",
    "description": "Tells the weather.",
    "parametersJsonSchema": WEATHER,
}
ASKED: dict[str, Any] = {
    "messages": MESSAGES,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "seed": 7,
    "frequency_penalty": 0.25,
    "stop": ["END"],
    "user": "customer-7",
    "max_tokens": 300,
}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


SENT: Mapping[str, dict[str, Any]] = {
    "chat": {name: value for name, value in ASKED.items() if name != "max_tokens"}
    | {"model": "vendor-chat", "max_completion_tokens": 300},
    # The API has no seed and no penalties.
    "claude": {
        "model": "vendor-claude",
        "max_tokens": 300,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [_text("How is the weather in Oslo?")]},
            {
                "role": "assistant",
                "content": [
                    _text("I look."),
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [_text("Rain")]},
                    _text("And in Rome?"),
                ],
            },
        ],
        "tools": [{"name": "weather", "description": "Tells the weather.", "input_schema": WEATHER}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "customer-7"},
    },
    # The API has no penalties, no user and no parallel_tool_calls. The model is in the path.
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "How is the weather in Oslo?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "call_1",
                            "name": "weather",
                            "response": {"result": "Rain"},
                        }
                    },
                    {"text": "And in Rome?"},
                ],
            },
        ],
        "tools": [{"functionDeclarations": [DECLARATION]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {
            "temperature": 0.5,
            "seed": 7,
            "stopSequences": ["END"],
            "maxOutputTokens": 300,
        },
    },
}
STREAMED: Mapping[str, dict[str, Any]] = {
    "chat": {"stream": True, "stream_options": {"include_usage": True}},
    "claude": {"stream": True},
    "gemini": {},
}
TARGETS = {
    "chat": ("/chat/completions", "/chat/completions"),
    "claude": ("/messages", "/messages"),
    "gemini": (
        "/models/vendor-gemini:generateContent",
        "/models/vendor-gemini:streamGenerateContent?alt=sse",
    ),
}
KEY_HEADERS = {"chat": "authorization", "claude": "x-api-key", "gemini": "x-goog-api-key"}
DIALECTS = {"chat": "openai", "claude": "anthropic", "gemini": "gemini"}
FAMILIES = {"chat": "openai-chat", "claude": "claude-sampling", "gemini": "gemini-2"}
SECRET = re.compile(r"fake-(\w+)-key-x{20}")


def secret(vendor: str) -> str:
    return f"fake-{vendor}-key-{'x' * 20}"


# --- the answer of each API: some text and a tool call, 20 tokens in and 7 out ---------------------------------------


def _chat_pieces() -> list[bytes]:
    call = {"index": 0, "id": "call_9", "type": "function", "function": {"name": "weather", "arguments": ""}}
    arguments = {"index": 0, "function": {"arguments": '{"city":"Rome"}'}}
    usage = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
    return [
        event(chunk("Let me ", role="assistant")),
        event(chunk("see.")),
        event(chunk(tool_calls=[call])),
        event(chunk(tool_calls=[arguments]))
        + event(chunk(finish="tool_calls"))
        + event(chunk(usage=usage))
        + DONE,
    ]


def _claude_event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + event({"type": kind} | fields)


def _claude_pieces() -> list[bytes]:
    usage = {"input_tokens": 20, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "vendor-claude"}
    start = message | {"content": [], "stop_reason": None, "usage": usage}
    call = {"type": "tool_use", "id": "toolu_9", "name": "weather", "input": {}}

    def delta(index: int, **said: Any) -> bytes:
        return _claude_event("content_block_delta", index=index, delta=said)

    return [
        _claude_event("message_start", message=start)
        + _claude_event("content_block_start", index=0, content_block=_text(""))
        + delta(0, type="text_delta", text="Let me "),
        delta(0, type="text_delta", text="see."),
        _claude_event("content_block_stop", index=0)
        + _claude_event("content_block_start", index=1, content_block=call),
        delta(1, type="input_json_delta", partial_json='{"city":"Rome"}')
        + _claude_event("content_block_stop", index=1)
        + _claude_event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 7})
        + _claude_event("message_stop"),
    ]


def _gemini_answer(*parts: dict[str, Any], **ended: Any) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}} | ended
    return {"responseId": "r1", "modelVersion": "vendor-gemini", "candidates": [candidate]}


GEMINI_CALL = {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}
GEMINI_USAGE = {
    "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 27},
}


def _gemini_pieces() -> list[bytes]:
    return [
        event(_gemini_answer({"text": "Let me "})),
        event(_gemini_answer({"text": "see."})),
        event(_gemini_answer(GEMINI_CALL)),
        event(_gemini_answer(finishReason="STOP") | GEMINI_USAGE),
    ]


PIECES = {"chat": _chat_pieces, "claude": _claude_pieces, "gemini": _gemini_pieces}


def whole_answer(vendor: str) -> Any:
    if vendor == "claude":
        content = [
            _text("Let me see."),
            {"type": "tool_use", "id": "toolu_9", "name": "weather", "input": {"city": "Rome"}},
        ]
        usage = {"input_tokens": 20, "output_tokens": 7}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "vendor-claude"}
        return message | {"content": content, "stop_reason": "tool_use", "usage": usage}
    if vendor == "gemini":
        return _gemini_answer({"text": "Let me see."}, GEMINI_CALL, finishReason="STOP") | GEMINI_USAGE
    call = {
        "id": "call_9",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
    }
    message = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    usage = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
    return completion(
        choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        usage=usage,
    )


OVERLOADED = {
    "chat": (503, {"error": {"message": "chat is overloaded", "type": "server_error"}}),
    "claude": (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "claude is overloaded"}},
    ),
    "gemini": (503, {"error": {"code": 503, "message": "gemini is overloaded", "status": "UNAVAILABLE"}}),
}


def overloaded(vendor: str, *, in_stream: bool = False) -> Script:
    """Return an overload error, as a status or as the first event of a stream."""
    status, body = OVERLOADED[vendor]
    return chunked(event(body)) if in_stream else whole(body, status)

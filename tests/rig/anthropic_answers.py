"""Answers of Anthropic's Messages API, and the chat completions and chunks that the gateway makes of them."""

import json

from addon.dialects.anthropic.answer import AnthropicStream, to_completion

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
SEALED = {"type": "redacted_thinking", "data": "sealed"}
TEXT = {"type": "text", "text": "Grüße"}
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Zürich"}}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}}
FUTURE = {"type": "hologram", "light": [1, 2]}
FORMAT = "anthropic-claude-v1"


def answer(*blocks, stop_reason="end_turn", **more):
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-upstream",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": usage,
        **more,
    }


def completion(*blocks, **more):
    return to_completion(answer(*blocks, **more), "slug", 17)


def message(*blocks, **more):
    return completion(*blocks, **more)["choices"][0]["message"]


def events(*blocks, stop_reason="end_turn", usage=None, start=None, pieces=1, **delta):
    """Return the stream of an answer. Each of its blocks comes in ``pieces`` deltas."""
    counts = {"input_tokens": 5, "output_tokens": 1} if start is None else start
    yield {"type": "message_start", "message": answer(usage=counts, stop_reason=None)}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        empty, deltas = emptied(block, pieces)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for said in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": said}
        yield {"type": "content_block_stop", "index": index}
    counts = {"output_tokens": 7} if usage is None else usage
    yield {"type": "message_delta", "delta": {"stop_reason": stop_reason, **delta}, "usage": counts}
    yield {"type": "message_stop"}


def emptied(block, pieces):
    match block["type"]:
        case "text":
            return {**block, "text": ""}, deltas("text_delta", "text", block["text"], pieces)
        case "thinking":
            thought = deltas("thinking_delta", "thinking", block["thinking"], pieces)
            signed = deltas("signature_delta", "signature", block["signature"], 1)
            return {"type": "thinking", "thinking": "", "signature": ""}, thought + signed
        case "tool_use" | "server_tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": {}}, deltas("input_json_delta", "partial_json", arguments, pieces)
    return block, []


def deltas(kind, name, text, pieces):
    size = -(-len(text) // pieces) or 1
    return [{"type": kind, name: text[at : at + size]} for at in range(0, len(text), size)]


def chunks(stream_events):
    stream = AnthropicStream("slug", 17)
    made = [chunk for event in stream_events for chunk in stream.read(event)]
    assert stream.is_closed
    return made + stream.finish()

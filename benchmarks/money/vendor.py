"""A vendor that counts, caches and charges as its own pages say: OpenAI's chat completions and Anthropic's messages.

A word is a token. ``python -m benchmarks.money.vendor`` prints its port. Then it prints what it charged so far for each
line of its standard input, and ends with it. A prompt may ask for its answer: ``[tokens 500]`` is its length,
``[stale]`` closes a connection that served a call before, without a look at the request, and ``[lost]`` charges for an
answer and then closes the connection in its place.
"""

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, override

from benchmarks.money.price_list import PRICES, Tokens
from benchmarks.money.provider import Bill
from benchmarks.upstream import ProviderConnection

OPENAI_BLOCK: Final = 128
OPENAI_LEAST_CACHED: Final = 1_024
"""OpenAI caches by itself, from so many tokens on, in blocks. Source: OpenAI, "Prompt caching"."""
WORK_S: Final = 0.5
"""How long an answer takes that is lost."""
_WANTED: Final = re.compile(r"\[tokens ([0-9]+)\]")
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"


@dataclass(slots=True)
class Vendor:
    """The bill and the caches, which all connections share."""

    bill: Bill = field(default_factory=Bill)
    cached: set[bytes] = field(default_factory=set)

    def charge(self, model: str, service: str, tokens: Tokens) -> None:
        """Add one call to the bill."""
        self.bill.calls += 1
        self.bill.nanousd += PRICES[model, service].cost_nanousd(tokens)

    def count_openai(self, request: dict[str, Any]) -> Tokens:
        """Count a prompt. What was sent before as the first message is in the cache."""
        texts = [text for message in request["messages"] for text, _ in _parts(message)]
        digest, cached = hashlib.sha256(texts[0].encode()).digest(), 0
        if digest in self.cached:
            cached = len(texts[0].split()) // OPENAI_BLOCK * OPENAI_BLOCK
        self.cached.add(digest)
        cached = cached if cached >= OPENAI_LEAST_CACHED else 0
        total = sum(len(text.split()) for text in texts)
        return Tokens(plain=total - cached, cached=cached, output=_wanted_tokens(texts[-1]))

    def count_anthropic(self, request: dict[str, Any]) -> Tokens:
        """Count a prompt. The longest cached prefix up to a mark is read, what follows to a mark written."""
        so_far, total, marked, read = hashlib.sha256(), 0, 0, 0
        written = {"5m": 0, "1h": 0}
        text = ""
        for text, mark in _prompt_parts(request):
            so_far.update(text.encode())
            total += len(text.split())
            if not mark:
                continue
            if so_far.digest() in self.cached:
                read, written = total, {"5m": 0, "1h": 0}
            else:
                written[mark.get("ttl", "5m")] += total - marked
                self.cached.add(so_far.digest())
            marked = total
        return Tokens(total - marked, read, written["5m"], written["1h"], _wanted_tokens(text))


def _prompt_parts(request: dict[str, Any]) -> Iterator[tuple[str, dict[str, str] | None]]:
    yield from _parts({"content": request.get("system") or []})
    for message in request["messages"]:
        yield from _parts(message)


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, str] | None]]:
    """Yield each text of a message with its mark for the cache."""
    content = message["content"]
    parts: list[dict[str, Any]] = [{"text": content}] if isinstance(content, str) else content
    for part in parts:
        yield part["text"], part.get("cache_control")


def _wanted_tokens(text: str) -> int:
    found = _WANTED.search(text)
    return int(found[1]) if found else 1


class ChargedAnswers(ProviderConnection):
    """A connection whose answers are billed."""

    def __init__(self, vendor: Vendor) -> None:
        super().__init__()
        self._vendor = vendor
        self._served = 0

    @override
    def data_received(self, data: bytes) -> None:
        if self._served and b"[stale]" in data:
            self._transport.abort()
        else:
            super().data_received(data)

    @override
    def _answer(self, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1]
        if not head.startswith(b"POST "):
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        answer, kind = (_message if path.endswith(b"/messages") else _completion)(
            self._vendor, json.loads(body)
        )
        self._served += 1
        if b"[lost]" in body:
            asyncio.get_running_loop().call_later(WORK_S, self._transport.abort)
            return
        self._transport.write(_HEAD % (kind, len(answer)) + answer)


def _completion(vendor: Vendor, request: dict[str, Any]) -> tuple[bytes, bytes]:
    """Charge for a chat completion. Return its body and type."""
    tokens = vendor.count_openai(request)
    service = "flex" if request.get("service_tier") == "flex" else "default"
    vendor.charge(request["model"], service, tokens)
    usage = {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.output // 4, "audio_tokens": 0},
    }
    facts = {
        "id": "chatcmpl-1",
        "created": 1_790_000_000,
        "model": request["model"],
        "service_tier": service,
    }
    if not request.get("stream"):
        message = {"role": "assistant", "content": "word", "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return _json({**facts, "object": "chat.completion", "choices": [choice], "usage": usage})
    delta = {"index": 0, "delta": {"role": "assistant", "content": "word"}, "finish_reason": None}
    choices = [[delta], [{"index": 0, "delta": {}, "finish_reason": "stop"}]]
    chunks = [{**facts, "object": "chat.completion.chunk", "choices": one, "usage": None} for one in choices]
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({**facts, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return _events([*map(json.dumps, chunks), "[DONE]"])


def _message(vendor: Vendor, request: dict[str, Any]) -> tuple[bytes, bytes]:
    """Charge for a message. Return its body and type."""
    tokens = vendor.count_anthropic(request)
    vendor.charge(request["model"], "standard", tokens)
    usage = {
        "input_tokens": tokens.plain,
        "cache_creation_input_tokens": tokens.written_5m + tokens.written_1h,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written_5m,
            "ephemeral_1h_input_tokens": tokens.written_1h,
        },
        "output_tokens": tokens.output,
        "service_tier": "standard",
    }
    content = [{"type": "text", "text": "word"}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"]}
    if not request.get("stream"):
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        return _json({**message, "content": content, **ended, "usage": usage})
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events = [
        {"type": "message_start", "message": {**begun, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": tokens.output}},
        {"type": "message_stop"},
    ]
    return _events([json.dumps(event) for event in events], named=True)


def _json(body: dict[str, Any]) -> tuple[bytes, bytes]:
    return json.dumps(body).encode(), b"application/json"


def _events(events: list[str], *, named: bool = False) -> tuple[bytes, bytes]:
    names = [f"event: {json.loads(event)['type']}\n" if named else "" for event in events]
    lines = [f"{name}data: {event}\n\n" for name, event in zip(names, events, strict=True)]
    return "".join(lines).encode(), b"text/event-stream"


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    vendor = Vendor()
    server = await loop.create_server(lambda: ChargedAnswers(vendor), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(asdict(vendor.bill)), flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())

"""A provider that counts what it bills: tokens × price, for each answer that it makes.

``python -m benchmarks.money.provider`` prints its port. Then it prints its ``Bill`` as JSON for each line of its
standard input, and ends with it.
"""

import asyncio
import json
import re
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final, override

from benchmarks.upstream import ProviderConnection

INPUT_NANOUSD: Final = 1_000
OUTPUT_NANOUSD: Final = 20_000
"""The price of one token: $1 and $20 for a million."""
PROMPT_TOKENS: Final = 24
THINKS_S: Final = 0.3
"""How long a whole answer takes."""
EVENTS: Final = 20
EVENT_S: Final = 0.01
USAGE_S: Final = 0.2
"""How long after the event with ``finish_reason`` the event with the usage comes."""
_WANTED: Final = re.compile(r"\[tokens ([0-9]+)\]")
_WORD: Final = " word"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n"


@dataclass(slots=True)
class Bill:
    """The calls that the provider billed, and their sum."""

    calls: int = 0
    nanousd: int = 0

    def add(self, completion_tokens: int) -> None:
        """Bill one answer."""
        self.calls += 1
        self.nanousd += cost_nanousd(completion_tokens)


def cost_nanousd(completion_tokens: int) -> int:
    """Return what one call costs at the provider's prices."""
    return PROMPT_TOKENS * INPUT_NANOUSD + completion_tokens * OUTPUT_NANOUSD


def completion_tokens(request: dict[str, Any]) -> int:
    """Return how many tokens the model writes: as many as the prompt asks for, and no more than the request allows."""
    found = _WANTED.search(request["messages"][-1]["content"])
    wanted = int(found[1]) if found else 1
    caps = [request.get("max_completion_tokens"), request.get("max_tokens")]
    return min([wanted, *(int(cap) for cap in caps if cap is not None)])


class BilledAnswers(ProviderConnection):
    """A connection whose answers are billed."""

    def __init__(self, bill: Bill) -> None:
        super().__init__()
        self._bill = bill

    @override
    def _answer(self, request: bytes) -> None:
        if not request.startswith(b"POST "):
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        loop = asyncio.get_running_loop()
        if body.get("stream"):
            self._transport.write(_HEAD % (b"text/event-stream", b"Transfer-Encoding: chunked"))
            loop.call_later(EVENT_S, self._stream, completion_tokens(body), 0)
        else:
            loop.call_later(THINKS_S, self._whole, completion_tokens(body))

    def _whole(self, tokens: int) -> None:
        """Bill and write a whole answer. A provider bills it also when the other side is gone."""
        self._bill.add(tokens)
        payload = json.dumps(_whole_answer(tokens)).encode()
        self._transport.write(_HEAD % (b"application/json", b"Content-Length: %d" % len(payload)) + payload)

    def _stream(self, tokens: int, number: int) -> None:
        """Write event ``number`` and plan the next one. Bill at the end, or when the other side is gone."""
        loop = asyncio.get_running_loop()
        if self._transport.is_closing():
            self._bill.add(tokens * number // EVENTS)
        elif number < EVENTS:
            self._write(_chunk({"content": _WORD * (tokens // EVENTS)}, None))
            loop.call_later(EVENT_S, self._stream, tokens, number + 1)
        else:
            self._bill.add(tokens)
            self._write(_chunk({}, "stop"))
            loop.call_later(USAGE_S, self._end, tokens)

    def _end(self, tokens: int) -> None:
        self._write(_object("chat.completion.chunk", []) | {"usage": _usage(tokens)})
        done = b"data: [DONE]\n\n"
        self._transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done))

    def _write(self, event: dict[str, Any]) -> None:
        line = f"data: {json.dumps(event)}\n\n".encode()
        self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))


def _whole_answer(tokens: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": _WORD * tokens}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return _object("chat.completion", [choice]) | {"usage": _usage(tokens)}


def _chunk(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _object("chat.completion.chunk", [choice])


def _object(kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    facts = {"id": "chatcmpl-bench", "object": kind, "created": 1_790_000_000, "model": "vendor/bench"}
    return facts | {"choices": choices}


def _usage(tokens: int) -> dict[str, int]:
    total = PROMPT_TOKENS + tokens
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": total}


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    bill = Bill()
    server = await loop.create_server(lambda: BilledAnswers(bill), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(asdict(bill)), flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())

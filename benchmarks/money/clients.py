"""The clients of the demonstrations: bursts of calls, clients that leave, and clients of a gateway that is killed."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from benchmarks.load_generator import is_whole
from benchmarks.traffic import Target

CALL_LIMIT_S: Final = 60.0
ANSWERED: Final = "answered"
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""How a call ended. ``ANSWERED``: the client got all that it wanted. ``REFUSED``: a status from 400 to 499."""


async def burst(target: Target, calls: int, body: dict[str, Any]) -> Counter[str]:
    """Make all calls at once, each over a connection of its own."""
    request = _request(target, body)
    return Counter(await asyncio.gather(*(_call(target, request, is_whole) for _ in range(calls))))


async def leave_at_finish(target: Target, calls: int, body: dict[str, Any], clients: int) -> Counter[str]:
    """Make streamed calls. Each of the ``clients`` leaves when it has the event with ``finish_reason``."""
    request = _request(target, body | {"stream": True, "stream_options": {"include_usage": True}})
    remaining, seen = iter(range(calls)), Counter[str]()

    async def work() -> None:
        for _ in remaining:
            seen[await _call(target, request, _until_finish)] += 1

    await asyncio.gather(*(work() for _ in range(clients)))
    return seen


async def until_killed(
    target: Target, connections: int, body: dict[str, Any], after_s: float, kill: Callable[[], None]
) -> Counter[str]:
    """Make calls over and over, and kill the target in the middle. All clients stop after the first failure."""
    request = _request(target, body)
    seen: Counter[str] = Counter()

    async def work() -> None:
        while not seen[FAILED]:
            seen[await _call(target, request, is_whole)] += 1

    clients = [asyncio.ensure_future(work()) for _ in range(connections)]
    await asyncio.sleep(after_s)
    kill()
    await asyncio.gather(*clients)
    return seen


def _request(target: Target, body: dict[str, Any]) -> bytes:
    payload = json.dumps({"model": target.model, **body}).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {target.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(payload)}",
        *target.headers,
    )
    return "\r\n".join((*lines, "", "")).encode() + payload


async def _call(target: Target, request: bytes, is_enough: Callable[[bytes], bool]) -> str:
    """Make one call, and leave when it ``is_enough``. Return what became of it."""
    answer = b""
    try:
        async with asyncio.timeout(CALL_LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            try:
                writer.write(request)
                while not is_enough(answer) and (received := await reader.read(65536)):
                    answer += received
            finally:
                writer.transport.abort()
    except OSError:  # TimeoutError is an OSError too.
        return FAILED
    if answer.startswith(b"HTTP/1.1 4"):
        return REFUSED
    return ANSWERED if answer.startswith(b"HTTP/1.1 200 ") and is_enough(answer) else FAILED


def _until_finish(answer: bytes) -> bool:
    """Return whether the answer has its ``finish_reason``, or is an error."""
    refused = not answer.startswith(b"HTTP/1.1 200 ") and is_whole(answer)
    return refused or b'"finish_reason": "stop"' in answer or b'"finish_reason":"stop"' in answer

"""What a supervisor and a worker tell each other: settings and questions go down, answers and faults come up.

Down go pickles, because settings are whole Python values with secrets in them; the socket is private to the two. Up
come lines of JSON: a worker talks to strangers, so what it says is only ever read as text.
"""

import asyncio
import copyreg
import json
import pickle
from types import MappingProxyType
from typing import Any

from addon.settings.settings import Settings
from addon.telemetry.admin import Readiness

ASK = "how are you?"
"""The question that is answered with a worker's readiness."""

PING = "are you there?"
"""The question that is answered at once, whatever else the worker does."""

_LENGTH_BYTES = 4


def _read_only(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# Settings are full of them, and pickle does not know how to take them apart.
copyreg.pickle(MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))


def pack(order: Settings | str) -> bytes:
    """Return what ``receive`` reads: settings to serve on, ``ASK`` or ``PING``."""
    body = pickle.dumps(order)
    return len(body).to_bytes(_LENGTH_BYTES) + body


async def receive(reader: asyncio.StreamReader) -> Settings | str:
    """Return the next order. Raises EOFError where the supervisor is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError("the supervisor is gone") from None
    order: Settings | str = pickle.loads(body)  # noqa: S301  (nobody but the supervisor can write there)
    return order


def pack_answer(said: Readiness | str) -> bytes:
    """Return what ``parse_answer`` reads: the answer to ``ASK``, or the fault that ends a worker, on one line."""
    whole = {"fault": said} if isinstance(said, str) else {"ready": said.ready, "checks": dict(said.checks)}
    return json.dumps(whole).encode() + b"\n"


def pack_alive() -> bytes:
    """Return what ``parse_answer`` reads: the answer to ``PING``, on one line."""
    return json.dumps({"alive": True}).encode() + b"\n"


def parse_answer(line: bytes) -> Readiness | str | None:
    """Return what a worker said, None where it only is alive. Raises ValueError."""
    match json.loads(line):
        case {"alive": True}:
            return None
        case {"fault": str(fault)}:
            return fault
        case {"ready": bool(ready), "checks": dict(checks)}:
            return Readiness(ready, {str(name): str(said) for name, said in checks.items()})
    raise ValueError("neither an answer nor a fault")

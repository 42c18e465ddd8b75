"""A takeover: a new process gets the listening sockets of the running one, over a unix socket next to the ledger.

Each message is one JSON object. Every wait has a bound. Until the last message, the running process can go on as if
nothing had happened, and it does so when the new one ends, is late, or sends anything else.

| message | from | then |
|---|---|---|
| `sockets?` | new | |
| `sockets` | running | has the addresses, and the descriptors of the sockets |
| `ready` | new | all services of the new process have started |
| `stopped` | running | the running process accepts no connection; they wait in the queues of the sockets |
| `serving` | new | the new process accepts |
| `taken over` | running | the running process drains and ends |

The running process may send `refused` instead, with a reason. Only a process of the same user may connect. No secret is
sent. Source: unix(7), SO_PEERCRED and SCM_RIGHTS.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

ANSWER_S: Final = 10.0
"""How long one side waits for a message that the other can send at once."""

MAX_BYTES: Final = 16_384
MAX_DESCRIPTORS: Final = 253
"""The most that the system passes in one message. Source: unix(7)."""

_MAX_PATH_BYTES = 107
_CREDENTIALS = struct.Struct("3i")


class Refused(Exception):  # noqa: N818
    """The other side broke the rules of this protocol. The message says how."""


def socket_file(database: Path, conf_file: Path) -> Path:
    """Return the path of the unix socket of the deployment that ``conf_file`` describes."""
    name = sha256(os.fsencode(conf_file)).hexdigest()[:12]
    return database.with_name(f"takeover-{name}.sock")


@contextmanager
def short_path(file: Path) -> Iterator[str]:
    """Give a path of ``file`` that fits into the address of a unix socket."""
    if len(os.fsencode(file)) <= _MAX_PATH_BYTES:
        yield str(file)
        return
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


def find_peer(connection: socket.socket) -> int:
    """Return the process id of the peer. Raise Refused when it is another user's process."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    if user != os.geteuid():
        raise Refused(f"process {pid} belongs to another user")
    return int(pid)


def encode(step: str, **fields: object) -> bytes:
    return json.dumps({"step": step, **fields}).encode()


def decode(message: bytes, step: str) -> dict[str, Any]:
    """Return the fields of a message that must be ``step``. Raise Refused when it is not."""
    if not message:
        raise Refused("it ended")
    try:
        fields = json.loads(message)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict) and fields.get("step") == "refused":
        raise Refused(str(fields.get("reason")))
    if not isinstance(fields, dict) or fields.get("step") != step:
        raise Refused(f"it did not send the message {step!r}")
    return fields


def describe_fault(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time; another takeover may be under way"
    if isinstance(error, ConnectionResetError):
        return "it broke off; another takeover may just have ended"
    return str(error)


async def receive(connection: socket.socket, step: str, bound_s: float) -> None:
    async with asyncio.timeout(bound_s):
        decode(await asyncio.get_running_loop().sock_recv(connection, MAX_BYTES), step)

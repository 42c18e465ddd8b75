"""A process that offers its sockets, and the peers that ask for them."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from addon.serve.listening_sockets import Address, Port
from addon.serve.running_gateway import Running, find_running
from addon.serve.takeover_offer import Offer
from rig.bounds import BOUND_S

CONF = Address("127.0.0.1", 0)
WANTED = {"listen": CONF, "admin": CONF}


class Accepting:
    """Whether the running process accepts. ``changes`` has every change."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    async def pause(self) -> None:
        self.changes.append("paused")

    async def resume(self) -> None:
        self.changes.append("resumed")


@asynccontextmanager
async def offered(
    file: Path, ports: dict[str, Port], notify: str = "", *, replaces: bool = False
) -> AsyncIterator[tuple[Offer, Accepting]]:
    accepting = Accepting()
    offer = Offer(file, ports, accepting.pause, accepting.resume, notify)
    offer.start(replaces=replaces)
    try:
        async with asyncio.timeout(BOUND_S):
            yield offer, accepting
    finally:
        await offer.close()


async def find_offer(file: Path) -> Running:
    running = await asyncio.to_thread(find_running, file)
    assert running
    return running


async def take_ports(running: Running) -> dict[str, Port]:
    return await asyncio.to_thread(running.request_ports, WANTED)


def connect_to(file: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(BOUND_S)
    peer.connect(str(file))
    return peer


def encode_step(step: str) -> bytes:
    return json.dumps({"step": step}).encode()

"""The memory of many slow open streams on one worker, from plain clients to a provider with TLS."""

import asyncio
import contextlib
import resource
import time
from dataclasses import replace
from functools import partial
from itertools import cycle, product
from pathlib import Path
from typing import Final, override

from benchmarks.certificate import write_certificate
from benchmarks.gateways import Setup, gateway, new_key
from benchmarks.processes import upstream
from benchmarks.procfs import cpu_s, peak_mb, reset_peak, resident_mb
from benchmarks.tables import table
from benchmarks.traffic import PAUSE_S, SLUG, Target, request_bytes

AIM_MB: Final = 250
AIM_STREAMS: Final = 2_000
HELD_S: Final = 10.0
OPENING: Final = 50
"""How many connections are opened at once. A burst of new connections would distort the figures."""
_LIMIT_S: Final = 100.0
_FILES: Final = 3
_A_PROVIDER: Final = 1_000
_A_WORKSPACE: Final = 200
"""Streams of one provider and of one workspace, within the limits of a worker."""


class Client(asyncio.Protocol):
    """A client that requests a stream and counts its events."""

    def __init__(self, request: bytes) -> None:
        self.events = 0
        self.is_lost = False
        self._request = request

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        self.events += data.count(b"data: ")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def run(folder: Path, streams: int, checkout: Path | None) -> None:
    """Open ``streams`` slow streams on one worker. Print its memory before, during and after."""
    _allow_files(_FILES * streams)
    authority = write_certificate(folder)
    keys = tuple(new_key() for _ in range(1, -(-streams // _A_WORKSPACE)))
    with contextlib.ExitStack() as stack:
        first, *others = (
            stack.enter_context(upstream(authority)).port for _ in range(-(-streams // _A_PROVIDER))
        )
        slugs = {f"bench_{number}": port for number, port in enumerate(others, 1)}
        setup = Setup(authority=authority, keys=keys, others=slugs)
        if checkout is not None:
            setup = replace(setup, name="against", checkout=checkout)
        target = stack.enter_context(gateway(first, folder, setup))
        kinds = product([SLUG, *slugs], [target.key, *keys])
        asyncio.run(_hold(target, streams, [request_bytes("slow", key, slug) for slug, key in kinds]))


def _allow_files(files: int) -> None:
    """Raise the limit of open files as far as the system allows. Processes started later inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard) if hard >= 0 else files, hard))


async def _hold(target: Target, streams: int, requests: list[bytes]) -> None:
    warm = await _open(target, 4, requests)
    await _until_each_has(warm, 1)
    await _close(warm)
    idle_mb = resident_mb(target.pid)
    reset_peak(target.pid)
    clients = await _open(target, streams, requests)
    await _until_each_has(clients, 2)
    rows = [("idle", 0, idle_mb, 0.0), _row("open", clients, target, idle_mb)]
    before_s, before = cpu_s(target.pid), sum(client.events for client in clients)
    await asyncio.sleep(HELD_S)
    events = sum(client.events for client in clients) - before
    spent_s = cpu_s(target.pid) - before_s
    rows.append(_row(f"after {HELD_S:.0f} s", clients, target, idle_mb))
    highest_mb = peak_mb(target.pid)
    await _close(clients)
    rows.append(_row("closed", clients, target, idle_mb))
    print(table(rows, ("streams", "open", "resident MB", "over idle"), ("", ".0f", ".1f", ".1f")))
    cost_us = 1e6 * spent_s / events if events else float("nan")
    print(
        f"\npeak over idle {highest_mb - idle_mb:.0f} MB; aim: {AIM_STREAMS} streams, at most {AIM_MB} MB over idle"
    )
    print(f"{events} chunks in the {HELD_S:.0f} s, {cost_us:.0f} µs of CPU each")


def _row(what: str, clients: list[Client], target: Target, idle_mb: float) -> tuple[str, int, float, float]:
    now_mb = resident_mb(target.pid)
    return what, sum(not client.is_lost for client in clients), now_mb, now_mb - idle_mb


async def _open(target: Target, streams: int, requests: list[bytes]) -> list[Client]:
    """Open streams, the same number with each of ``requests``."""
    loop, turns = asyncio.get_running_loop(), cycle(requests)
    clients: list[Client] = []
    while len(clients) < streams:
        connecting = [
            loop.create_connection(partial(Client, next(turns)), "127.0.0.1", target.port)
            for _ in range(min(OPENING, streams - len(clients)))
        ]
        opened = [client for _, client in await asyncio.gather(*connecting)]
        await _until_each_has(opened, 1)
        clients += opened
    return clients


async def _until_each_has(clients: list[Client], events: int) -> None:
    """Wait until each client has received ``events`` events or is gone. Raise ``RuntimeError`` at the time limit."""
    deadline = time.monotonic() + _LIMIT_S
    while any(client.events < events and not client.is_lost for client in clients):
        if time.monotonic() > deadline:
            begun = sum(client.events >= events for client in clients)
            raise RuntimeError(f"{begun} of {len(clients)} streams had {events} events in time")
        await asyncio.sleep(PAUSE_S["slow"] / 100)


async def _close(clients: list[Client]) -> None:
    for client in clients:
        client.transport.abort()
    await asyncio.sleep(HELD_S / 2)

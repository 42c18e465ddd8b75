"""``tollgate serve --takeover``: a new process serves on the sockets of the running one, and no call is lost."""

import asyncio
import threading
from collections import Counter
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.raw_clients import request_bytes
from rig.upstream import Upstream

PAUSE_S = 0.01
"""Between two calls of a client, so that the processes that start get their share of the machine."""

MODELS = request_bytes("GET", "/v1/models", [])


class Load:
    """Clients that call all the time: on new connections, on kept ones, streamed, and the admin port."""

    def __init__(self, gateway: Gateway) -> None:
        self.outcomes: Counter[str] = Counter()
        self._chat = gateway.url + "/v1/chat/completions"
        self._ready = gateway.admin_url + "/readyz"
        self._headers = gateway.headers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(BOUND_S)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for kept in (False, True):
                for stream in (False, True):
                    callers.create_task(self._call(f"{kept=} {stream=}", kept=kept, stream=stream))
                callers.create_task(self._poll(kept=kept))

    def _client(self, *, kept: bool) -> httpx.AsyncClient:
        limits = httpx.Limits(max_keepalive_connections=1 if kept else 0)
        return httpx.AsyncClient(timeout=BOUND_S, trust_env=False, verify=False, limits=limits)

    async def _call(self, name: str, *, kept: bool, stream: bool) -> None:
        async with self._client(kept=kept) as client:
            while not self._stop.is_set():
                body = {"messages": HELLO, "stream": stream}
                try:
                    answer = await client.post(self._chat, headers=self._headers, json=body)
                    is_whole = not stream or answer.text.endswith("data: [DONE]\n\n")
                    self.outcomes[f"{name} {answer.status_code} {is_whole}"] += 1
                except httpx.TransportError as error:
                    self.outcomes[f"{name} {error!r}"] += 1
                await asyncio.sleep(PAUSE_S)

    async def _poll(self, *, kept: bool) -> None:
        async with self._client(kept=kept) as client:
            while not self._stop.is_set():
                try:
                    answer = await client.get(self._ready)
                    self.outcomes[f"admin {kept=} {answer.status_code}"] += 1
                except httpx.TransportError as error:
                    self.outcomes[f"admin {kept=} {error!r}"] += 1
                await asyncio.sleep(PAUSE_S)


def _options(workers: int) -> tuple[str, ...]:
    return ("--port", "0", "--workers", str(workers))


def take_over(start_gateway: StartGateway, running: Gateway, workers: int, **changes: Any) -> Gateway:
    """Start a process that takes over ``running``, which must end with status 0."""
    options = (*_options(workers), "--takeover")
    keys = running.keys
    taking = start_gateway(folder=running.folder, arguments=options, keys=keys, **changes)
    assert taking.url == running.url
    return taking


@pytest.mark.parametrize("steps", [(1, 1, 2), (2, 2, 1, 3)])
def test_no_call_is_lost_under_load(
    start_gateway: StartGateway, upstream: Upstream, steps: tuple[int, ...]
) -> None:
    running = start_gateway(arguments=_options(steps[0]))
    with Load(running) as load:
        for workers in steps[1:]:
            taking = take_over(start_gateway, running, workers)
            assert running.wait() == 0
            running = taking
    assert all(" 200" in outcome for outcome in load.outcomes), load.outcomes
    rows = running.ledger_rows()
    calls = sum(count for name, count in load.outcomes.items() if not name.startswith("admin"))
    assert Counter(row["status"] for row in rows) == {200: calls}

"""A server on a simulated network that runs the first attempt of each call."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from addon.calls.attempt import UpstreamAttempt
from addon.calls.attempt_runner import AttemptRunner
from addon.calls.call import admit, begin
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.request_body import read_request
from addon.calls.reservation import reserve_first
from addon.calls.responses import make_error_response, make_gateway_fields
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.settings.settings import Settings, load_settings
from addon.text.errors import ErrorAnswer, refusal_error
from addon.upstream.pool_stats import PoolStats
from addon.wire.connection import WireSettings
from addon.wire.stream import ClientLeft, Stream
from policies.call_stages import Stage
from rig.call_stages import make_dependencies
from rig.configuration import Configuration, model, provider, workspace
from rig.conservation import assert_given_back, assert_pool_empty
from rig.simulation import CALM, Faults, Outcome, World, simulate
from rig.simulation.clients import Answer, Client, ClientBehaviour
from rig.simulation.provider import Generated, Provider
from rig.simulation.wire_server import WireServer

KEY = f"tg_{'runner':0<40}"
PROVIDER_PORT = 20_000
"""The first port that a simulated network gives to a server."""
FIRST_BYTE_TIMEOUT_S, IDLE_TIMEOUT_S, WHOLE_TIMEOUT_S = 20, 10, 60
WHOLE = ClientBehaviour(
    stream=False,
    cap_tokens=100,
    include_usage=False,
    leaves_after_s=None,
    leaves_by="close",
    read_bytes=65_536,
    read_pause_s=0.0,
)
STREAMED = replace(WHOLE, stream=True)


@dataclass(frozen=True)
class Run:
    """One run of an attempt. ``failure`` is what ``run`` returned, ``has_left`` whether it raised ``ClientLeft``."""

    call: Call
    attempt: UpstreamAttempt
    stage: Stage
    took_s: float
    failure: ErrorAnswer | None = None
    has_left: bool = False


class Runs:
    """A server that runs the first attempt of each call, and ends the call by what came of it."""

    def __init__(self, world: World, settings: Settings, database: Path) -> None:
        self.deps = make_dependencies(settings, database, world.clock)
        self.runs: list[Run] = []
        self.waits_s = 0.0
        wire = WireSettings(
            lambda refusal: make_error_response(refusal_error(refusal), [], close=True), clock=world.clock
        )
        self.server = WireServer(world, self._serve, wire)
        self._world = world

    async def stop(self) -> None:
        """End all calls and close everything."""
        await self.server.stop()
        await self.deps.in_flight.close()
        assert_given_back(self.deps, self.server.connections)
        await self.deps.pool.close()
        assert_pool_empty(self.deps.pool)
        await self.deps.store.close()

    async def _serve(self, stream: Stream) -> None:
        deps, call = self.deps, begin(self.deps)
        await admit(call, stream.head, deps)
        accept_request(call, await read_request(call, stream, deps.bodies))
        accept_route(call, find_route(call))
        attempt = await reserve_first(call, deps)
        await asyncio.sleep(self.waits_s)
        began_s, failure, has_left = self._world.loop.time(), None, False
        try:
            failure = await AttemptRunner(call, attempt, stream, deps).run()
        except ClientLeft:
            has_left = True
        took_s = self._world.loop.time() - began_s
        self.runs.append(Run(call, attempt, call.exchange.stage, took_s, failure, has_left))
        if has_left:
            await deps.in_flight.abandon(call)
        elif failure:
            await _end(deps, call, stream, failure)


async def _end(deps: Dependencies, call: Call, stream: Stream, failure: ErrorAnswer) -> None:
    await deps.in_flight.settle(call, failure.status, failure.code)
    if call.is_head_sent:
        await stream.end(failure.sse_event())
    else:
        await stream.respond(make_error_response(failure, make_gateway_fields(call)))


@dataclass(frozen=True)
class Ran:
    """The results of the calls of one test, before everything was closed. ``asked``: each request of the provider."""

    runs: list[Run]
    answers: list[Answer]
    asked: list[Generated]
    connections: int
    pool: PoolStats
    metrics: str


type Prepare = Callable[[World, Dependencies], Awaitable[None]]
type MakeCalls = Callable[..., Outcome[Ran]]
"""``CallMaker.make``."""


def write_settings(folder: Path, heartbeat_s: float = 0, **of_workspace: Any) -> Settings:
    """Return settings with one provider, at ``PROVIDER_PORT``, and one customer, with ``KEY``."""
    upstream = {
        "heartbeat_s": heartbeat_s,
        "connect_timeout_s": 5,
        "first_byte_timeout_s": FIRST_BYTE_TIMEOUT_S,
        "idle_timeout_s": IDLE_TIMEOUT_S,
        "whole_timeout_s": WHOLE_TIMEOUT_S,
    }
    written = Configuration(
        providers={"TESTER": provider(f"http://127.0.0.1:{PROVIDER_PORT}/v1")},
        models={"m": model(), "other": model()},
        workspaces={"acme": workspace(("ci", KEY, True), **of_workspace)},
        sections={"upstream": upstream},
    ).write(folder)
    return load_settings(written, {"TEST_PROVIDER_KEY": "fake"})


@dataclass(frozen=True)
class CallMaker:
    """Makes calls with ``settings`` on the ledger ``database``."""

    settings: Settings
    database: Path

    def make(
        self,
        fates: str | list[str],
        *behaviour: ClientBehaviour,
        seed: int = 1,
        link: Faults = CALM,
        unanswered_after_s: float = 5.0,
        pause_s: float = 0.0,
        waits_s: float = 0.0,
        prepare: Prepare | None = None,
    ) -> Outcome[Ran]:
        """Make calls of some behaviours, one after another, with pauses between them.

        The provider does the same with each call, or with the requests of each as its fate says. Each
        attempt runs ``waits_s`` after it was dispatched.
        """

        async def main(world: World) -> Ran:
            tester = Provider(world)
            tester.unanswered_after_s = unanswered_after_s
            await tester.start()
            assert tester.port == PROVIDER_PORT
            world.network.faults[PROVIDER_PORT] = link
            runs = Runs(world, self.settings, self.database)
            runs.waits_s = waits_s
            if prepare:
                await prepare(world, runs.deps)
            await runs.server.start()
            client, answers = Client(runs.server.port, KEY, "m"), []
            for number, one in enumerate(behaviour):
                tester.weights = {fates if isinstance(fates, str) else fates[number]: 1}
                answers.append(await client.call(f"call-{number}", one))
                await asyncio.sleep(pause_s)
            await client.close()
            stats, metrics = runs.deps.pool.stats(), runs.deps.in_flight.metrics.render()[1].decode()
            ran = Ran(runs.runs, answers, tester.log, tester.connections, stats, metrics)
            await runs.stop()
            await tester.stop()
            return ran

        return simulate(seed, main)

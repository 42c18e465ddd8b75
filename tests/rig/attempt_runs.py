"""A server on a simulated network that runs the first attempt of each call."""

from dataclasses import dataclass
from pathlib import Path

from addon.calls.attempt import UpstreamAttempt
from addon.calls.attempt_runner import AttemptRunner
from addon.calls.call import admit, begin
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.request_body import read_chat_request
from addon.calls.reservation import reserve_first
from addon.calls.responses import make_error_response, make_gateway_fields
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.settings.settings import Settings
from addon.text.errors import ErrorAnswer, refusal_error
from addon.upstream.pool import PoolStats
from addon.wire.connection import WireSettings
from addon.wire.stream import ClientLeft, Stream
from policies.call_stages import Stage
from rig.call_stages import make_dependencies
from rig.simulation import World
from rig.simulation.clients import Answer
from rig.simulation.wire_server import WireServer


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
        wire = WireSettings(
            lambda refusal: make_error_response(refusal_error(refusal), [], close=True), clock=world.clock
        )
        self.server = WireServer(world, self._serve, wire)
        self._world = world

    async def stop(self) -> None:
        """End all calls and close everything."""
        await self.server.stop()
        await self.deps.in_flight.close()
        await self.deps.pool.close()
        await self.deps.store.close()

    async def _serve(self, stream: Stream) -> None:
        deps, call = self.deps, begin(self.deps)
        await admit(call, stream.head, deps)
        accept_request(call, await read_chat_request(call, stream, deps.bodies))
        accept_route(call, find_route(call))
        attempt = await reserve_first(call, deps)
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
    """The results of the calls of one test, before everything was closed."""

    runs: list[Run]
    answers: list[Answer]
    connections: int
    pool: PoolStats

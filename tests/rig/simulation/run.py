"""Runs of a coroutine on a simulated loop, and their comparison."""

import asyncio
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from addon.gateway.in_use import find_timers
from rig.simulation.loop import MAX_STEPS, SimulatedClock, SimulatedLoop
from rig.simulation.network import Network
from rig.simulation.trace import Trace, first_difference

LAST_BYTES_S = 1.0
"""How long the other end may take to learn that a connection is closed."""


@dataclass(frozen=True, slots=True)
class World:
    """The argument of a run's coroutine: the loop and what belongs to it."""

    loop: SimulatedLoop
    random: Random
    network: Network
    clock: SimulatedClock
    trace: Trace

    def token_hex(self, size: int) -> str:
        """As ``secrets.token_hex``, but from the seed."""
        return self.random.randbytes(size).hex()


@dataclass(frozen=True, slots=True)
class Outcome[Result]:
    """The outcome of a run. ``errors``: uncaught exceptions and log lines of the level error.

    ``left``: tasks, connections and timers of the gateway's code that did not end.
    """

    seed: int
    result: Result
    trace: Trace
    steps: int
    virtual_s: float
    errors: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def simulate[Result](
    seed: int,
    main: Callable[[World], Awaitable[Result]],
    *,
    max_steps: int = MAX_STEPS,
    eager_tasks: bool = False,
    may_leave: bool = False,
) -> Outcome[Result]:
    """Run ``main`` with ``seed``. Raise what it raises, ``Deadlock`` and ``TooManySteps``.

    Fail where anything is left after it, unless it ``may_leave`` something.
    """
    random, errors = Random(seed), list[str]()
    descriptors = len(os.listdir("/dev/fd"))

    def make_loop() -> SimulatedLoop:
        return SimulatedLoop(random, max_steps=max_steps, eager_tasks=eager_tasks)

    with asyncio.Runner(loop_factory=make_loop) as runner, _collect_errors(errors):
        loop: Any = runner.get_loop()
        loop.set_exception_handler(lambda _, context: errors.append(_describe(context)))
        world = World(loop, random, loop.network, loop.clock, loop.trace)
        began_s = loop.time()
        result, left = runner.run(_run(world, main))
        loop.trace.add(loop.time(), "result", result)
        ran = Outcome(seed, result, loop.trace, loop.steps, loop.time() - began_s, errors, left)
    more = len(os.listdir("/dev/fd")) - descriptors
    assert may_leave or (not left and more <= 0), f"seed {seed}: left are {left}, and {more} open files"
    return ran


class _ErrorCollector(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        trace = traceback.format_exception(*record.exc_info) if record.exc_info else []
        self._errors.append(f"{record.name}: {record.getMessage()}\n{''.join(trace)}")


@contextmanager
def _collect_errors(errors: list[str]) -> Iterator[None]:
    """Collect log lines of the level error."""
    handler = _ErrorCollector(errors)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


async def _run[Result](world: World, main: Callable[[World], Awaitable[Result]]) -> tuple[Result, list[str]]:
    result = await main(world)
    if _find_left(world):
        await asyncio.sleep(LAST_BYTES_S)
    return result, _find_left(world)


def _find_left(world: World) -> list[str]:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    timers = [f"timer {timer._callback.__qualname__}" for timer in find_timers(world.loop)]
    return sorted([*map(_name_of, others), *timers, *world.network.open.values()])


def compare(one: Outcome[Any], other: Outcome[Any]) -> str:
    """Return where two runs differ, in their events or their results, or "" if they are the same."""
    return first_difference(one.trace, other.trace) or (
        "" if one.result == other.result else "in their results"
    )


def _name_of(task: asyncio.Task[Any]) -> str:
    return f"task {getattr(task.get_coro(), '__qualname__', '')}"


def _describe(context: dict[str, Any]) -> str:
    return f"{context.get('message')}: {context.get('exception')!r}"

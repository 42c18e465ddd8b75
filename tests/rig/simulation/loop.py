"""An asyncio loop with virtual time and a network in memory. It never really waits and has no sockets."""

import asyncio
import contextvars
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from rig.simulation.network import Network
from rig.simulation.trace import Trace

BEGIN_S = 1000.0
BEGIN = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
MAX_STEPS = 2_000_000
_SHOWN_TASKS = 20


class Deadlock(RuntimeError):  # noqa: N818  (the field's word)
    """Nothing is ready, no timer is set, and the main task is not done."""


class TooManySteps(RuntimeError):  # noqa: N818
    """The loop took more turns than its bound. Most likely a task spins."""


class SimulatedClock:
    """A ``Clock`` that shows a loop's virtual time."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def monotonic_s(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def now(self) -> datetime:
        """Return the time of day. The loop starts at ``BEGIN``."""
        return BEGIN + timedelta(seconds=self._loop.time() - BEGIN_S)


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one seed. Callbacks take no time. When nothing is ready, the clock jumps to the next timer.

    ``run_until_complete`` raises ``Deadlock`` and ``TooManySteps``. Functions for an executor run in the loop's own
    thread, at its next turn. Tasks are eager only with ``eager_tasks``.
    """

    def __init__(self, random: Random, *, max_steps: int = MAX_STEPS, eager_tasks: bool = False) -> None:
        super().__init__()
        self._now_s = BEGIN_S
        self._clock_resolution = 1e-9
        self._selector = _ClockSelector(self, max_steps)
        self.random = random
        self.trace = Trace()
        self.network = Network(self, random, self.trace)
        self.clock = SimulatedClock(self)
        if eager_tasks:
            self.set_task_factory(asyncio.eager_task_factory)

    @property
    def steps(self) -> int:
        """How many turns the loop took."""
        return self._selector.steps

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass. Called by the loop's selector, and by tests that simulate a stopped process."""
        self._now_s += seconds

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run ``func`` in this thread, at the next turn."""
        future = self.create_future()
        self.call_soon(_run_into, future, func, args)
        return future

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """Look up a name in the network's table. Raise ``socket.gaierror``."""
        return self._found(host, port, family)

    def _found(self, host: Any, port: Any, family: int = 0) -> list[Any]:
        found = [
            (kind, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)
            for kind, address in self.network.addresses(host, int(port or 0))
            if family in (0, kind)
        ]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        family: int = 0,
        **options: Any,
    ) -> tuple[Any, Any]:
        """Connect to a server of this loop, address after address. TLS and existing sockets are not simulated."""
        if ssl or sock or host is None:
            raise NotImplementedError("the simulated network has no TLS and no sockets")
        errors: list[OSError] = []
        for _, _, _, _, address in self._found(host, port, family):
            try:
                return await self.network.connect(protocol_factory, address)
            except OSError as error:
                errors.append(error)
        raise errors[0]

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **options: Any,
    ) -> Any:
        """Listen on a port of the simulated network, whatever the ``host``. Port 0 takes a free one."""
        if ssl or sock:
            raise NotImplementedError("the simulated network has no TLS and no sockets")
        return self.network.listen(protocol_factory, port or 0)

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: arrivals are timers."""

    def _write_to_self(self) -> None:
        """Do nothing: with one thread there is nothing to wake."""


class _ClockSelector:
    """The loop's selector. It advances the clock instead of waiting."""

    def __init__(self, loop: SimulatedLoop, max_steps: int) -> None:
        self._loop = loop
        self._max_steps = max_steps
        self.steps = 0

    def select(self, timeout: float | None) -> list[Any]:
        self.steps += 1
        if self.steps > self._max_steps:
            self._max_steps *= 2  # So that the tasks can be ended.
            raise TooManySteps(
                f"after {self.steps - 1} turns, at {self._loop.time():.3f} s:\n{self._pending()}"
            )
        if timeout is None:
            raise Deadlock(f"at {self._loop.time():.3f} s nothing will happen any more:\n{self._pending()}")
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def _pending(self) -> str:
        lines = sorted(map(_describe_task, asyncio.all_tasks(self._loop)))
        more = [f"and {len(lines) - _SHOWN_TASKS} more"] if len(lines) > _SHOWN_TASKS else []
        return "\n".join([*lines[:_SHOWN_TASKS], *more])


def _describe_task(task: asyncio.Task[Any]) -> str:
    """Return where a task waits: its frames, down to the innermost."""
    where = [f"{frame.f_code.co_qualname} line {frame.f_lineno}" for frame in task.get_stack()]
    awaited = task.get_coro()
    while (inner := getattr(awaited, "cr_await", None)) is not None:
        awaited = inner
        if frame := getattr(inner, "cr_frame", None):
            where.append(f"{frame.f_code.co_qualname} line {frame.f_lineno}")
    return f"task {task.get_name()}: {' > '.join(where)}"


def _run_into(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        # An executor's thread does not have the caller's context.
        future.set_result(contextvars.Context().run(func, *args))
    except Exception as error:  # noqa: BLE001  (as asyncio does)
        future.set_exception(error)

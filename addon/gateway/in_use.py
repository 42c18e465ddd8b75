"""Everything bounded that is taken and given back, and how much of it is in use now: the gauge ``tollgate_in_use``.

Each number is read where the bound is kept, so no call counts anything for this. docs/metrics.md explains each.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from addon.calls.dependencies import Dependencies
from addon.wire.connection import Connection


@dataclass(frozen=True, slots=True)
class Process:
    """What the gauges are read from: the services of one process, its client connections, and how many holds it has."""

    deps: Dependencies
    connections: Callable[[], Collection[Connection]]
    held: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource. ``read`` returns how much of it is in use, in ``unit``.

    ``may_stay``: some of it may be in use while no call is in flight and nothing of one is left.
    """

    name: str
    unit: str
    read: Callable[[Process], int]
    may_stay: bool = False


RESOURCES: Final = (
    Resource("calls", "calls", lambda of: len(of.deps.in_flight.calls)),
    Resource("workspace_calls", "calls", lambda of: of.deps.in_flight.workspace_calls),
    Resource("call_tasks", "tasks", lambda of: of.deps.in_flight.tasks),
    Resource("unrelayed_answers", "answers", lambda of: of.deps.unrelayed.count),
    Resource("body_bytes", "bytes", lambda of: of.deps.bodies.bytes),
    Resource("workspace_body_bytes", "bytes", lambda of: of.deps.bodies.workspace_bytes),
    Resource("bodies_being_read", "bodies", lambda of: of.deps.bodies.reading),
    Resource("holds", "holds", lambda of: of.held()),
    Resource("circuit_probes", "calls", lambda of: len(of.deps.store.probes)),
    Resource("quota_attempts", "attempts", lambda of: of.deps.platform_keys.quotas.in_flight),
    Resource("workspace_places", "places", lambda of: of.deps.pool.stats().workspace_places),
    Resource("origin_places", "places", lambda of: of.deps.pool.stats().origin_places),
    Resource("waiting_for_places", "calls", lambda of: of.deps.pool.stats().waiting),
    Resource("connecting", "connections", lambda of: of.deps.pool.stats().connecting),
    Resource("leased_connections", "connections", lambda of: of.deps.pool.stats().leased),
    Resource("idle_connections", "connections", lambda of: of.deps.pool.stats().idle, may_stay=True),
    Resource("client_connections", "connections", lambda of: len(of.connections()), may_stay=True),
    Resource("client_requests", "requests", lambda of: sum(one.stream_count for one in of.connections())),
    Resource(
        "connection_window_bytes",
        "bytes",
        lambda of: sum(one.used_window_bytes[0] for one in of.connections()),
    ),
    Resource(
        "stream_window_bytes", "bytes", lambda of: sum(one.used_window_bytes[1] for one in of.connections())
    ),
)
"""What calls and connections take."""

OF_THE_PROCESS: Final = (
    Resource("tasks", "tasks", lambda _: len(asyncio.all_tasks()), may_stay=True),
    Resource("timers", "timers", lambda _: len(find_timers(asyncio.get_running_loop())), may_stay=True),
    Resource("descriptors", "descriptors", lambda _: len(os.listdir("/dev/fd")) - 1, may_stay=True),
)
"""What all work of the process takes. To count it takes as long as there is much of it."""


def read_in_use(process: Process, *, whole: bool = False) -> Mapping[str, int]:
    """Return how much of each resource is in use, by its name; if ``whole``, also what the process has in all."""
    resources = (*RESOURCES, *OF_THE_PROCESS) if whole else RESOURCES
    return {one.name: one.read(process) for one in resources}


def find_left(process: Process) -> Mapping[str, int]:
    """Return what is in use and should not be, once no call is in flight. Each unit of it was not given back."""
    return {one.name: left for one in RESOURCES if not one.may_stay and (left := one.read(process))}


def find_timers(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """Return the timers that the gateway's own code has set on ``loop``. Those of asyncio belong to a task."""
    # asyncio has no public list. Timers that were cancelled stay in it for a while.
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    return [one for one in timers if getattr(one._callback, "__module__", "").startswith("addon.")]

"""A worker: one of several gateway processes on one port.

``worker_template`` forks it, or it is a new interpreter: ``python -m addon.serve.worker N``. It reads its settings from
the folder that it shares with its supervisor, and writes its status there. Its arguments are its number and
descriptors: first of a pipe that it closes when it accepts no more clients, then of all sockets that listen for the
gateway. Its standard input is a pipe with orders of the supervisor. When that ends, the supervisor is gone, and the
worker drains.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from addon.gateway.lifecycle import Lifecycle
from addon.runtime.tasks import wait_for_first
from addon.serve.server import Server, serving
from addon.serve.signals import stop_signals
from addon.serve.start_faults import START_FAULTS
from addon.serve.worker_status import ReadinessQuestion, WorkerStatus
from addon.settings.errors import describe_error
from addon.settings.snapshot import SNAPSHOT_FILE, SNAPSHOT_KEY_VARIABLE, SnapshotSettings
from addon.telemetry.logs import configure_logging
from addon.telemetry.metrics import FOLDER_VARIABLE

_STDIN = 0

SIGN_S = 1.0
"""The time between two signs of life."""

MAX_ORDER_BYTES = 4096
"""The most that is read of the orders at once."""

LOOK_S = 0.1
"""The time between two looks for a new snapshot, or for a question.

The supervisor needs most of the two seconds that an edit may take.
"""


class Orders:
    """The orders of the supervisor, one a line of standard input.

    | order | means |
    |---|---|
    | `accept 0 2` | accept clients on these sockets, by their positions, and on no others |
    | `leave` | a takeover: accept no more, and end when the clients have ended their connections |
    """

    def __init__(self, descriptors: Sequence[int], stop: asyncio.Event) -> None:
        self.leave = asyncio.Event()
        self._leaving, *sockets = descriptors
        self._sockets = [socket.socket(fileno=one) for one in sockets]
        self._stop = stop
        self._accepted: Sequence[socket.socket] = ()
        self._changed = asyncio.Event()
        self._rest = b""
        self._pipe = _STDIN
        os.set_blocking(self._pipe, False)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)

    async def follow(self, server: Server) -> None:
        """Let ``server`` accept on the sockets of the last order, again and again."""
        while True:
            self._changed.clear()
            await server.accept(self._accepted)
            await self._changed.wait()

    def close(self) -> None:
        """Close all sockets in this process, and let the supervisor know."""
        for one in self._sockets:
            one.close()
        os.close(self._leaving)

    def _read(self) -> None:
        data = os.read(self._pipe, MAX_ORDER_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._stop.set()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order, *words = line.decode("ascii").split()
            if order == "leave":
                self.leave.set()
            else:
                self._accepted = [self._sockets[int(word)] for word in words]
                self._changed.set()


async def work(number: int, descriptors: Sequence[int]) -> bool:
    """Serve until SIGTERM, SIGINT or the end of the supervisor, then drain. Return False when it can't start."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    status = WorkerStatus(folder, number)
    files = SnapshotSettings(folder / SNAPSHOT_FILE, os.environ.pop(SNAPSHOT_KEY_VARIABLE), os.environ)
    try:
        with stop_signals() as stop:
            orders = Orders(descriptors, stop)
            await serve(files, ReadinessQuestion(folder), status, orders, stop)
    except START_FAULTS as error:
        status.write_fault(describe_error(error))
        return False
    return True


async def serve(
    files: SnapshotSettings,
    question: ReadinessQuestion,
    status: WorkerStatus,
    orders: Orders,
    stop: asyncio.Event,
) -> None:
    """Serve on the settings of the snapshot until ``stop``, or until the order to leave. Raises as ``serving`` does."""
    duties: asyncio.Task[None] | None = None
    try:
        async with serving(files.load()) as server:
            lifecycle = server.gateway.lifecycle()
            duties = asyncio.create_task(run_duties(files, question, status, lifecycle, stop))
            await wait_for_first(stop.wait(), orders.leave.wait(), orders.follow(server))
            if not stop.is_set():
                server.hurry = stop
            await server.accept([])
            orders.close()
    finally:
        if duties:
            duties.cancel()
            await asyncio.wait([duties])


async def run_duties(
    files: SnapshotSettings,
    question: ReadinessQuestion,
    status: WorkerStatus,
    lifecycle: Lifecycle,
    stop: asyncio.Event,
) -> None:
    """Do all that the supervisor expects, also while the gateway drains. Set ``stop`` when a duty fails."""
    try:
        async with asyncio.TaskGroup() as duties:
            duties.create_task(follow_snapshot(files, lifecycle))
            duties.create_task(answer_questions(question, status, lifecycle))
            duties.create_task(give_signs(status))
    finally:
        stop.set()


async def follow_snapshot(files: SnapshotSettings, lifecycle: Lifecycle) -> None:
    """Apply each new snapshot. If one does not load, keep the last good settings."""
    # DNS lookups may occupy all of asyncio's own threads.
    thread = ThreadPoolExecutor(1, thread_name_prefix="settings")
    while True:
        await asyncio.sleep(LOOK_S)
        if not files.is_changed:
            continue
        try:
            lifecycle.apply(await asyncio.get_running_loop().run_in_executor(thread, files.load))
        except Exception as fault:  # noqa: BLE001  (the next snapshot may load)
            lifecycle.note_fault(fault)


async def answer_questions(question: ReadinessQuestion, status: WorkerStatus, lifecycle: Lifecycle) -> None:
    """Write the readiness once, and again whenever the supervisor asks."""
    answered = None
    while True:
        if (number := question.number()) != answered:
            status.write_readiness(await lifecycle.readiness(), number)
            answered = number
        await asyncio.sleep(LOOK_S)


async def give_signs(status: WorkerStatus) -> None:
    """Give a sign of life every ``SIGN_S``, also while a check of the readiness waits for the store."""
    while True:
        status.touch()
        await asyncio.sleep(SIGN_S)


def main(number: int, descriptors: Sequence[int]) -> int:
    """Run this worker to its end. Return the exit status."""
    configure_logging(worker=number)
    return 0 if asyncio.run(work(number, descriptors)) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]))

"""``python -m addon.serve.worker N``: one of several gateway processes on one port.

It reads its settings from the folder that it shares with its supervisor, and writes its status there. Its standard
input is a pipe that carries nothing. When the pipe ends, the supervisor is gone, and the worker drains.
"""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from addon.gateway.lifecycle import Lifecycle
from addon.serve.ports import join
from addon.serve.server import serving
from addon.serve.signals import stop_signals
from addon.serve.start_faults import START_FAULTS
from addon.serve.worker_status import ReadinessQuestion, WorkerStatus
from addon.settings.errors import describe_error
from addon.settings.snapshot import SNAPSHOT_FILE, SNAPSHOT_KEY_VARIABLE, SnapshotSettings
from addon.telemetry.logs import configure_logging
from addon.telemetry.metrics import FOLDER_VARIABLE

SIGN_S = 1.0
"""The time between two signs of life."""

LOOK_S = 0.1
"""The time between two looks for a new snapshot, or for a question.

The supervisor needs most of the two seconds that an edit may take.
"""


async def work(number: int) -> bool:
    """Serve until SIGTERM, SIGINT or the end of the supervisor, then drain. Return False when it can't start."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    status = WorkerStatus(folder, number)
    files = SnapshotSettings(folder / SNAPSHOT_FILE, os.environ.pop(SNAPSHOT_KEY_VARIABLE), os.environ)
    try:
        with stop_signals() as stop:
            _watch_supervisor(stop)
            await serve(files, ReadinessQuestion(folder), status, stop)
    except START_FAULTS as error:
        status.write_fault(describe_error(error))
        return False
    return True


def _watch_supervisor(stop: asyncio.Event) -> None:
    """Set ``stop`` when the supervisor is gone."""
    loop, pipe = asyncio.get_running_loop(), sys.stdin.fileno()

    def note_end() -> None:
        loop.remove_reader(pipe)
        stop.set()

    loop.add_reader(pipe, note_end)


async def serve(
    files: SnapshotSettings, question: ReadinessQuestion, status: WorkerStatus, stop: asyncio.Event
) -> None:
    """Serve on the settings of the snapshot until ``stop``. Raises as ``serving`` does."""
    settings = files.load()
    join_port = partial(join, settings.conf.listen.host, settings.conf.listen.port)
    duties: asyncio.Task[None] | None = None
    try:
        async with serving(settings, join_port) as gateway:
            duties = asyncio.create_task(run_duties(files, question, status, gateway.lifecycle(), stop))
            await stop.wait()
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


if __name__ == "__main__":
    configure_logging(worker=int(sys.argv[1]))
    sys.exit(not asyncio.run(work(int(sys.argv[1]))))

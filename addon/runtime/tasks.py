"""Waiting for the first of several things, and for one task within a bound of time."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until the first of ``waits`` ends, and cancel the others. Raise what it raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


async def wait_at_most(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Wait for ``task``. As ``asyncio.wait`` of one task, with a third of its steps."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(timeout_s, wake)
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        task.remove_done_callback(wake)

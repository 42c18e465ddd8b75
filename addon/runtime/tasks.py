"""Waiting for the first of several things."""

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

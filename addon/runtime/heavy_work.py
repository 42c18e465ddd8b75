"""What a large body costs is worked off beside the event loop, one call after the other.

A thread computes no faster, but between two of its steps, each of which is short, the loop has its turns.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LIGHT_BODY_BYTES = 64 * 1024
"""A body up to here is worked off at once: that takes less than a change of threads may."""

_thread = ThreadPoolExecutor(1, "heavy-work")


async def work_off[**Args, Made](
    body_bytes: int, work: Callable[Args, Made], *args: Args.args, **more: Args.kwargs
) -> Made:
    """Return what ``work`` makes of its arguments, for a call with a body of this size. Raises what it raises."""
    if body_bytes <= LIGHT_BODY_BYTES:
        return work(*args, **more)
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **more))

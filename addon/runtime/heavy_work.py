"""A thread for the work on large bodies, one call after another, so that the event loop goes on.

The thread is no faster, but its work has short steps, and the loop runs between them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LIGHT_BODY_BYTES = 64 * 1024
"""The work on a body up to this size runs at once: a change of threads may take longer."""

_thread = ThreadPoolExecutor(1, "heavy-work")


async def run_heavy_work[**Args, Result](
    body_bytes: int, work: Callable[Args, Result], *args: Args.args, **more: Args.kwargs
) -> Result:
    """Return the result of ``work``, run in the thread if the body is large. Raises what ``work`` raises."""
    if body_bytes <= LIGHT_BODY_BYTES:
        return work(*args, **more)
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **more))

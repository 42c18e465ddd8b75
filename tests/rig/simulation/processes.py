"""Processes of a simulated world, which can be killed: nothing of theirs is run any more, not even a ``finally``."""

import asyncio
import contextvars
import ctypes
from collections.abc import Coroutine
from typing import Any

_PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """What is run within ``run``, and all that it starts: tasks, timers, servers, connections."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    async def run[Result](self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run ``work`` as this process."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, self)
        return await self._loop.create_task(work, context=context)

    def kill(self) -> None:
        """End everything at once. Its sockets are closed by the kernel; files are the caller's to let go of."""
        self._loop.network.kill(self._has)
        for handle in [*self._loop._ready, *self._loop._scheduled]:
            if self._has(handle._context):
                handle.cancel()
        for task in asyncio.all_tasks(self._loop):
            if self._has(task.get_context()):
                asyncio._unregister_task(task)  # So that nobody cancels it, or waits for it.
                # A coroutine that is let go of runs its ``finally``. This one never is.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))

    def _has(self, context: contextvars.Context) -> bool:
        return context.get(_PROCESS) is self

"""Simulated processes. A killed process runs no more code, not even a ``finally``."""

import asyncio
import contextvars
import ctypes
from collections.abc import Coroutine
from typing import Any

_PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """The coroutine of ``run`` and all that it starts: tasks, timers, servers, connections."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    async def run[Result](self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run ``work`` as this process."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, self)
        return await self._loop.create_task(work, context=context)

    def kill(self) -> None:
        """End everything at once. The kernel closes its sockets. The caller releases its files."""
        self._loop.network.kill(self._owns)
        for handle in [*self._loop._ready, *self._loop._scheduled]:
            if self._owns(handle._context):
                handle.cancel()
        for task in asyncio.all_tasks(self._loop):
            if self._owns(task.get_context()):
                asyncio._unregister_task(task)  # Nothing cancels it or waits for it.
                # A coroutine that is freed runs its ``finally``, so this one is never freed.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))

    def _owns(self, context: contextvars.Context) -> bool:
        return context.get(_PROCESS) is self

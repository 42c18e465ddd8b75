"""How long a connection to a provider may take, its TLS included."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakSet

from mitmproxy.connection import Connection, Server

from addon.deadline import Deadline

LOOKUPS = 32
"""Names that are looked up at once, each in a thread. A lookup that waits for one says nothing of its provider."""


class ConnectTimers:
    """One deadline a connection that is being made. ``lagged`` are those that this process was too late for.

    mitmproxy has no such limit. Its ``server_connect`` hook runs inside the task that connects, so cancelling that
    task is a clean failed connect.
    """

    def __init__(self) -> None:
        self.deadlines: dict[Connection, Deadline] = {}
        self.lagged: WeakSet[Connection] = WeakSet()
        self._lookups: ThreadPoolExecutor | None = None

    def begin(self, server: Server, timeout_s: float) -> None:
        """Give the connection that the current task makes ``timeout_s`` seconds."""
        if self._lookups is None:
            self._lookups = ThreadPoolExecutor(LOOKUPS, "lookup")
            asyncio.get_running_loop().set_default_executor(self._lookups)
        task = asyncio.current_task()
        if task:
            self.deadlines[server] = Deadline(timeout_s, lambda: self._expire(server, task))

    def end(self, server: Connection) -> None:
        """The connection stands, or never will."""
        deadline = self.deadlines.pop(server, None)
        if deadline:
            deadline.cancel()

    def _expire(self, server: Server, task: asyncio.Task[object]) -> None:
        some_wait = self._lookups is not None and self._lookups._work_queue.qsize() > 0
        if some_wait or not self.deadlines[server].is_fair:
            self.lagged.add(server)
        task.cancel("connect timeout")

"""How long a connection to a provider may take, its TLS included."""

import asyncio
from weakref import WeakSet

from mitmproxy.connection import Connection, Server

from addon.deadline import Deadline


class ConnectTimers:
    """One deadline a connection that is being made. ``lagged`` are those that this process was too late for.

    mitmproxy has no such limit. Its ``server_connect`` hook runs inside the task that connects, so cancelling that
    task is a clean failed connect.
    """

    def __init__(self) -> None:
        self.deadlines: dict[Connection, Deadline] = {}
        self.lagged: WeakSet[Connection] = WeakSet()

    def begin(self, server: Server, timeout_s: float) -> None:
        """Give the connection that the current task makes ``timeout_s`` seconds."""
        task = asyncio.current_task()
        if task:
            self.deadlines[server] = Deadline(timeout_s, lambda: self._expire(server, task))

    def end(self, server: Connection) -> None:
        """The connection stands, or never will."""
        deadline = self.deadlines.pop(server, None)
        if deadline:
            deadline.cancel()

    def _expire(self, server: Server, task: asyncio.Task[object]) -> None:
        if not self.deadlines[server].is_fair:
            self.lagged.add(server)
        task.cancel("connect timeout")

"""How long a connection to a provider may take, its TLS included."""

import asyncio

from mitmproxy.connection import Connection, Server


class ConnectTimers:
    """One timer a connection that is being made.

    mitmproxy has no such limit. Its ``server_connect`` hook runs inside the task that connects, so cancelling that
    task is a clean failed connect.
    """

    def __init__(self) -> None:
        self.timers: dict[Connection, asyncio.TimerHandle] = {}

    def begin(self, server: Server, timeout_s: float) -> None:
        """Give the connection that the current task makes ``timeout_s`` seconds."""
        task = asyncio.current_task()
        if task:
            loop = asyncio.get_running_loop()
            self.timers[server] = loop.call_later(timeout_s, task.cancel, "connect timeout")

    def end(self, server: Connection) -> None:
        """The connection stands, or never will."""
        timer = self.timers.pop(server, None)
        if timer:
            timer.cancel()

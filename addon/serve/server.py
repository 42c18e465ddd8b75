"""The server: a mitmproxy master with only the addons that a gateway needs, its signals and its drain."""

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

from mitmproxy.log import LegacyLogEvents
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.utils import asyncio_utils

from addon.gateway.addon import Gateway
from addon.gateway.options import MODE, mitmproxy_options
from addon.serve.opening import Opening, Start, opened
from addon.serve.signals import stop_signals
from addon.settings.settings import Settings, SettingsFiles
from addon.telemetry.admin import Readiness
from addon.wire.hooks import Listener

log = logging.getLogger("tollgate.serve")

GC_THRESHOLD = 20_000
"""New objects between two garbage collections. A call makes some hundreds, and nearly all need no collection."""


def _remove_log_events() -> None:
    """Remove mitmproxy's handler that makes an event of each log line. No addon of ours needs these events."""
    for handler in logging.getLogger().handlers[:]:
        if isinstance(handler, LegacyLogEvents):
            handler.uninstall()


def _tune_garbage_collection() -> None:
    """Let the collector skip the objects that exist now, because most are never freed, and run less often.

    They are not collected first. A start leaves some hundred objects of garbage, and the search for them takes longer
    than the import of most libraries.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


class Server:
    """A gateway whose services have started. It accepts clients on the sockets that it is given."""

    def __init__(self, gateway: Gateway, listener: Listener) -> None:
        self.gateway = gateway
        self.hurry: asyncio.Event | None = None
        """Set when another process serves new connections: then the end keeps open ones until this event."""
        self._listener = listener
        self._accepting: dict[socket.socket, asyncio.Server] = {}

    async def accept(self, sockets: Sequence[socket.socket]) -> None:
        """Accept clients on ``sockets`` and on no others. This closes none of them."""
        for one in [one for one in self._accepting if one not in sockets]:
            self._accepting.pop(one).close()
        for one in sockets:
            if one not in self._accepting:
                # The server closes its own descriptor. The connections that wait in the queue stay.
                self._accepting[one] = await self._listener.accept(one.dup())
        # A connection that was accepted in this turn of the loop is made in the next one.
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(settings: Settings, files: SettingsFiles | None = None) -> AsyncIterator[Server]:
    """Start all services, and give a server that accepts no client yet. Drain at the end of the context.

    Without ``files``, watch no file and have no admin port: a supervisor has both. Raises StoreUnavailable when the
    ledger can't be written.
    """
    started_s, cut_calls = monotonic(), None
    master = Master(Options())
    _remove_log_events()
    gateway = Gateway()
    listener = Listener(gateway, MODE)
    master.addons.add(listener, gateway)
    try:
        gateway.use(settings, files)
        master.options.update(**mitmproxy_options(settings, master.options))
        await gateway.start()
        _tune_garbage_collection()
        # As in mitmproxy's own loop: with eager tasks, a hook costs no turn of the loop.
        with asyncio_utils.set_eager_task_factory():
            server = Server(gateway, listener)
            try:
                yield server
            finally:
                await server.accept([])
                cut_calls = await gateway.drain(settings.conf.listen.drain_timeout_s, server.hurry)
    finally:
        await master.done()
        if cut_calls is not None:
            uptime_s = round(monotonic() - started_s, 3)
            fields = {"event": "stopped", "uptime_s": uptime_s, "cut_calls": cut_calls}
            log.info("stopped after %g s; the drain cut off %d calls", uptime_s, cut_calls, extra=fields)


class SingleServer:
    """The ``Service`` of a gateway of one process."""

    def __init__(self, server: Server, opening: Opening) -> None:
        self._server = server
        self._ports = opening.ports

    async def accept(self) -> None:
        """See ``Service.accept``."""
        await self._server.accept(self._ports["listen"].sockets)

    async def pause(self) -> None:
        """See ``Service.pause``."""
        await self._server.accept([])

    async def readiness(self) -> Readiness:
        """See ``Service.readiness``."""
        return await self._server.gateway.lifecycle().readiness()

    async def open_admin(self) -> None:
        """See ``Service.open_admin``."""
        await self._server.gateway.lifecycle().open_admin(self._ports["admin"].copies())

    async def wait(self) -> None:
        """See ``Service.wait``."""
        await asyncio.Event().wait()

    def retire(self, hurry: asyncio.Event) -> None:
        """See ``Service.retire``."""
        self._server.hurry = hurry
        if admin := self._server.gateway.lifecycle().admin:
            admin.retire()


async def serve(
    files: SettingsFiles, settings: Settings, announce: Callable[[str], None], start: Start
) -> None:
    """Serve in this process until SIGTERM, SIGINT or a takeover. Call ``announce`` with the base URL when ready.

    Raises as ``opened`` and ``serving`` do.
    """
    # Open the ports first. So the error of a second gateway is about the port, not about the store.
    with stop_signals() as stop, opened(settings, files.conf_file, start) as opening:
        async with serving(settings, files) as server:
            await opening.serve(SingleServer(server, opening), announce, stop)

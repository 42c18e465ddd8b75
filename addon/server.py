"""The server: a mitmproxy master with no more addons than a gateway needs, its signals, its drain."""

import asyncio
import gc
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

from mitmproxy import ctx, http
from mitmproxy.addonmanager import safecall
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.log import LegacyLogEvents
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.layers.modes import ReverseProxy
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.utils import asyncio_utils

from addon.gateway import Gateway
from addon.listening import LISTEN_BACKLOG, base_url, bind
from addon.options import MODE, mitmproxy_options
from addon.settings import Settings, SettingsFiles
from addon.stop_signals import stop_signals
from addon.tls import UpstreamTls

GC_THRESHOLD = 20_000
"""New objects between two collections; a call makes some hundreds, and nearly all die by themselves."""

_MODE = ProxyMode.parse(MODE)


class Handler(ProxyConnectionHandler):
    """One client connection, whose hooks run at once.

    mitmproxy makes a task for each hook, asks every addon twice, and takes a turn of the event loop to go on. Ours
    seldom wait for anything: a hook that is done when it returns is completed on the spot. That
    is a good part of a short call.
    """

    def serve_layer(self, top_layer: Layer) -> None:
        """Make ``top_layer`` the first layer of this connection."""
        self.top_layer = top_layer
        self.layer = self  # type: ignore[assignment]

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        """Stand in for the layer: let it handle ``event``, and run the hooks that it asks for."""
        waiting = deque([event])
        while waiting:
            for command in self.top_layer.handle_event(waiting.popleft()):
                if not isinstance(command, commands.StartHook):
                    yield command
                elif self._is_done_now(command) and command.blocking:
                    waiting.append(events.HookCompleted(command))

    def _is_done_now(self, hook: commands.StartHook) -> bool:
        awaited = self._run(hook)
        if awaited:
            later = self._complete(hook, awaited)
            asyncio_utils.create_task(later, name=f"hook {hook.name}", keep_ref=True)
        return not awaited

    def _run(self, hook: commands.StartHook) -> list[Awaitable[None]]:
        """Call the addons' methods for ``hook``; return what they left to be awaited, which is mostly nothing."""
        awaited = []
        for addon in self.master.addons.chain:
            method = getattr(addon, hook.name, None)
            if method is not None:
                with safecall():
                    result = method(*hook.args())
                    if result is None:
                        continue
                    task = asyncio.ensure_future(result)
                    if task.done():
                        task.result()
                    else:
                        awaited.append(task)
        return awaited

    async def _complete(self, hook: commands.StartHook, awaited: list[Awaitable[None]]) -> None:
        with self.timeout_watchdog.disarm():
            for result in awaited:
                with safecall():
                    await result
        if hook.blocking:
            await self.server_event(events.HookCompleted(hook))

    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Run a hook that mitmproxy itself waits for, such as that of a new connection."""
        for result in self._run(hook):
            with safecall():
                await result


class Listener(Proxyserver):
    """mitmproxy's server on a socket that listens already. ``top_layer`` makes a connection's first layer."""

    name = "proxyserver"

    def __init__(self, top_layer: Callable[[Context], Layer]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.top_layer = top_layer

    def configure(self, updated: set[str]) -> None:
        """Nothing to configure: ``accept`` is told what to do."""

    async def accept(self, sock: socket.socket) -> asyncio.Server:
        """Begin to accept."""
        return await asyncio.start_server(self.handle_stream, sock=sock, backlog=LISTEN_BACKLOG)

    async def handle_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client connection to its end."""
        handler = Handler(ctx.master, reader, writer, ctx.options, _MODE)  # type: ignore[no-untyped-call]
        handler.serve_layer(self.top_layer(handler.layer.context))
        with self.register_connection(handler.client.id, handler):
            await handler.handle_client()


def _skip_type_checks() -> None:
    """Turn off what ``python -O`` would: mitmproxy checks the type of each field of each message, a tenth of a call."""
    http.MessageData.__post_init__ = lambda _message: None  # type: ignore[method-assign]


def _leave_logs_alone() -> None:
    """Take away mitmproxy's handler that makes an event of each log line: no addon of ours asks for them."""
    for handler in logging.getLogger().handlers[:]:
        if isinstance(handler, LegacyLogEvents):
            handler.uninstall()


@asynccontextmanager
async def serving(
    settings: Settings, listen: Callable[[], socket.socket], files: SettingsFiles | None = None
) -> AsyncIterator[Gateway]:
    """Serve while the context lasts, then drain. ``listen`` is called when calls can be answered.

    Without ``files`` no file is watched and there is no admin port: a supervisor has both. Raises OSError where a
    port can't be bound, StoreUnavailable where the ledger can't be written.
    """
    _skip_type_checks()
    conf = settings.conf.listen
    master = Master(Options())
    _leave_logs_alone()
    gateway = Gateway()
    # Where there is no TLS to begin with, the gateway's layer is the first, and nothing has to be asked.
    listener = Listener(ReverseProxy if conf.tls_certificate else gateway.http_layer)
    master.addons.add(UpstreamTls(), listener, gateway)
    try:
        gateway.use(settings, files)
        master.options.update(**mitmproxy_options(settings, master.options))
        await gateway.start()
        # What is loaded by now stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        # mitmproxy's own loop runs its tasks eagerly; a hook then costs no turn of the loop.
        with asyncio_utils.set_eager_task_factory():
            server = await listener.accept(listen())
            yield gateway
            server.close()
            await gateway.drain(conf.drain_timeout_s)
    finally:
        await master.done()


async def serve(files: SettingsFiles, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve in this process until SIGTERM or SIGINT. Calls ``announce`` with the base URL when ready.

    Raises as ``serving`` does.
    """
    conf = settings.conf.listen
    # Bound at once: who starts a second gateway is told so, and not what that finds in the store.
    with stop_signals() as stop, bind(conf.host, conf.port) as sock:
        async with serving(settings, lambda: sock, files):
            announce(base_url(conf.host, sock.getsockname()[1], tls=bool(conf.tls_certificate)))
            await stop.wait()

"""The server: a mitmproxy master with only the addons that a gateway needs, its signals and its drain."""

import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from mitmproxy.log import LegacyLogEvents
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.utils import asyncio_utils

from addon.gateway.addon import Gateway
from addon.gateway.options import MODE, mitmproxy_options
from addon.runtime.listening import base_url, bind
from addon.serve.signals import stop_signals
from addon.settings.settings import Settings, SettingsFiles
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
    """Let the collector skip the objects that exist now, because most are never freed, and run less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@asynccontextmanager
async def serving(
    settings: Settings, listen: Callable[[], socket.socket], files: SettingsFiles | None = None
) -> AsyncIterator[Gateway]:
    """Serve while the context lasts, then drain. Call ``listen`` as soon as calls can be answered.

    Without ``files``, watch no file and open no admin port: a supervisor has both. Raises OSError when a port can't be
    bound, StoreUnavailable when the ledger can't be written.
    """
    conf = settings.conf.listen
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
            server = await listener.accept(listen())
            yield gateway
            server.close()
            cut_calls = await gateway.drain(conf.drain_timeout_s)
    finally:
        await master.done()
        if cut_calls is not None:
            uptime_s = round(monotonic() - started_s, 3)
            fields = {"event": "stopped", "uptime_s": uptime_s, "cut_calls": cut_calls}
            log.info("stopped after %g s; the drain cut off %d calls", uptime_s, cut_calls, extra=fields)


async def serve(files: SettingsFiles, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve in this process until SIGTERM or SIGINT. Call ``announce`` with the base URL when ready.

    Raises as ``serving`` does.
    """
    conf = settings.conf.listen
    # Bind first. So the error of a second gateway is about the port, not about the store.
    with stop_signals() as stop, bind(conf.host, conf.port) as sock:
        async with serving(settings, lambda: sock, files):
            announce(base_url(conf.host, sock.getsockname()[1], tls=bool(conf.tls_certificate)))
            await stop.wait()

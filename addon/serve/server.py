"""The server: a mitmproxy master with no more addons than a gateway needs, its signals, its drain."""

import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

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

GC_THRESHOLD = 20_000
"""New objects between two collections; a call makes some hundreds, and nearly all die by themselves."""


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
    conf = settings.conf.listen
    master = Master(Options())
    _leave_logs_alone()
    gateway = Gateway()
    listener = Listener(gateway, MODE)
    master.addons.add(listener, gateway)
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

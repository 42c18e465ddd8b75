"""The server: a mitmproxy master with no more addons than a gateway needs, its socket, its signals, its drain."""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.proxy.mode_servers import ServerInstance
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.utils import asyncio_utils

from addon.gateway import Gateway
from addon.settings import Settings
from addon.tls import UpstreamTls

LISTEN_BACKLOG = 1024

# A target that does not exist: where a call goes is said for each call, or it goes nowhere.
_MODE = "reverse:http://tollgate.invalid:1"


class Listener(Proxyserver):
    """mitmproxy's server on a socket that is already bound."""

    name = "proxyserver"

    def configure(self, updated: set[str]) -> None:
        """Nothing to configure: ``accept`` is told what to do."""

    async def accept(self, sock: socket.socket) -> asyncio.Server:
        """Begin to accept."""
        instance: Any = ServerInstance.make(ProxyMode.parse(_MODE), self)
        return await asyncio.start_server(instance.handle_stream, sock=sock, backlog=LISTEN_BACKLOG)


def bind(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket. Raises OSError with a message that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only where the protocol is said: 40 ms an answer otherwise.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
    return sock


async def serve(conf_file: Path, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Calls ``announce`` with the base URL when ready.

    Raises OSError where a port can't be bound, StoreUnavailable where the ledger can't be written.
    """
    listen = settings.conf.listen
    sock = bind(listen.host, listen.port)
    master = Master(Options())
    listener, gateway = Listener(), Gateway()
    master.addons.add(UpstreamTls(), listener, gateway)
    master.options.update(tollgate_conf=str(conf_file))
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    try:
        await gateway.start()
        # mitmproxy's own loop runs its tasks eagerly; a hook then costs no turn of the loop.
        with asyncio_utils.set_eager_task_factory():
            server = await listener.accept(sock)
            scheme = "https" if listen.tls_certificate else "http"
            host = f"[{listen.host}]" if ":" in listen.host else listen.host
            announce(f"{scheme}://{host}:{sock.getsockname()[1]}")
            await stop.wait()
            server.close()
            await gateway.drain(listen.drain_timeout_s)
    finally:
        await master.done()

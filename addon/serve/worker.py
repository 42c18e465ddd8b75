"""``python -m addon.serve.worker N``: one of several gateway processes on one port.

Its standard input is a socket to its supervisor, who sends it settings and asks how it is. When that ends, it drains.
"""

import asyncio
import socket
import sys
from contextlib import suppress
from functools import partial

from addon.gateway.addon import Gateway
from addon.serve.ports import join
from addon.serve.server import serving
from addon.serve.signals import stop_signals
from addon.serve.start_faults import START_FAULTS
from addon.serve.worker_protocol import PING, pack_alive, pack_answer, receive
from addon.settings.errors import describe_error
from addon.settings.settings import Settings
from addon.telemetry.logs import configure_logging


async def work() -> bool:
    """Serve until SIGTERM, SIGINT or the end of the supervisor, then drain. Return False where it can't start."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=sys.stdin.fileno()))
    try:
        with stop_signals() as stop:
            await serve(reader, writer, stop)
    except START_FAULTS as error:
        writer.write(pack_answer(describe_error(error)))
        return False
    finally:
        writer.close()
        # A supervisor that was killed takes the socket with it.
        with suppress(OSError):
            await writer.wait_closed()
    return True


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stop: asyncio.Event) -> None:
    """Serve on the settings that come first until ``stop``. Raises as ``serving`` does."""
    try:
        settings = await receive(reader)
    except EOFError:
        return
    assert isinstance(settings, Settings)  # noqa: S101  (that is what a supervisor begins with)
    join_port = partial(join, settings.conf.listen.host, settings.conf.listen.port)
    obeying: asyncio.Task[None] | None = None
    try:
        async with serving(settings, join_port) as gateway:
            obeying = asyncio.create_task(obey(reader, writer, gateway, stop))
            await stop.wait()
    finally:
        if obeying:
            obeying.cancel()
            await asyncio.wait([obeying])


async def obey(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gateway: Gateway, stop: asyncio.Event
) -> None:
    """Take settings and answer questions, also while the gateway drains. Sets ``stop`` when the supervisor is gone."""
    lifecycle = gateway.lifecycle()
    in_turn = asyncio.Lock()

    async def tell_readiness() -> None:
        async with in_turn:
            writer.write(pack_answer(await lifecycle.readiness()))

    try:
        async with asyncio.TaskGroup() as answering:
            with suppress(EOFError):
                while True:
                    order = await receive(reader)
                    if isinstance(order, Settings):
                        lifecycle.apply(order)
                    elif order == PING:
                        writer.write(pack_alive())
                    else:
                        # Whether the store answers may take a while, and the next question does not wait for it.
                        answering.create_task(tell_readiness())
    finally:
        stop.set()


if __name__ == "__main__":
    configure_logging(worker=int(sys.argv[1]))
    sys.exit(not asyncio.run(work()))

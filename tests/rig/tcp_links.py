"""TCP links between gateways and the engines behind them. A test cuts one, lets it fall silent, or moves its end."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rig.bounds import BOUND_S
from rig.server_process import HOST, free_port

_PIECE = 65_536


class TcpLink:
    """A port that passes all bytes to ``target``, another port of this machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: int) -> None:
        self.port = free_port()
        self._loop = loop
        self._target = target
        self._is_cut = False
        self._unanswered: bytes | None = None
        self._passes = asyncio.Event()
        self._passes.set()
        self._open: set[asyncio.Transport] = set()
        self._answers_lost: set[asyncio.StreamReader] = set()

    def cut(self) -> None:
        """Reset all connections, and each new one, as when a machine refuses them."""
        self._call(self._cut)

    def cut_before_the_answer_to(self, text: bytes) -> None:
        """Pass on the next piece of a client that has this text, and cut the link when its answer comes."""
        self._unanswered = text

    def fall_silent(self) -> None:
        """Pass nothing more. Connections stay open, and what is sent waits: the net between two machines is gone."""
        self._call(self._passes.clear)

    def mend(self) -> None:
        """Pass everything again, also what has waited."""
        self._is_cut = False
        self._call(self._passes.set)

    def lead_to(self, target: int) -> None:
        """Lead new connections to another port, and reset those that are open, as after a failover."""
        self._target = target
        self._call(self.reset_all)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, HOST, self.port, backlog=512)

    def _call(self, change: Any) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(BOUND_S)

    def _cut(self) -> None:
        self._is_cut = True
        self.reset_all()

    def reset_all(self) -> None:
        """Reset all connections. Only for the loop of the link."""
        for transport in list(self._open):
            transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        self._open.add(writer.transport)
        try:
            await self._passes.wait()
            there, back = await asyncio.open_connection(HOST, self._target)
        except OSError:
            self._end(writer)
            return
        self._open.add(back.transport)
        both = (self._pass_on(reader, back, there), self._pass_on(there, writer))
        await asyncio.gather(*both)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader | None = None,
    ) -> None:
        """Pass on what one end sends. When it ends, the other end gets what was sent before."""
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._passes.wait()
                if answers and self._unanswered and self._unanswered in piece:
                    self._unanswered = None
                    self._answers_lost.add(answers)
                if reader in self._answers_lost:
                    self._cut()
                writer.write(piece)
                await writer.drain()
            await self._passes.wait()
        self._end(writer)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._open.discard(writer.transport)
        with suppress(OSError, RuntimeError):
            writer.close()


class TcpLinks:
    """Links that end with the block. They run on an event loop in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp links", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._links: list[TcpLink] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_S)
        self._loop.close()

    def link(self, target: int) -> TcpLink:
        """Open a link to a port."""
        made = TcpLink(self._loop, target)
        self._links.append(made)
        self._servers.append(self._run(made.open()))
        return made

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(BOUND_S)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in self._links:
            link.reset_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

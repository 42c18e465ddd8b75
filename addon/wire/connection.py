"""One client connection, whatever its version of HTTP: what it gets, what it gives, and the tasks that it owns."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.telemetry.log_limits import LogLimit
from addon.text.http_heads import Response
from addon.wire.date import DateField
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

ServeStream = Callable[[Stream], Awaitable[None]]
"""Answers one request. Called once for each stream, in a task that the connection owns and never cancels."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """The bounds of a client connection. ``refuse`` makes the answer to what never becomes a call."""

    refuse: Callable[[Refusal], Response]
    head_timeout_s: float = 10.0
    """For a request head, from its first byte; also for the first byte of a new connection."""
    idle_timeout_s: float = 75.0
    """Between two requests."""
    discard_timeout_s: float = 10.0
    """For the rest of a body that came later than its answer."""
    max_discard_bytes: int = 1_048_576
    linger_s: float = 2.0
    """How long bytes are dropped after the last answer, so that they don't reset it away."""
    write_timeout_s: float = 300.0
    """How long a client may take nothing of what waits for it."""
    max_unread_bytes: int = 65_536
    """What may wait to be read, by a call or as the next requests, before the socket is not read on."""
    refusals: LogLimit = field(default_factory=lambda: LogLimit(log))
    """Writes a line for what was refused."""
    clock: Clock = SYSTEM_CLOCK
    """For the field ``Date``."""
    date: DateField = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "date", DateField(self.clock))


class ClientTransport(Protocol):
    """Bytes toward one client, whatever is between: nothing, or mitmproxy's TLS layer."""

    @property
    def is_cut_off(self) -> bool:
        """Whether it was closed because the client took nothing of what waited for it."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait for the client to take earlier ones."""

    @property
    def is_behind(self) -> bool:
        """Whether any byte waits for the client to take earlier ones."""

    @property
    def is_full(self) -> bool:
        """Whether more than the high-water mark waits for the client: ``drain`` would wait."""

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` or ``abort`` was called, or the client is gone."""

    def write(self, data: bytes) -> None:
        """Send ``data``, or keep it until the client takes it. Does nothing once closed."""

    async def drain(self) -> None:
        """Wait while more than the high-water mark waits for the client. Raises ``ClientLeft`` when closed."""

    def pause_reading(self) -> None:
        """Call ``data_received`` no more. A client that leaves meanwhile is not noticed. Twice is harmless."""

    def resume_reading(self) -> None:
        """Call ``data_received`` again. Never calls it before it returns. Twice is harmless."""

    def write_eof(self) -> None:
        """Close the sending half, after what waits."""

    def close(self) -> None:
        """Close once what waits was taken. ``connection_lost`` follows."""

    def abort(self) -> None:
        """Close at once. ``connection_lost`` follows."""


class Connection(ABC):
    """One client connection. ``peer`` is the client's address.

    Whoever drives it calls ``data_received``, ``eof_received`` and, once and last, ``connection_lost``.
    """

    def __init__(
        self,
        transport: ClientTransport,
        serve_stream: ServeStream,
        settings: WireSettings,
        peer: tuple[str, int],
    ) -> None:
        self.transport = transport
        self.settings = settings
        self.peer = peer
        self.is_draining = False
        self._serve_stream = serve_stream
        self._streams: dict[Stream, asyncio.Task[None] | None] = {}
        self._all_ended = asyncio.Event()

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""

    @abstractmethod
    def eof_received(self) -> None:
        """Take that the client closed its sending half, or left: every stream leaves."""

    @abstractmethod
    def announce_end(self) -> None:
        """Say with the next answer that it is the last one: a request on its way is still answered."""

    @abstractmethod
    def close_when_idle(self) -> None:
        """Take no further request, and close once the current ones are answered: at once where there are none."""

    @abstractmethod
    def _stream_ended(self, stream: Stream) -> None:
        """The task of ``stream`` is over; the stream is answered, or has left."""

    @abstractmethod
    def _fail(self, stream: Stream) -> None:
        """Answer 500 where nothing was sent, else break the answer off; an HTTP/1 connection closes either way."""

    def connection_lost(self) -> None:
        """Take that the transport is closed: every stream leaves."""
        for stream in list(self._streams):
            stream.leave(cut_off=self.transport.is_cut_off)

    @property
    def streams(self) -> int:
        """How many streams have a task."""
        return len(self._streams)

    async def tasks_ended(self) -> None:
        """Wait until no stream has a task: calls whose client left may still settle."""
        while self._streams:
            self._all_ended.clear()
            await self._all_ended.wait()

    def _begin_stream(self, stream: Stream) -> None:
        """Run ``serve_stream``. It may have ended when this returns: tasks may begin eagerly."""
        self._streams[stream] = None
        task = asyncio.get_running_loop().create_task(self._serve(stream))
        if stream in self._streams:
            self._streams[stream] = task

    async def _serve(self, stream: Stream) -> None:
        try:
            await self._serve_stream(stream)
            if not (stream.is_ended or stream.has_left):
                log.error("a call ended without an answer", extra={"event": "no answer"})
                self._fail(stream)
        except ClientLeft:
            # Raised past the call's own handling: nothing is left to be answered.
            if not stream.has_left:
                self._fail(stream)
        except Exception:
            log.exception("a call failed", extra={"event": "call failed"})
            self._fail(stream)
        except asyncio.CancelledError:
            # Only the end of the event loop cancels a task of ours.
            stream.leave()
            self.transport.abort()
            raise
        finally:
            self._streams.pop(stream, None)
            if not self._streams:
                self._all_ended.set()
            self._stream_ended(stream)

"""The base of client connections of HTTP/1.1 and HTTP/2, with their settings, transport and the field ``Date``."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Protocol

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.telemetry.log_limits import LogLimit
from addon.text.http_heads import Field, Headers, RequestHead, Response, Version
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

ServeStream = Callable[[Stream], Awaitable[None]]
"""Answers one request. A connection runs it once for each stream, in a task that it owns and never cancels."""


def empty_head(version: Version) -> RequestHead:
    """Return the head of a request that could not be read."""
    return RequestHead("GET", "/", version, Headers())


class DateField:
    """The field ``Date`` of answers, made once a second. Source: RFC 9110, 6.6.1: a server with a clock sends it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._field = ("date", "")
        self._until_s = float("-inf")

    def now(self) -> Field:
        """Return the field for the current second."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._until_s:
            at_s = self._clock.now().timestamp()
            self._field = ("date", formatdate(int(at_s), usegmt=True))
            self._until_s = now_s + 1 - at_s % 1
        return self._field


@dataclass(frozen=True, slots=True)
class WireSettings:
    """The bounds of a client connection. ``refuse`` makes the answer to a request that does not become a call."""

    refuse: Callable[[Refusal], Response]
    head_timeout_s: float = 10.0
    """For a request head, from its first byte. Also for the first byte of a new connection."""
    idle_timeout_s: float = 75.0
    """Between two requests."""
    discard_timeout_s: float = 10.0
    """For the rest of a body whose request is already answered."""
    max_discard_bytes: int = 1_048_576
    linger_s: float = 2.0
    """How long the connection drops bytes after its last answer. Closing on unread bytes would reset that answer."""
    write_timeout_s: float = 300.0
    """How long a client may read nothing while bytes wait for it."""
    max_unread_bytes: int = 65_536
    """How much may wait for a call, or as the next requests, before the connection stops reading."""
    refusals: LogLimit = field(default_factory=lambda: LogLimit(log))
    """Writes a log line for each refusal, within a limit."""
    clock: Clock = SYSTEM_CLOCK
    """For the field ``Date``."""
    date: DateField = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "date", DateField(self.clock))


class ClientTransport(Protocol):
    """The transport of one client, with or without TLS."""

    @property
    def is_cut_off(self) -> bool:
        """Whether it was closed because the client read nothing while bytes waited for it."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait until the client reads earlier ones."""

    @property
    def has_backlog(self) -> bool:
        """Whether any byte waits until the client reads earlier ones."""

    @property
    def is_full(self) -> bool:
        """Whether more than the high-water mark waits for the client, so that ``drain`` would wait."""

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` or ``abort`` was called, or the client is gone."""

    def write(self, data: bytes) -> None:
        """Send ``data``, or keep it until the client reads. Do nothing once closed."""

    async def drain(self) -> None:
        """Wait while more than the high-water mark waits for the client. Raise ``ClientLeft`` when closed."""

    def pause_reading(self) -> None:
        """Stop calling ``data_received``. A client that leaves while paused is not noticed. Idempotent."""

    def resume_reading(self) -> None:
        """Call ``data_received`` again, but never before this method returns. Idempotent."""

    def write_eof(self) -> None:
        """Close the sending half, after the bytes that wait."""

    def close(self) -> None:
        """Close after the bytes that wait are sent. ``connection_lost`` follows."""

    def abort(self) -> None:
        """Close at once. ``connection_lost`` follows."""


class Connection(ABC):
    """One client connection. ``peer`` is the client's address.

    Its owner calls ``data_received``, ``eof_received`` and, once and last, ``connection_lost``.
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
        self._no_streams: asyncio.Event | None = None
        """Set when no stream is left, for ``wait_for_tasks``."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client."""

    @abstractmethod
    def eof_received(self) -> None:
        """Handle the end of the client's data: it closed its sending half, or it left. The client is gone."""

    @abstractmethod
    def announce_end(self) -> None:
        """Mark the next answer as the last one. A request on its way is still answered."""

    @abstractmethod
    def retire(self) -> None:
        """Close after a further answer that says so, so that no request on its way is lost.

        Unlike ``close_when_idle``, this keeps an idle connection open for the client's next request.
        """

    @abstractmethod
    def close_when_idle(self) -> None:
        """Accept no further request. Close when the current ones are answered, or at once when there are none."""

    @abstractmethod
    def _on_stream_end(self, stream: Stream) -> None:
        """Handle the end of the task of ``stream``. The stream is answered, or its client is gone."""

    @abstractmethod
    def _fail_stream(self, stream: Stream) -> None:
        """Answer 500 if nothing was sent, else abort the answer. An HTTP/1 connection closes in both cases."""

    def connection_lost(self) -> None:
        """Handle the end of the transport: the client is gone."""
        for stream in list(self._streams):
            stream.mark_client_gone(cut_off=self.transport.is_cut_off)

    @property
    def stream_count(self) -> int:
        """How many streams have a task."""
        return len(self._streams)

    @property
    def used_window_bytes(self) -> tuple[int, int]:
        """How much of the windows of the connection and of its streams is not given back yet. HTTP/1 has none."""
        return 0, 0

    async def wait_for_tasks(self) -> None:
        """Wait until no stream has a task. A call settles even when its client is gone."""
        while self._streams:
            self._no_streams = self._no_streams or asyncio.Event()
            self._no_streams.clear()
            await self._no_streams.wait()

    def _start_stream(self, stream: Stream) -> None:
        """Run ``serve_stream`` in a task. It starts at once, so it may have ended when this returns."""
        self._streams[stream] = None
        task = asyncio.Task(self._serve(stream), loop=asyncio.get_running_loop(), eager_start=True)
        if stream in self._streams:
            self._streams[stream] = task

    async def _serve(self, stream: Stream) -> None:
        try:
            await self._serve_stream(stream)
            if not (stream.is_ended or stream.is_client_gone):
                log.error("a call ended without an answer", extra={"event": "no answer"})
                self._fail_stream(stream)
        except ClientLeft:
            # The call did not handle this itself. There is no client left to answer.
            if not stream.is_client_gone:
                self._fail_stream(stream)
        except Exception:
            log.exception("a call failed", extra={"event": "call failed"})
            self._fail_stream(stream)
        except asyncio.CancelledError:
            # Only the end of the event loop cancels a task of ours.
            stream.mark_client_gone()
            self.transport.abort()
            raise
        finally:
            self._streams.pop(stream, None)
            if self._no_streams is not None and not self._streams:
                self._no_streams.set()
            self._on_stream_end(stream)

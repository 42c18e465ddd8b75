"""A client of HTTP/2 that controls and counts every frame, and the frames that it can send."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from hpack import Encoder
from hyperframe.frame import HeadersFrame

from rig.bounds import BOUND_S
from rig.wire import Wire

REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "gateway.test"),
    (":path", "/v1/chat/completions"),
)


@dataclass
class Answer:
    """The answer on one stream."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    frames: int = 0
    has_ended: bool = False
    reset: int | None = None

    @property
    def is_over(self) -> bool:
        return self.has_ended or self.reset is not None


class Client:
    """A client that may break the protocol. ``h2`` makes its frames, and ``send`` sends any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, acks: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.acks = acks
        config = H2Configuration(client_side=True, header_encoding="latin-1", validate_outbound_headers=False)
        config.normalize_outbound_headers = False
        self.h2 = H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.events: Counter[str] = Counter()
        self.goaway: int | None = None
        self.has_closed = False
        self._next_id = 1

    def begin(self, *extra: tuple[str, str], fields: Any = REQUEST, ends: bool = False) -> int:
        """Begin a request and return the number of its stream. Nothing is sent yet."""
        stream_id, self._next_id = self._next_id, self._next_id + 2
        self.answers[stream_id] = Answer()
        self.h2.send_headers(stream_id, [*fields, *extra], end_stream=ends)
        return stream_id

    def send(self, data: bytes = b"") -> None:
        """Send the waiting bytes of ``h2``, then ``data``."""
        if not self.writer.is_closing():
            self.writer.write(self.h2.data_to_send() + data)

    async def request(self, body: bytes = b"", *extra: tuple[str, str], fields: Any = REQUEST) -> Answer:
        """Make a whole small request and return its whole answer."""
        stream_id = self.begin(*extra, fields=fields, ends=not body)
        if body:
            self.h2.send_data(stream_id, body, end_stream=True)
        self.send()
        return await self.answer(stream_id)

    async def answer(self, stream_id: int) -> Answer:
        """Return the answer when it has ended or was reset."""
        await self.until(lambda: self.answers[stream_id].is_over)
        return self.answers[stream_id]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read until ``condition`` is true. Fail if the server closes before."""
        while not condition():
            assert await self.take(), f"closed, with GOAWAY {self.goaway}"

    async def wait_until_closed(self) -> None:
        """Read until the server closes."""
        while await self.take():
            pass

    async def send_body(self, stream_id: int, body: bytes) -> None:
        """Send a whole body, as the server's windows open."""
        position = 0
        while position < len(body):
            room = min(self.h2.local_flow_control_window(stream_id), 16_384, len(body) - position)
            if room:
                self.h2.send_data(stream_id, body[position : position + room])
                position += room
                self.send()
                await self.writer.drain()
            else:
                await self.until(lambda: self.h2.local_flow_control_window(stream_id) > 0)
        self.h2.end_stream(stream_id)
        self.send()

    async def take(self) -> bool:
        """Read once. Return whether the connection is still open."""
        async with asyncio.timeout(BOUND_S):
            try:
                data = await self.reader.read(65_536)
            except ConnectionError:
                data = b""
        if not data:
            self.has_closed = True
            return False
        for event in self.h2.receive_data(data):
            self._note(event)
        if self.goaway is None:
            self.send()
        return True

    def _note(self, event: Event) -> None:
        self.events[type(event).__name__] += 1
        if isinstance(event, ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
            return
        answer = self.answers.get(getattr(event, "stream_id", None) or 0, Answer())
        if isinstance(event, ResponseReceived):
            found: dict[str, str] = {str(name): str(value) for name, value in event.headers}
            answer.status, answer.headers = int(found[":status"]), found
        elif isinstance(event, DataReceived):
            answer.body += event.data
            answer.frames += 1
            if self.acks:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            answer.has_ended = True
        elif isinstance(event, StreamReset):
            answer.reset = int(event.error_code)


class HasPort(Protocol):
    """A server on a port of this machine."""

    @property
    def port(self) -> int:
        """The port."""


@asynccontextmanager
async def connect_http2(
    server: HasPort, settings: dict[Any, int] | None = None, *, acks: bool = True
) -> AsyncIterator[Client]:
    """Connect to ``server`` and send the preface. ``acks``: acknowledge data, so that windows open."""
    tls = server.tls if isinstance(server, Wire) else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, limit=65_536, ssl=tls, server_hostname="localhost" if tls else None
    )
    client = Client(reader, writer, acks)
    if settings:
        client.h2.update_settings(settings)
        client.h2.clear_outbound_data_buffer()
        client.h2.local_settings.acknowledge()
    client.h2.initiate_connection()
    client.send()
    try:
        yield client
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def block(*fields: tuple[str | bytes, str | bytes], encoder: Encoder | None = None) -> bytes:
    """Return an encoded header block."""
    return (encoder or Encoder()).encode([*fields])


def head_frame(stream_id: int, data: bytes, *flags: str) -> bytes:
    """Return a HEADERS frame."""
    return HeadersFrame(stream_id, data, flags=flags).serialize()


def raw_frame(
    kind: int, flags: int, stream_id: int, payload: bytes = b"", length: int | None = None
) -> bytes:
    """Return any frame."""
    size = len(payload) if length is None else length
    return size.to_bytes(3) + bytes([kind, flags]) + stream_id.to_bytes(4) + payload


def replace_field(name: str, value: str | None) -> tuple[tuple[str, str], ...]:
    kept = [(one, old if one != name else value) for one, old in REQUEST]
    return tuple((one, text) for one, text in kept if text is not None)


async def read_goaway(client: Client, then: bytes) -> dict[str, int]:
    """Read up to a GOAWAY without the library, which would stop there. Send ``then``."""
    data = b""
    while not (found := re.search(rb"\x00\x00\x08\x07\x00\x00\x00\x00\x00(.{4})(.{4})", data, re.DOTALL)):
        piece = await client.reader.read(65_536)
        assert piece
        data += piece
    client.writer.write(then)
    return {"last": int.from_bytes(found[1]), "goaway": int.from_bytes(found[2])}


async def read_rest(client: Client) -> bytes:
    data = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(BOUND_S):
            while piece := await client.reader.read(65_536):
                data += piece
    return data

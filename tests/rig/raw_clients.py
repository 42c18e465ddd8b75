"""Clients that send exactly the given bytes: HTTP/1.1 on a socket, and HTTP/2 with many streams."""

import json
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events

from rig.bounds import BOUND_S


@dataclass
class Answer:
    """One response with lower-cased ``headers``. It is not ``complete`` if the peer closed before its end."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    complete: bool = True

    @property
    def status_code(self) -> int:
        """The status, under the name that HTTP clients use."""
        return self.status

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(values) if values else None


class RawClient:
    """One TCP or TLS connection to ``url``. Every read is bounded and fails the test when nothing arrives."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, bound_s: float = BOUND_S) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self._socket: socket.socket = socket.create_connection((self.host, self.port), timeout=bound_s)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=self.host)
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """The socket, for ``select``."""
        return self._socket.fileno()

    def send(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def send_at_once(self, raw: bytes, silent_s: float = 0.5) -> int:
        """Send as much as the peer and the kernels accept without reading. Return the number of bytes."""
        bound_s, sent = self._socket.gettimeout(), 0
        self._socket.settimeout(silent_s)
        with suppress(TimeoutError):
            while sent < len(raw):
                sent += self._socket.send(raw[sent : sent + 65_536])
        self._socket.settimeout(bound_s)
        return sent

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def read_until(self, mark: bytes) -> bytes:
        """Return the bytes up to and including ``mark``. Raise EOFError when the peer closes first."""
        while mark not in self._buffer:
            if not self._more():
                raise EOFError(f"closed before {mark!r}; got {bytes(self._buffer)!r}")
        return self._take(self._buffer.index(mark) + len(mark))

    def read_some(self) -> bytes:
        """Return the next bytes, or b"" when the peer has closed."""
        self._more()
        return self._take(len(self._buffer))

    def read_to_close(self) -> bytes:
        """Return all bytes until the peer closes."""
        while self._more():
            pass
        return self._take(len(self._buffer))

    def read_head(self) -> Answer:
        """Return the head of the next response. Its body stays unread."""
        head = self.read_until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return Answer(int(first.split(" ")[1]), [(name.lower(), value.strip()) for name, _, value in pairs])

    def read_answer(self) -> Answer:
        """Return the next whole response. It is not ``complete`` if the peer closed before the end of its body."""
        answer = self.read_head()
        try:
            if "chunked" in (answer.header("transfer-encoding") or ""):
                while piece := self.read_chunk():
                    answer.body += piece
            elif (length := answer.header("content-length")) is not None:
                answer.body = self._read_exactly(int(length))
            elif answer.status not in (204, 304):
                answer.body = self.read_to_close()
        except (EOFError, ConnectionResetError):
            answer.complete = False
        return answer

    def read_chunk(self) -> bytes:
        """Return the next piece of a chunked body, or b"" at its end. Raise EOFError when the peer closes first."""
        size = int(re.split(rb"[;\r]", self.read_until(b"\r\n"))[0], 16)
        piece = self._read_exactly(size)
        self.read_until(b"\r\n")
        return piece

    def read_chunks_until(self, mark: bytes) -> bytes:
        """Return pieces of a chunked body until they contain ``mark``."""
        seen = b""
        while mark not in seen:
            piece = self.read_chunk()
            assert piece, f"the body ended before {mark!r}: {seen!r}"
            seen += piece
        return seen

    def is_closed_by_peer(self) -> bool:
        """Wait until the peer closes. Return False if it sends something. Fail when neither happens."""
        try:
            return not self._buffer and not self._more()
        except ConnectionResetError:
            return True

    def _more(self) -> bool:
        piece = self._socket.recv(65536)
        self._buffer += piece
        return bool(piece)

    def _read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not self._more():
                raise EOFError(f"closed after {len(self._buffer)} of {count} bytes")
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def request_bytes(
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes = b"",
    host: str = "gateway.test",
) -> bytes:
    """Return an HTTP/1.1 request. Add a length if there is a body and no framing header."""
    pairs = [("Host", host), *headers]
    framed = {name.lower() for name, _ in pairs} & {"content-length", "transfer-encoding"}
    if body and not framed:
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


@dataclass
class _Stream:
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False

    def answer(self) -> Answer:
        status = next((int(value) for name, value in self.headers if name == ":status"), 0)
        return Answer(
            status, [pair for pair in self.headers if pair[0] != ":status"], self.body, self.complete
        )


class RawHttp2Client:
    """One HTTP/2 connection over TLS."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
        self._authority = f"{host}:{port}"
        tls.set_alpn_protocols(["h2"])
        plain = socket.create_connection((host, port), timeout=BOUND_S)
        self._socket = tls.wrap_socket(plain, server_hostname=host)
        assert self._socket.selected_alpn_protocol() == "h2"
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def post_all(
        self, path: str, headers: Iterable[tuple[str, str]], bodies: Iterable[bytes]
    ) -> list[Answer]:
        """Send every body on its own stream before reading anything. Return the answers in order."""
        shared = [(":method", "POST"), (":scheme", "https"), (":authority", self._authority), (":path", path)]
        streams: dict[int, _Stream] = {}
        for body in bodies:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, [*shared, *((n.lower(), v) for n, v in headers)])
            self._h2.send_data(number, body, end_stream=True)
            streams[number] = _Stream()
        self._flush()
        while not all(stream.complete for stream in streams.values()):
            self._read_into(streams)
        return [stream.answer() for stream in streams.values()]

    def post_without_reading(
        self, path: str, headers: Iterable[tuple[str, str]], body: bytes, *, reset: bool = False
    ) -> None:
        """Send one request and acknowledge nothing of its answer, so the stream's window runs out."""
        shared = [(":method", "POST"), (":scheme", "https"), (":authority", self._authority), (":path", path)]
        number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, [*shared, *((n.lower(), v) for n, v in headers)])
        self._h2.send_data(number, body, end_stream=True)
        if reset:
            self._h2.reset_stream(number)
        self._flush()

    def post_until(
        self,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        seen: bytes,
        ready: Callable[[], object],
    ) -> None:
        """Send one request. Return when ``seen`` is in its answer and ``ready`` has returned."""
        self._last = self._h2.get_next_available_stream_id()
        self.post_without_reading(path, headers, body)
        streams = {self._last: _Stream()}
        while seen not in streams[self._last].body:
            self._read_into(streams)
        ready()

    def begin(self, path: str, headers: Iterable[tuple[str, str]], begun: bytes) -> None:
        """Send one request without the end of its body."""
        shared = [(":method", "POST"), (":scheme", "https"), (":authority", self._authority), (":path", path)]
        self._last = self._h2.get_next_available_stream_id()
        self._h2.send_headers(self._last, [*shared, *((n.lower(), v) for n, v in headers)])
        self._h2.send_data(self._last, begun)
        self._flush()

    def close(self) -> None:
        """Close the connection without GOAWAY."""
        self._socket.close()

    def reset_and_wait(self) -> None:
        """Reset the last request, and wait until the peer has read the reset."""
        self._h2.reset_stream(self._last)
        self.wait_until_read()

    def wait_until_read(self) -> None:
        """Wait until the peer has read all that was sent."""
        self._h2.ping(b"are you?")
        self._flush()
        while True:
            raw = self._socket.recv(65536)
            assert raw, "the gateway closed the HTTP/2 connection"
            happened = self._h2.receive_data(raw)
            self._flush()
            if any(isinstance(one, h2.events.PingAckReceived) for one in happened):
                return

    def post_and_reset(self, path: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send one request and its reset in the same write."""
        self.post_without_reading(path, headers, body, reset=True)

    def is_closed_by_peer(self) -> bool:
        """Wait until the connection ends, whatever frames come before."""
        while self._socket.recv(65536):
            pass
        return True

    def _read_into(self, streams: dict[int, _Stream]) -> None:
        raw = self._socket.recv(65536)
        assert raw, "the gateway closed the HTTP/2 connection"
        for happened in self._h2.receive_data(raw):
            if isinstance(happened, h2.events.ResponseReceived):
                streams[happened.stream_id].headers = [(str(n), str(v)) for n, v in happened.headers]
            elif isinstance(happened, h2.events.DataReceived):
                streams[happened.stream_id].body += happened.data
                self._h2.acknowledge_received_data(happened.flow_controlled_length, happened.stream_id)
            elif isinstance(happened, h2.events.StreamEnded):
                streams[happened.stream_id].complete = True
            else:
                assert not isinstance(happened, h2.events.StreamReset | h2.events.ConnectionTerminated), (
                    happened
                )
        self._flush()

    def _flush(self) -> None:
        self._socket.sendall(self._h2.data_to_send())

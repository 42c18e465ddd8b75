"""A client of HTTP/1.1 that sends exactly the given bytes, and the answers that it reads."""

import json
import re
import socket
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

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

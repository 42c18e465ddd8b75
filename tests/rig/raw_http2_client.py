"""A client of HTTP/2 that controls its streams and frames, on a socket."""

import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events

from rig.bounds import BOUND_S
from rig.raw_clients import Answer


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

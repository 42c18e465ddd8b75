"""``TlsTransport`` between a wire in memory and a protocol: what is sent and kept at each stage."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trustme
from OpenSSL import SSL
from rig.renegotiation import renegotiating

from addon.runtime.read_buffer import new_read_buffer
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Origin
from addon.upstream.provider_socket import ProviderSocket
from addon.upstream.tls import TlsTransport


class Wire(asyncio.Transport):
    """The plain transport of the client. ``take`` returns what was written since the last time."""

    def __init__(self) -> None:
        super().__init__()
        self._sent = bytearray()
        self._is_closing = False

    def take(self) -> bytes:
        sent = bytes(self._sent)
        self._sent.clear()
        return sent

    def write(self, data: Any) -> None:
        self._sent += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close


class Server:
    """The provider's end of TLS."""

    def __init__(self, authority: trustme.CA, host: str = "localhost") -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(host).configure_cert(context)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def do(self, step: Callable[[ssl.SSLObject], Any], received: bytes) -> Any:
        """Return what ``step`` returns after these bytes, or None if it wants more."""
        self._incoming.write(received)
        try:
            return step(self._tls)
        except ssl.SSLWantReadError:
            return None

    def take(self) -> bytes:
        return self._outgoing.read()


class Ends:
    """Both ends of a new connection, before the handshake."""

    def __init__(self, authority: trustme.CA, host: str = "localhost") -> None:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        self._buffer = new_read_buffer()
        self.upper = ProviderSocket(lambda _: None, self._buffer, Origin("https", "localhost", 443))
        self.client = TlsTransport(context, self._buffer, "localhost", lambda: self.upper)
        self.server = Server(authority, host)
        self.wire = Wire()

    def shake_hands(self) -> None:
        for _ in range(2):
            self.server.do(ssl.SSLObject.do_handshake, self.wire.take())
            self.receive(self.server.take())

    def receive(self, data: bytes) -> None:
        self._buffer[: len(data)] = data
        self.client.buffer_updated(len(data))

    def read_sent(self) -> bytes | None:
        """Return what the provider reads. ``b""`` is a proper end."""
        return self.server.do(lambda tls: tls.read(1000), self.wire.take())


@pytest.fixture
async def ends(authority: trustme.CA) -> Ends:
    made = Ends(authority)
    made.client.connection_made(made.wire)
    return made


async def test_data_of_the_time_before_the_handshake_is_sent_after_it(ends: Ends) -> None:
    ends.client.write(b"early")
    ends.client.pause_writing()
    ends.client.resume_writing()
    ends.shake_hands()
    assert ends.read_sent() == b"early"
    assert not ends.upper.is_writing


async def test_the_provider_hears_that_its_certificate_is_refused(authority: trustme.CA) -> None:
    ends = Ends(authority, "other.example")
    ends.client.connection_made(ends.wire)
    with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
        ends.shake_hands()


async def test_closing_says_so_after_all_that_was_written(ends: Ends) -> None:
    ends.shake_hands()
    assert not ends.client.is_closing()
    ends.client.write(b"last")
    ends.client.close()
    assert ends.client.is_closing()
    assert ends.read_sent() == b"last"
    assert ends.read_sent() == b""


async def test_a_lost_connection_keeps_no_bytes_that_were_to_be_sent(ends: Ends) -> None:
    ends.shake_hands()
    ends.client.pause_writing()
    body = bytearray(b"never sent")
    ends.client.write(body)
    assert ends.upper.is_writing
    ends.client.connection_lost(None)
    assert ends.client.is_closing()
    body.clear()  # A view of it that is kept forbids this.


async def test_nothing_is_encrypted_while_the_wire_is_full(ends: Ends) -> None:
    ends.shake_hands()
    ends.client.pause_writing()
    ends.client.write(b"later")
    assert ends.wire.take() == b""
    ends.client.resume_writing()
    assert ends.read_sent() == b"later"


async def test_the_end_of_the_provider_ends_this_side(ends: Ends) -> None:
    ends.shake_hands()
    ends.server.do(ssl.SSLObject.unwrap, b"")
    ends.receive(ends.server.take())
    assert ends.wire.is_closing()


async def test_bytes_after_the_end_of_the_provider_are_left(ends: Ends) -> None:
    ends.shake_hands()
    ends.server.do(ssl.SSLObject.unwrap, b"")
    ends.receive(ends.server.take() + b"more")
    assert ends.wire.is_closing()


@pytest.mark.parametrize(
    ("is_proper", "reason"), [(True, "the provider closed the connection"), (False, "the connection broke")]
)
async def test_only_a_proper_end_before_the_answer_is_told_as_one(
    ends: Ends, is_proper: bool, reason: str
) -> None:
    ends.shake_hands()
    connection = UpstreamConnection(ends.upper, lambda *_: None, is_reused=False)
    if is_proper:
        ends.server.do(ssl.SSLObject.unwrap, b"")
        ends.receive(ends.server.take())
    ends.client.eof_received()
    ends.client.connection_lost(None)
    with pytest.raises(UpstreamConnectionError, match=reason):
        connection.take_head()


async def test_a_handshake_that_this_side_gave_up_does_not_go_on(ends: Ends) -> None:
    ends.wire.close()
    ends.shake_hands()
    assert not ends.client.ready.done()


async def test_a_record_that_can_not_be_read_breaks_the_connection(ends: Ends) -> None:
    ends.shake_hands()
    ends.receive(b"\x17\x03\x03\x00\x05junk!")
    await asyncio.sleep(0)
    assert ends.wire.is_closing()


async def test_a_request_waits_while_the_provider_wants_a_new_handshake(authority: trustme.CA) -> None:
    ends, server = Ends(authority), SSL.Connection(renegotiating(authority), None)
    server.set_accept_state()

    def pass_on() -> bytes:
        """Pass on what both ends sent. Return what the server read."""
        if sent := ends.wire.take():
            server.bio_write(sent)
        read = b""
        with suppress(SSL.WantReadError):
            read = server.recv(100)
        with suppress(SSL.WantReadError):
            ends.receive(server.bio_read(100_000))
        return read

    ends.client.connection_made(ends.wire)
    pass_on()
    pass_on()
    server.renegotiate()
    server.do_handshake()
    pass_on()
    ends.client.write(b"later")
    assert ends.upper.is_writing
    assert [pass_on() for _ in range(2)] == [b"", b"later"]
    assert not ends.upper.is_writing

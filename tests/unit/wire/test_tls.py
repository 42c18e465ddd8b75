"""Bytes of a TLS client before, instead of and after its handshake. They are bounded and cause no error in the log."""

import asyncio
import logging
import ssl
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from rig.bounds import BOUND_S
from rig.wire import Wire, wire

from addon.wire.tls import MAX_HELLO_BYTES, MAX_HELLO_RECORDS, HelloRecords

REQUEST = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module")
def certificate(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pem = tmp_path_factory.mktemp("certificate") / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    return pem


class TlsClient:
    """A TLS client that gives its records to the test, which sends them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.received, self.made = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.made, server_hostname="localhost")

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.made.read()

    async def finish(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do the handshake. The ClientHello is already sent."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.received.write(await asyncio.wait_for(reader.read(65_536), BOUND_S))
            else:
                writer.write(self.made.read())
                return

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Send a request and return the beginning of its answer."""
        self.tls.write(REQUEST)
        writer.write(self.made.read())
        while True:
            try:
                return self.tls.read(65_536)
            except ssl.SSLWantReadError:
                self.received.write(await asyncio.wait_for(reader.read(65_536), BOUND_S))


def in_records(hello: bytes, size: int) -> bytes:
    """Return the same ClientHello in records of ``size`` bytes."""
    body = hello[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(piece).to_bytes(2) + piece for piece in pieces)


async def greet(served: Wire, context: ssl.SSLContext, size: int, step: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    client = TlsClient(context)
    hello = client.hello()
    sent = in_records(hello, size) if size else hello
    for at in range(0, len(sent), step):
        writer.write(sent[at : at + step])
        await writer.drain()
        await asyncio.sleep(0)
    try:
        await client.finish(reader, writer)
        return await client.ask(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(("size", "step"), [(0, 1), (0, 65_536), (50, 65_536), (50, 7)])
async def test_a_client_hello_may_arrive_in_pieces_and_in_a_few_records(
    certificate: Path, trusting: ssl.SSLContext, size: int, step: int
) -> None:
    trusting.set_alpn_protocols(["http/1.1"])
    async with wire(certificate=certificate) as served:
        assert (await greet(served, trusting, size, step)).startswith(b"HTTP/1.1 200")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log messages, without asyncio's about the test's own client."""
    found = [one for one in caplog.records if one.levelno >= logging.WARNING]
    return [
        one.getMessage() for one in found if not (one.name == "asyncio" and "socket.send" in str(one.msg))
    ]


async def send_until_closed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Iterable[bytes]
) -> None:
    """Send ``pieces`` in several turns, and read until the gateway closes."""
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        while await asyncio.wait_for(reader.read(65_536), BOUND_S):
            pass
    except ConnectionError:
        pass
    writer.transport.abort()


HELLO = b"\x16\x03\x01\x00\x04\x01\x00\xff\xff"
NO_GREETINGS = {
    "many records": HELLO + b"\x16\x03\x01\x00\x01\x01" * 10_000,
    "a record too long": b"\x16\x03\x01\xff\xff\x01\x00\xff\xf0" + b"a" * 1_000_000,
    "a message too long": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"a" * 1_000_000,
    "empty records": b"\x16\x03\x01\x00\x00" * 10_000,
    "garbage in a record": b"\x16\x03\x01\x00\x10\x01\x00\x00\x0c" + b"a" * 100_000,
}


@pytest.mark.parametrize("name", NO_GREETINGS)
async def test_a_malformed_client_hello_closes_with_one_log_line(
    certificate: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async with wire(certificate=certificate) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        sent = NO_GREETINGS[name]
        await send_until_closed(reader, writer, (sent[at : at + 1_000] for at in range(0, len(sent), 1_000)))
        await served.wait_until_gone()
    assert logged(caplog) == ["a client's TLS handshake failed: the client did not speak TLS"]


async def test_bytes_after_the_handshake_that_are_not_tls_close_with_one_log_line(
    certificate: Path, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    trusting.set_alpn_protocols(["http/1.1"])
    async with wire(certificate=certificate) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        client = TlsClient(trusting)
        writer.write(client.hello())
        await client.finish(reader, writer)
        assert (await client.ask(reader, writer)).startswith(b"HTTP/1.1 200")
        await send_until_closed(reader, writer, repeat(b"\x17\x03\x03\x00\x20" + bytes(32), 200))
        await served.wait_until_gone()
    assert logged(caplog) == ["a client's TLS handshake failed: the bytes after the handshake are not TLS"]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12), st.data())
def test_the_count_of_records_does_not_depend_on_the_cuts(bodies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(b"\x16\x03\x01" + len(body).to_bytes(2) + body for body in bodies)
    records, got, ended = HelloRecords(), b"", 0
    at = 0
    while at < len(whole):
        step = data.draw(st.integers(1, 60))
        if records.feed(whole[at : at + step]):
            got += records.take()
            ended += 1
        at += step
    assert got == whole
    assert 1 <= ended <= len(bodies)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x00\x01\x01" * (MAX_HELLO_RECORDS + 1),
        b"\x16\x03\x01" + (MAX_HELLO_BYTES + 1).to_bytes(2),
        b"\x16\x03\x01\x00\x00",
    ],
)
def test_an_endless_client_hello_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match="ClientHello"):
        HelloRecords().feed(sent)

"""The protocol of a client connection: TLS or plain, HTTP/1.1 or HTTP/2, or neither."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rig.wire import wire
from rig.wire_calls import GET

from addon.wire.http2_frames import PREFACE


async def test_plain_http_on_a_tls_port_gets_an_explanation(certificate: Path):
    async with wire(certificate=certificate) as served:
        answer = await served.ask(GET)
        assert (answer.status, answer.header("connection")) == (400, "close")


async def test_a_client_that_speaks_neither_http_nor_tls_is_closed(
    certificate: Path, caplog: pytest.LogCaptureFixture
):
    async with wire(certificate=certificate) as served, await served.connect() as peer:
        peer.send(b"\x16\x03\x01\x00\x04oops" + b"\x00" * 100_000)
        await peer.rest()
        await served.wait_until_gone()
    assert "a client's TLS handshake failed: the client did not speak TLS" in caplog.messages
    assert not any("6f6f7073" in message for message in caplog.messages)


async def test_a_handshake_has_a_time_limit(certificate: Path):
    async with wire(certificate=certificate, head_timeout_s=0.3) as served, await served.connect() as peer:
        peer.send(b"\x16\x03\x01\x10\x00" + b"\x01\x00\x0f\xfc" + b"\x00" * 1_000)
        assert await peer.rest() == b""


async def test_http_2_works_with_prior_knowledge(kind: dict[str, Any]):
    # The answer is the frame SETTINGS, of type 4.
    async with wire(**kind) as served, await served.connect() as peer:
        for byte in PREFACE:
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.exactly(9))[3] == 4


async def test_alpn_selects_the_version_of_http(certificate: Path, trusting: ssl.SSLContext):
    async with wire(certificate=certificate, tls=trusting) as served:
        trusting.set_alpn_protocols(["h2", "http/1.1"])
        async with await served.connect() as peer:
            peer.send(GET)
            assert b"HTTP/1.1" not in await peer.rest()
        trusting.set_alpn_protocols(["http/1.1"])
        assert (await served.ask(GET)).status == 200


async def test_a_silent_client_is_closed(kind: dict[str, Any]):
    async with wire(head_timeout_s=0.2, **kind) as served, await served.connect() as peer:
        assert await peer.rest() == b""
        await served.wait_until_gone()


async def test_a_client_that_never_begins_tls_is_closed(certificate: Path):
    async with wire(head_timeout_s=0.2, certificate=certificate) as served, await served.connect() as peer:
        assert await peer.rest() == b""
        await served.wait_until_gone()


async def test_a_bug_in_a_connection_closes_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
):
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("addon.wire.http1.parse_request_head", fail)
    async with wire(**kind) as served, await served.connect() as peer:
        peer.send(GET)
        with suppress(ConnectionError):
            assert await peer.rest() == b""
        await served.wait_until_gone()
    assert caplog.messages.count("a client connection failed") == 1

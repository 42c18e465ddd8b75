"""HTTP/2 on a running gateway: floods end their connection, take no memory and cause no error in the log."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat

import pytest
from conftest import HELLO
from rig.gateway import Gateway
from rig.http2 import REQUEST, block, connect_http2, head_frame, raw_frame
from rig.memory import Growth
from rig.raw_clients import RawClient
from rig.scripts import Gate, Received, Script, ordinary
from rig.upstream import Upstream
from unit.wire.test_http2_frames import FLOODS

from addon.wire.http2_frames import PREFACE

MIB = 1 << 20
FLOOD_BYTES = 16 * MIB
FLAT_MB = 12
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 1, 3, 8, 11
BEGIN = PREFACE + raw_frame(4, 0, 0)
GOAWAY = re.compile(rb"\x00\x00\x08\x07\x00\x00\x00\x00\x00.{4}(.{4})", re.DOTALL)
BODY = json.dumps({"messages": HELLO}).encode()


@pytest.fixture(autouse=True)
def serves_on(gateway: Gateway, upstream: Upstream) -> Iterator[None]:
    yield
    with RawClient(gateway.url) as client:
        client.send(gateway.chat_bytes())
        assert client.read_answer().status == 200
    assert "Traceback" not in "\n".join(gateway.stderr_lines)


def keyed(gateway: Gateway) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {gateway.key}"), ("content-type", "application/json")]


def goaway_after(gateway: Gateway, begin: bytes, pieces: Iterator[bytes]) -> int | None:
    """Send pieces until the gateway closes, at most 16 MiB. Return the code of its GOAWAY."""
    sent = 0
    with RawClient(gateway.url) as client:
        with suppress(ConnectionError):
            client.send(BEGIN + begin)
            for piece in pieces:
                client.send(piece)
                sent += len(piece)
                if sent >= FLOOD_BYTES:
                    break
        answer = b""
        with suppress(ConnectionError):
            while not GOAWAY.search(answer) and (piece := client.read_some()):
                answer += piece
    found = GOAWAY.search(answer)
    return int.from_bytes(found[1]) if found else None


def test_floods_end_their_connection_and_take_no_memory(gateway: Gateway) -> None:
    growth = Growth(gateway)
    head = block(*REQUEST, *keyed(gateway))
    codes = {}
    for name, (frame, first, _) in FLOODS.items():
        begin = head_frame(1, head, "END_HEADERS") if name == "data after the end" else first
        codes[name] = goaway_after(gateway, begin, repeat(frame * max(1, 65_536 // len(frame))))
    # A window is exceeded, or a block has too many frames, before a budget is empty.
    others = {"data after the end": FLOW_CONTROL_ERROR, "empty continuation": PROTOCOL_ERROR}
    assert codes == {name: others.get(name, ENHANCE_YOUR_CALM) for name in FLOODS}
    assert growth.peak_mb < FLAT_MB


def test_rapid_resets_end_the_connection_and_few_calls_are_made(gateway: Gateway, upstream: Upstream) -> None:
    growth = Growth(gateway)
    head = block(*REQUEST, *keyed(gateway))

    def taken_back() -> Iterator[bytes]:
        for stream_id in range(1, 20_000, 2):
            request = head_frame(stream_id, head, "END_HEADERS") + raw_frame(0, 1, stream_id, BODY)
            yield request + raw_frame(3, 0, stream_id, CANCEL.to_bytes(4))

    assert goaway_after(gateway, b"", taken_back()) == ENHANCE_YOUR_CALM
    assert len(upstream.requests) <= 1_100
    assert growth.peak_mb < 2 * FLAT_MB
    gateway.wait_until(lambda: "tollgate_holds_in_flight 0" in metrics(gateway))


def metrics(gateway: Gateway) -> str:
    with RawClient(gateway.admin_url) as client:
        client.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return client.read_answer().body.decode()


async def test_a_running_stream_waits_while_its_window_is_negative(
    gateway: Gateway, upstream: Upstream
) -> None:
    gate = Gate()

    def answer(request: Received) -> Script:
        if not request.json().get("stream"):
            return ordinary(request)
        head, first, *rest = ordinary(request)
        return head, first, gate, *rest

    upstream.behave(answer)
    body = json.dumps({"messages": HELLO, "stream": True}).encode()
    async with connect_http2(gateway, acks=False) as client:
        stream_id = client.begin(*keyed(gateway))
        client.h2.send_data(stream_id, body, end_stream=True)
        client.send()
        await client.until(lambda: b"hel" in client.answers[stream_id].body)
        before = len(client.answers[stream_id].body)
        client.send(raw_frame(4, 0, 0, (4).to_bytes(2) + (0).to_bytes(4)))
        await client.until(lambda: client.events["SettingsAcknowledged"] == 2)
        gate.open()
        # The window is negative by the size of what arrived. This opens it to 10 bytes, then fully.
        client.send(raw_frame(8, 0, stream_id, (before + 10).to_bytes(4)))
        await client.until(lambda: len(client.answers[stream_id].body) == before + 10)
        client.send(raw_frame(8, 0, stream_id, (1 << 20).to_bytes(4)))
        answered = await client.answer(stream_id)
    assert answered.status == 200
    assert answered.body.rstrip().endswith(b"data: [DONE]")


async def test_bodies_of_a_hundred_streams_that_never_end_take_little_memory(gateway: Gateway) -> None:
    """An unread stream fills its window of 64 KiB, and a connection its window of 1 MiB."""
    growth = Growth(gateway)
    async with connect_http2(gateway) as client:
        numbers = [client.begin(*keyed(gateway)) for _ in range(100)]
        for stream_id in numbers:
            client.h2.send_data(stream_id, b" " * 600)
        client.send()
        assert (await client.request(b"", *keyed(gateway))).reset is not None, "one stream too many"
        for stream_id in numbers:
            client.h2.reset_stream(stream_id)
        client.send()
        assert (await client.request(BODY, *keyed(gateway))).status == 200
    assert growth.peak_mb < 2 * FLAT_MB

"""The memory and work that one HTTP/1.1 connection can cost a running gateway, with a key and without."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from random import Random

import pytest
from conftest import HELLO, StartGateway
from rig.gateway import Gateway
from rig.memory import Growth, cpu_s
from rig.raw_clients import RawClient, request_bytes
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
MIB = 1 << 20
FLOOD_BYTES = 24 * MIB
FLAT_MB = 12
CHUNKED = ("Transfer-Encoding", "chunked")
SHORT_TIMES = """
from functools import partial
from addon.gateway import addon as gateway
gateway.WireSettings = partial(gateway.WireSettings, head_timeout_s=1.0)
from addon.cli import main; main(prog_name='tollgate')
"""


@pytest.fixture(autouse=True)
def serves_on(gateway: Gateway, upstream: Upstream) -> Iterator[None]:
    """Check that the next client is served and that the log has no error."""
    yield
    with RawClient(gateway.url) as client:
        client.send(gateway.chat_bytes())
        assert client.read_answer().status == 200
    assert "Traceback" not in "\n".join(gateway.stderr_lines)


def head(gateway: Gateway, *, keyed: bool, method: str = "POST") -> bytes:
    fields = [(name, value) for name, value in gateway.headers.items() if keyed or name != "Authorization"]
    return request_bytes(method, CHAT, [*fields, CHUNKED])


def flood(gateway: Gateway, begin: bytes, pieces: Iterable[bytes]) -> tuple[int, int]:
    """Send pieces until the gateway closes, at most 24 MiB. Return the status of the answer and the bytes sent."""
    sent = 0
    with RawClient(gateway.url) as client:
        with suppress(ConnectionError):
            client.send(begin)
            for piece in pieces:
                client.send(piece)
                sent += len(piece)
                if sent >= FLOOD_BYTES:
                    break
        try:
            return client.read_head().status, sent
        except ConnectionResetError:
            return 0, sent


LINES = b"".join(b"x-%d: y\r\n" % number for number in range(20_000))
FLOODS = {
    "a chunk extension without end": (b"1;a=", repeat(b"b" * MIB)),
    "a quoted extension without end": (b'1;a="', repeat(b"b" * MIB)),
    "extensions of many chunks": (b"", repeat(b"1;abcdefgh\r\nx\r\n" * 50_000)),
    "a chunk size of zeros": (b"", repeat(b"0" * MIB)),
    "a trailer without end": (b"0\r\nx: ", repeat(b"y" * MIB)),
    "trailers without end": (b"0\r\n", repeat(LINES)),
    "a size in pieces of a byte": (b"", chain(repeat(b"0", 200), repeat(b"0" * MIB))),
}


@pytest.mark.parametrize("keyed", [False, True], ids=["keyless", "keyed"])
def test_the_framing_of_a_body_takes_no_memory(gateway: Gateway, keyed: bool) -> None:
    growth = Growth(gateway)
    statuses = {
        name: flood(gateway, head(gateway, keyed=keyed) + begin, pieces)[0]
        for name, (begin, pieces) in FLOODS.items()
    }
    assert set(statuses.values()) <= {400 if keyed else 401, 0}, statuses
    assert growth.peak_mb < FLAT_MB


def test_bytes_that_never_become_a_head_take_no_memory(gateway: Gateway) -> None:
    first = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\n".encode()
    floods = {
        "blank lines": (b"", repeat(b"\r\n" * (MIB // 2)), 431),
        "a field without end": (first + b"a: ", repeat(b"b" * MIB), 431),
        "fields without end": (first, repeat(LINES), 431),
        "a method without end": (b"", repeat(b"A" * MIB), 431),
        "zeros": (b"", repeat(bytes(MIB)), 431),
        "a target without end": (b"GET /", repeat(b"a" * MIB), 431),
    }
    growth = Growth(gateway)
    for name, (begin, pieces, status) in floods.items():
        assert flood(gateway, begin, pieces)[0] in (status, 0), name
    assert growth.peak_mb < FLAT_MB


def test_an_unread_body_takes_no_memory(gateway: Gateway) -> None:
    growth = Growth(gateway)
    for begin in (
        request_bytes("POST", CHAT, [("Content-Length", str(FLOOD_BYTES))]),
        request_bytes("POST", "/nothing/here", [CHUNKED]) + b"%x\r\n" % FLOOD_BYTES,
        request_bytes("GET", CHAT, [("Content-Length", str(FLOOD_BYTES)), ("Expect", "100-continue")]),
        request_bytes("POST", CHAT, [("Content-Length", str(1 << 60))]),
    ):
        assert flood(gateway, begin, repeat(b" " * MIB))[0] in (401, 404, 405, 413, 0)
    assert growth.peak_mb < FLAT_MB


def test_small_chunks_cost_little_more_than_their_bytes(gateway: Gateway) -> None:
    """A megabyte in chunks of one byte once took two seconds of processor time."""
    body = json.dumps({"messages": HELLO}).encode() + b" " * MIB
    begin = head(gateway, keyed=True)
    small = begin + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    large = begin + b"%x\r\n%b\r\n0\r\n\r\n" % (len(small), body + b" " * (len(small) - len(body)))
    spent_s = {}
    with RawClient(gateway.url) as client:
        for name, raw in (("warm", large), ("large", large), ("small", small)):
            before_s = cpu_s(gateway)
            client.send(raw)
            assert client.read_answer().status == 200
            spent_s[name] = cpu_s(gateway) - before_s
    assert spent_s["small"] < 8 * spent_s["large"], spent_s


KINDS = {200: ("GET", "/v1/models"), 404: ("GET", "/v1/models/none"), 405: ("PUT", "/v1/models")}


def test_pipelined_requests_wait_in_the_kernel_and_are_answered_in_order(gateway: Gateway) -> None:
    order = Random(1).choices([*KINDS], weights=[8, 1, 1], k=10_000)
    fill = [("X-Fill", "x" * 2_000)]
    raw = b"".join(request_bytes(*KINDS[status], fill) for status in order)
    growth = Growth(gateway)
    with RawClient(gateway.url) as client:
        assert client.send_at_once(raw) < len(raw)
        assert [client.read_answer().status for _ in range(1_000)] == order[:1_000]
    assert growth.peak_mb < FLAT_MB


def test_endless_heads_are_closed_and_take_little_memory(start_gateway: StartGateway) -> None:
    gateway = start_gateway(program=("-c", SHORT_TIMES))
    growth = Growth(gateway)
    begun = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\na: ".encode() + b"b" * 50_000
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(gateway.url)) for _ in range(200)]
        for client in clients[::2]:
            client.send(begun)
        for number, client in enumerate(clients):
            assert client.read_to_close()[:12] == (b"" if number % 2 else b"HTTP/1.1 408")
    assert growth.peak_mb < 40

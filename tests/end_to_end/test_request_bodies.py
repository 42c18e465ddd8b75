"""Bodies that are large, slow or endless: their time, their memory, and the memory that they leave to others."""

import json
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.memory import Growth
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.scripts import Gate, Received, Script, ordinary
from rig.upstream import Upstream

MIB = 1 << 20
BUDGET = 8 * MIB
SHARE = BUDGET // 2
MAX_READING = 3
CHAT = "/v1/chat/completions"
UNAVAILABLE = (503, "rate_limit_unavailable", "1")
CHUNKED = ("Transfer-Encoding", "chunked")

SMALL = f"""
from addon.calls import request_body
request_body.BodyBudget.__init__.__defaults__ = ({BUDGET}, {MAX_READING})
from addon.cli import main; main(prog_name='tollgate')
"""
HASTY = (
    "from addon.calls import request_body; request_body.TIMEOUT_S = 0.3; request_body.BYTES_PER_S = 1 << 30\n"
    + SMALL
)

DRIP_S = 0.02


def start(start_gateway: StartGateway, program: str) -> Gateway:
    keys = {name: new_key() for name in ("one", "two", "three")}
    workspaces = {
        name: workspace((name, key, True), default_model="tester-large") for name, key in keys.items()
    }
    made = start_gateway(workspaces=workspaces, program=("-c", program))
    made.keys = keys
    return made


@pytest.fixture(scope="module")
def small(start_gateway: StartGateway) -> Gateway:
    """A gateway with 8 MiB for all bodies."""
    return start(start_gateway, SMALL)


@pytest.fixture(scope="module")
def hasty(start_gateway: StartGateway) -> Gateway:
    """A gateway with 8 MiB for all bodies and a short timeout."""
    return start(start_gateway, HASTY)


@pytest.fixture(autouse=True)
def clean(upstream: Upstream, small: Gateway) -> Iterator[None]:
    yield
    assert "Traceback" not in "\n".join(small.stderr_lines)


def head(gateway: Gateway, who: str, *fields: tuple[str, str]) -> bytes:
    common = [("Authorization", f"Bearer {gateway.keys[who]}"), ("Content-Type", "application/json")]
    return request_bytes("POST", CHAT, [*common, *fields])


def begun(gateway: Gateway, who: str, length: int | None, body: bytes = b"") -> RawClient:
    """Yield a client that has sent a part of a body. ``length`` is None for a body in chunks."""
    client = RawClient(gateway.url)
    field = CHUNKED if length is None else ("Content-Length", str(length))
    with suppress(ConnectionError):  # The gateway may refuse it before it is sent.
        client.send(head(gateway, who, field) + body)
    return client


def body_of(size: int, text: str = "hello") -> bytes:
    """Return a valid body of exactly so many bytes."""
    made = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    return made + b" " * (size - len(made))


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def ask(gateway: Gateway, who: str, size: int = 200) -> Answer:
    with begun(gateway, who, size, body_of(size)) as client:
        return client.read_answer()


def refusal_of(answer: Answer) -> tuple[int, str, str | None]:
    return answer.status, answer.json()["error"]["code"], answer.header("retry-after")


def test_no_workspace_holds_more_memory_than_it_leaves_free(small: Gateway) -> None:
    with begun(small, "one", SHARE) as client:
        small.wait_until(lambda: refusal_or_none(small, "one", 1024) == UNAVAILABLE)
        assert ask(small, "two", SHARE // 2).status == 200
        assert refusal_of(ask(small, "two", SHARE // 2 + 1024)) == UNAVAILABLE
        client.send(body_of(SHARE))
        assert client.read_answer().status == 200
    assert ask(small, "one", SHARE).status == 200


def refusal_or_none(gateway: Gateway, who: str, size: int) -> tuple[int, str, str | None] | None:
    answer = ask(gateway, who, size)
    return None if answer.status == 200 else refusal_of(answer)


def test_a_body_that_does_not_fit_is_refused_before_it_is_read(small: Gateway) -> None:
    with RawClient(small.url) as client:
        client.send(head(small, "one", ("Content-Length", str(SHARE + 1)), ("Expect", "100-continue")))
        answer = client.read_answer()
        assert refusal_of(answer) == UNAVAILABLE
        assert client.is_closed_by_peer()


def test_a_body_in_chunks_is_refused_once_its_bytes_do_not_fit(small: Gateway) -> None:
    with begun(small, "one", None, chunk(b" " * (SHARE + MIB))) as client:
        assert refusal_of(client.read_answer()) == UNAVAILABLE


def finish(client: RawClient) -> None:
    client.send(body_of(SHARE))
    assert client.read_answer().status == 200


def be_refused(client: RawClient) -> None:
    client.send(b"x" * SHARE)
    assert client.read_answer().status == 400


def leave(client: RawClient) -> None:
    client.send(b" " * MIB)
    client.close()


def half_close(client: RawClient) -> None:
    client.send(b" " * MIB)
    client.half_close()


ENDS: dict[str, Callable[[RawClient], None]] = {
    "answered": finish,
    "refused": be_refused,
    "left": leave,
    "half-closed": half_close,
}


@pytest.mark.parametrize("end", ENDS)
def test_the_memory_of_a_body_is_free_again_after_any_end_of_its_call(small: Gateway, end: str) -> None:
    with begun(small, "one", SHARE) as client:
        ENDS[end](client)
        small.wait_until(lambda: ask(small, "one", SHARE).status == 200)


def test_the_memory_of_broken_chunks_is_free_again(small: Gateway) -> None:
    with begun(small, "one", None, chunk(b" " * (SHARE - MIB)) + b"zz\r\n") as client:
        assert client.read_answer().status == 400
        small.wait_until(lambda: ask(small, "one", SHARE).status == 200)


def test_a_body_keeps_its_memory_as_long_as_its_call_lasts(small: Gateway, upstream: Upstream) -> None:
    gate = Gate()

    def answer(request: Received) -> Script:
        return (gate, *ordinary(request)) if b"held" in request.body else ordinary(request)

    upstream.behave(answer)
    with begun(small, "one", SHARE, body_of(SHARE, "held")) as client:
        upstream.wait_for_requests()
        assert refusal_of(ask(small, "one", 1024)) == UNAVAILABLE
        gate.open()
        assert client.read_answer().status == 200
    assert ask(small, "one", SHARE).status == 200


def test_a_workspace_has_a_bounded_number_of_incomplete_bodies(small: Gateway) -> None:
    half, rest = body_of(400)[:200], body_of(400)[200:]
    with ExitStack() as opened:
        clients = [opened.enter_context(begun(small, "one", 400, half)) for _ in range(MAX_READING + 5)]
        refused: list[RawClient] = []
        while len(refused) < 5:
            ready, _, _ = select.select([one for one in clients if one not in refused], [], [], BOUND_S)
            assert ready
            refused += ready
        assert [refusal_of(client.read_answer()) for client in refused] == [UNAVAILABLE] * 5
        assert ask(small, "one").status == 200, "a body that came in one piece doesn't count"
        assert ask(small, "two").status == 200
        for client in clients:
            if client not in refused:
                client.send(rest)
                assert client.read_answer().status == 200
    with begun(small, "one", 400, half) as client:
        client.send(rest)
        assert client.read_answer().status == 200


def test_a_body_that_stops_is_refused_after_a_timeout(hasty: Gateway) -> None:
    for length, body in ((SHARE, b" " * MIB), (None, chunk(b" " * MIB))):
        with begun(hasty, "one", length, body) as client:
            answer = client.read_answer()
            assert (answer.status, answer.json()["error"]["code"]) == (408, "request_timeout")
            assert client.is_closed_by_peer()
    assert ask(hasty, "one", SHARE).status == 200


def test_a_body_that_comes_byte_by_byte_gains_no_time(hasty: Gateway) -> None:
    with begun(hasty, "one", None) as client:
        stop = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not stop.wait(DRIP_S):
                    client.send(b"1\r\n \r\n")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert client.read_answer().status == 408
        finally:
            stop.set()
            dripping.join()


def test_twenty_bodies_that_never_end_take_little_memory(small: Gateway) -> None:
    """Each is declared as 30 MB. No body gets more than the share of its workspace."""
    growth = Growth(small)
    body = chunk(b" " * MIB) * 30
    with ExitStack() as opened:
        clients = [
            opened.enter_context(begun(small, who, None, body)) for who in small.keys for _ in range(7)
        ]
        statuses = [client.read_answer().status for client in clients]
        assert statuses == [503] * len(clients)
        assert growth.peak_mb < 4 * BUDGET / 1e6
        assert ask(small, "one").status == 200
    small.wait_until(lambda: ask(small, "one", SHARE).status == 200)


def test_a_large_body_is_kept_once_while_its_answer_comes(gateway: Gateway, upstream: Upstream) -> None:
    gate = Gate()

    def answer(request: Received) -> Script:
        head, first, *rest = ordinary(request)
        return head, first, gate, *rest

    upstream.behave(answer)
    text = b"hello world " * (24 * MIB // 12)
    body = b'{"stream": true, "messages": [{"role": "user", "content": "%b"}]}' % text
    growth = Growth(gateway)
    headers = [*gateway.headers.items(), ("Content-Length", str(len(body)))]
    with RawClient(gateway.url) as client:
        client.send(request_bytes("POST", CHAT, headers) + body)
        assert client.read_head().status == 200
        # Less than two copies. The rest is what a busy machine has not freed yet.
        assert growth.now_mb < 1.8 * len(body) / 1e6
        gate.open()
        client.read_chunks_until(b"[DONE]")

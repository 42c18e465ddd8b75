"""Each way in which a call may end: the client, the provider's connection, the hold and the row.

The table in docs/call-ends.md names a test of this file in each line.
"""

import json
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import FAMILIES, ROOT, model, new_key, workspace
from rig.gateway import Gateway
from rig.money import select
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    USAGE,
    Gate,
    chunk,
    chunked,
    completion,
    event,
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"

FAULTY = """
import contextvars, functools
import addon.gateway.addon as gateway
from addon.calls import attempt_runner, call, in_flight, reservation
from addon.upstream.connection import UpstreamConnection
from addon.cli import main

faulty = contextvars.ContextVar("faulty", default="")
gateway.WireSettings = functools.partial(gateway.WireSettings, write_timeout_s=0.3)
serve = gateway.serve

async def serve_faulty(one, stream, deps):
    faulty.set(stream.head.headers.get("x-faulty", ""))
    await serve(one, stream, deps)

gateway.serve = serve_faulty

def sabotage(owner, name):
    real = getattr(owner, name)
    @functools.wraps(real)
    def sabotaged(*arguments, **named):
        if faulty.get() == name:
            raise RuntimeError("sabotaged")
        return real(*arguments, **named)
    setattr(owner, name, sabotaged)

for owner, names in (
    (call, ("admit", "read_chat_request", "find_route", "reserve_first")),
    (reservation, ("make_hold_request", "make_attempt")),
    (attempt_runner, ("origin_of", "open_reader")),
    (attempt_runner.AttemptRunner, ("_pass_on", "_end")),
    (UpstreamConnection, ("send", "take_head")),
    (in_flight, ("compute_outcome",)),
):
    for name in names:
        sabotage(owner, name)
main(prog_name="tollgate")
"""
"""A gateway that waits 0.3 s for a client that reads nothing, and fails at the step in a request's header."""

MODELS = {
    "chat": model(),
    "unseen": model(family="unseen"),
    "deaf": model(provider="DEAF"),
    "refusing": model(provider="REFUSING"),
}
UNSEEN = {"cap_field": "max_completion_tokens", "reasons_unseen": True, "tokens_per_s": 10_000}


@pytest.fixture(scope="module")
def gateways(start_gateway: StartGateway, secure_sections: dict[str, Any]) -> dict[str, Gateway]:
    """Yield a gateway for HTTP/1 without TLS, and one for HTTP/2."""
    keys = {"ci": new_key(), "net": new_key()}
    settings: dict[str, Any] = {
        "program": ("-c", FAULTY),
        "families": {**FAMILIES, "unseen": UNSEEN},
        "models": MODELS,
        "workspaces": {
            "acme": workspace(("ci", keys["ci"], True), default_model="chat"),
            "net": workspace(("net", keys["net"], True), default_model="chat", fallback_model="unseen"),
        },
    }
    made = {
        "HTTP/1": start_gateway(**settings),
        "HTTP/2": start_gateway(**settings, sections=secure_sections),
    }
    for gateway in made.values():
        gateway.keys = keys
    return made


WAYS = [
    ("HTTP/1", "close"),
    ("HTTP/1", "half-close"),
    ("HTTP/1", "reset"),
    ("HTTP/2", "close"),
    ("HTTP/2", "reset"),
]


@dataclass
class Caller:
    """A client of one gateway that makes a call and leaves it in a certain way."""

    gateway: Gateway
    way: str
    trusting: ssl.SSLContext

    def leave_within_body(self) -> None:
        """Send a part of a body, and leave."""
        length = [("Content-Length", "1000")]
        headers = [*self.gateway.headers.items(), *length]
        if self.gateway.url.startswith("https"):
            with RawHttp2Client(self.gateway.url, self.trusting) as client:
                client.begin(PATH, [(name.lower(), value) for name, value in headers], b"{")
                client.wait_until_read()
                self._leave_http2(client)
        else:
            with RawClient(self.gateway.url) as raw:
                raw.send(request_bytes("POST", PATH, headers, b"{"))
                self._leave(raw)

    def leave(self, *, seen: bytes, ready: Callable[[], object], **body: Any) -> None:
        """Make a call. Leave it when its answer has ``seen`` and ``ready`` has returned."""
        if self.gateway.url.startswith("https"):
            content = json.dumps({"messages": HELLO} | body).encode()
            headers = [(name.lower(), value) for name, value in self.gateway.headers.items()]
            with RawHttp2Client(self.gateway.url, self.trusting) as client:
                client.post_until(PATH, headers, content, seen, ready)
                self._leave_http2(client)
        else:
            with RawClient(self.gateway.url) as raw:
                raw.send(self.gateway.chat_bytes(**body))
                if seen:
                    raw.read_head()
                    raw.read_chunks_until(seen)
                ready()
                self._leave(raw)
        # A later request is answered later.
        models = f"{self.gateway.url}/v1/models"
        assert httpx.get(models, timeout=BOUND_S, trust_env=False, verify=False).status_code == 200

    def _leave_http2(self, client: RawHttp2Client) -> None:
        if self.way == "close":
            client.close()
        else:
            client.reset_and_wait()

    def _leave(self, raw: RawClient) -> None:
        if self.way == "reset":
            raw.reset()
        elif self.way == "half-close":
            raw.half_close()
            assert raw.is_closed_by_peer()


@pytest.fixture(params=WAYS, ids=" ".join)
def caller(
    request: pytest.FixtureRequest, gateways: dict[str, Gateway], upstream: Upstream, trusting: ssl.SSLContext
) -> Caller:
    assert upstream.requests == []
    version, way = request.param
    return Caller(gateways[version], way, trusting)


@pytest.fixture
def plain(gateways: dict[str, Gateway], upstream: Upstream) -> Gateway:
    assert upstream.requests == []
    return gateways["HTTP/1"]


def holds(gateway: Gateway) -> list[Any]:
    return list(select(gateway.folder / "var" / "tollgate.db", "SELECT id FROM holds"))


def row_of(gateway: Gateway, user: str) -> dict[str, Any]:
    """Return the row of the call of ``user``. Check that its hold is gone."""
    row = gateway.wait_for_row(lambda row: row["end_user"] == user)
    assert row["id"] not in {hold["id"] for hold in holds(gateway)}
    return row


@contextmanager
def no_row(gateway: Gateway) -> Iterator[None]:
    """Check that the block leaves no row and no hold."""
    before = len(gateway.ledger_rows())
    yield
    gateway.wait_until(lambda: not holds(gateway))
    assert len(gateway.ledger_rows()) == before


def left_log(gateway: Gateway) -> int:
    """Return how many calls ended before they were sent because their clients left."""
    lines = [line for line in gateway.logs if line.get("event") == "refusal"]
    return sum(line["error_code"] == "client_disconnected" for line in lines)


# --- the client leaves ---------------------------------------------------------------------------------------


def test_a_client_leaves_before_its_request_is_in(caller: Caller, upstream: Upstream) -> None:
    gateway, before = caller.gateway, left_log(caller.gateway)
    with no_row(gateway):
        caller.leave_within_body()
        gateway.wait_until(lambda: left_log(gateway) == before + 1)
    assert upstream.requests == []


def test_a_client_leaves_before_its_call_was_sent(caller: Caller) -> None:
    user = f"unsent {caller.gateway.url} {caller.way}"

    def is_held() -> None:
        caller.gateway.wait_until(lambda: len(holds(caller.gateway)) == 1)

    caller.leave(seen=b"", ready=is_held, model="deaf", user=user)
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert (row["usage_source"], row["retail_nanousd"]) == ("none", 0)


def test_a_client_leaves_a_running_stream(caller: Caller, upstream: Upstream) -> None:
    user = f"running {caller.gateway.url} {caller.way}"
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES))
    caller.leave(seen=b"yes", ready=lambda: None, stream=True, user=user)
    assert upstream.last.client_left.wait(BOUND_S)
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"], row["usage_source"]) == (
        499,
        "client_disconnected",
        "estimated",
    )
    assert row["completion_tokens"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_leaves_an_answer_whose_usage_comes(
    caller: Caller, upstream: Upstream, stream: bool
) -> None:
    user, gate = f"read on {caller.gateway.url} {caller.way} {stream}", Gate()
    ended = event(chunk("yes")) + event(chunk(finish="stop"))
    rest = event(chunk(usage=USAGE)) + DONE
    upstream.behave(chunked(ended, gate, rest) if stream else (gate, *whole(completion())))
    caller.leave(seen=b"yes" if stream else b"", ready=upstream.wait_for_requests, stream=stream, user=user)
    assert not upstream.last.client_left.is_set()
    gate.open()
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"], row["usage_source"]) == (499, "client_disconnected", "provider")
    assert row["completion_tokens"] == USAGE["completion_tokens"]


@pytest.mark.parametrize("version", ["HTTP/1", "HTTP/2"])
def test_a_client_takes_nothing(
    gateways: dict[str, Gateway], upstream: Upstream, trusting: ssl.SSLContext, version: str
) -> None:
    gateway, user = gateways[version], f"takes nothing by {version}"
    silence = [b": " + b"x" * 65_536 + b"\n\n"] * 400
    upstream.behave(chunked(event(chunk("yes")), *silence, UNTIL_CLIENT_LEAVES))
    if version == "HTTP/2":
        body = json.dumps({"messages": HELLO, "model": "unseen", "stream": True, "user": user}).encode()
        headers = [(name.lower(), value) for name, value in gateway.headers.items()]
        with RawHttp2Client(gateway.url, trusting) as client:
            client.post_without_reading(PATH, headers, body)
            row = row_of(gateway, user)
    else:
        with RawClient(gateway.url) as raw:
            raw.send(gateway.chat_bytes(model="unseen", stream=True, user=user))
            row = row_of(gateway, user)
            assert not raw.read_answer().complete
    assert upstream.last.client_left.wait(BOUND_S)
    assert (row["status"], row["error_code"], row["usage_source"]) == (
        499,
        "client_disconnected",
        "estimated",
    )
    assert row["completion_tokens"] == 1, "the time that the gateway waited for its client costs nothing"


@pytest.mark.parametrize("broken", [b"zz\r\n", b"5\r\n{}\r\n0\r\n\r\n"])
def test_a_client_breaks_its_framing(plain: Gateway, upstream: Upstream, broken: bytes) -> None:
    headers = [*plain.headers.items(), ("Transfer-Encoding", "chunked")]
    with no_row(plain), RawClient(plain.url) as raw:
        raw.send(request_bytes("POST", PATH, headers, b"1\r\n{\r\n" + broken))
        answer = raw.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (400, "bad_request")
        assert answer.header("connection") == "close"
        assert raw.is_closed_by_peer()
    assert upstream.requests == []


# --- the provider breaks -------------------------------------------------------------------------------------


def ask(gateway: Gateway, key: str = "ci", faulty: str = "", **body: Any) -> Answer:
    headers = gateway.headers | {"Authorization": f"Bearer {gateway.keys[key]}", "X-Faulty": faulty}
    content = json.dumps({"messages": HELLO} | body).encode()
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes("POST", PATH, headers.items(), content))
        return raw.read_answer()


@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_breaks_before_the_first_byte(plain: Gateway, upstream: Upstream, stream: bool) -> None:
    upstream.behave((RESET,))
    user = f"broke at once {stream}"
    answer = ask(plain, stream=stream, user=user)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_error")
    row = row_of(plain, user)
    assert (row["status"], row["attempts"], row["retail_nanousd"]) == (502, 1, 0)
    assert upstream.last.client_left.wait(BOUND_S)


def test_a_provider_breaks_before_the_first_byte_and_another_answers(
    plain: Gateway, upstream: Upstream
) -> None:
    upstream.behave(lambda _: (RESET,) if len(upstream.requests) == 1 else whole(completion()))
    answer = ask(plain, "net", user="moved")
    assert (answer.status, answer.header("x-gateway-fallback")) == (200, "true")
    row = row_of(plain, "moved")
    assert (row["status"], row["attempts"], row["model_slug"]) == (200, 2, "unseen")


def test_a_provider_breaks_after_the_first_byte(plain: Gateway, upstream: Upstream) -> None:
    upstream.behave(chunked(event(chunk("yes")), CLOSE))
    answer = ask(plain, "net", stream=True, user="broke later")
    assert (answer.status, answer.complete) == (200, True)
    assert answer.body.count(b'"error"') == 1
    assert b"[DONE]" not in answer.body
    row = row_of(plain, "broke later")
    assert (row["status"], row["attempts"], row["usage_source"]) == (502, 1, "estimated")


# --- the gateway fails ---------------------------------------------------------------------------------------

UNSENT = ["admit", "read_chat_request", "find_route", "reserve_first", "make_hold_request", "make_attempt"]
SENT = ["origin_of", "send", "take_head", "open_reader", "_end"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("step", UNSENT)
def test_the_gateway_fails_before_a_call_is_sent(
    plain: Gateway, upstream: Upstream, step: str, stream: bool
) -> None:
    with no_row(plain):
        answer = ask(plain, faulty=step, stream=stream)
        assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    assert upstream.requests == []


@pytest.mark.parametrize("step", SENT)
def test_the_gateway_fails_in_an_attempt(plain: Gateway, step: str) -> None:
    answer = ask(plain, faulty=step, user=step)
    assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    row = row_of(plain, step)
    assert (row["status"], row["error_code"]) == (500, "internal_error")
    assert ask(plain).status == 200


def test_the_gateway_fails_in_a_stream(plain: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(chunked(event(chunk("yes")), gate, event(chunk(finish="stop")), DONE))
    with RawClient(plain.url) as raw:
        headers = plain.headers | {"X-Faulty": "_end"}
        body = json.dumps({"messages": HELLO, "stream": True, "user": "failed later"}).encode()
        raw.send(request_bytes("POST", PATH, headers.items(), body))
        raw.read_head()
        raw.read_chunks_until(b"yes")
        gate.open()
        assert b'"internal_error"' in raw.read_chunks_until(b'"error"')
        assert raw.read_chunk() == b""
    row = row_of(plain, "failed later")
    assert (row["status"], row["error_code"], row["usage_source"]) == (500, "internal_error", "estimated")


def test_the_gateway_fails_in_the_settlement(plain: Gateway) -> None:
    answer = ask(plain, faulty="compute_outcome", user="unsettled")
    assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "hello")
    row = row_of(plain, "unsettled")
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (200, None, 0)


# --- the process ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_drain_ends_in_time(start_gateway: StartGateway, upstream: Upstream, stream: bool) -> None:
    gateway, gate = start_gateway(), Gate()
    upstream.behave(
        chunked(event(chunk("yes")), gate, event(chunk(finish="stop")), DONE)
        if stream
        else (gate, *whole(completion()))
    )
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=stream, user="drained"))
        upstream.wait_for_requests()
        gateway.terminate()
        gateway.wait_until(lambda: gateway.readiness().status_code == 503)
        gate.open()
        answer = raw.read_answer()
        assert (answer.status, answer.complete) == (200, True)
        assert stream or answer.header("connection") == "close"
        assert raw.is_closed_by_peer()
    assert gateway.wait() == 0
    row = row_of(gateway, "drained")
    assert (row["status"], row["usage_source"]) == (200, "estimated" if stream else "provider")
    assert upstream.last.client_left.is_set()


@pytest.mark.parametrize("stream", [False, True])
def test_a_drain_ends_too_late(start_gateway: StartGateway, upstream: Upstream, stream: bool) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 0.2}})
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES) if stream else (UNTIL_CLIENT_LEAVES,))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=stream, user="cut off"))
        received = upstream.wait_for_requests()[0]
        if stream:
            raw.read_head()
            raw.read_chunks_until(b"yes")
        assert gateway.stop() == 0
        with suppress(ConnectionResetError):
            assert b"[DONE]" not in raw.read_to_close()
    assert received.client_left.wait(BOUND_S)
    row = row_of(gateway, "cut off")
    assert (row["status"], row["error_code"]) == (499, "interrupted")


def test_the_process_is_killed(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway()
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=True, user="killed"))
        raw.read_head()
        raw.read_chunks_until(b"yes")
        gateway.kill()
        assert raw.is_closed_by_peer()
    assert upstream.last.client_left.wait(BOUND_S)
    assert len(holds(gateway)) == 1
    assert gateway.ledger_rows() == []
    again = start_gateway(folder=gateway.folder)
    row = row_of(again, "killed")
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (499, "interrupted", 0)
    assert holds(again) == []


# --- the page ------------------------------------------------------------------------------------------------


def test_each_line_of_the_table_names_its_test() -> None:
    page = (ROOT / "docs" / "call-ends.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(test_\w+)`", line) for line in lines]
    assert [line for line, tests in zip(lines, named, strict=True) if not tests] == []
    # The last test is this one.
    here = [name for name in globals() if name.startswith("test_")][:-1]
    assert sorted(test for tests in named for test in tests) == sorted(here)

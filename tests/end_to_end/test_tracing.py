"""A client's trace and its own request id: in the log, in the row, and, of the trace only, at the provider."""

import json
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.http2 import connect_http2
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
TRACE_ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = {
    "traceparent": f"00-{TRACE_ID}-{PARENT}-01",
    "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
}
CUSTOMER_KEY = "fake-customer-key-" + "1" * 24


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    """A gateway whose workspace ``own`` has a key of its own and the Safety Net. ``net`` fails with that key."""
    keys = {name: new_key() for name in ("ci", "own")}
    byok = {"TESTER": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}
    made = start_gateway(
        providers={
            "TESTER": provider(upstreams["TESTER"].base_url),
            "PINNED": provider(upstreams["TESTER"].base_url, headers={"traceparent": "the operator's"}),
        },
        models={"net": model(upstream_model_id="net"), "pinned": model(provider="PINNED")},
        workspaces={
            "acme": workspace(("ci", keys["ci"], True), default_model="net"),
            "own": workspace(("own", keys["own"], True), default_model="net", byok=byok, safety_net=True),
        },
        environment={"TEST_CUSTOMER_KEY": CUSTOMER_KEY},
    )
    made.keys |= keys
    return made


def ask(gateway: Gateway, headers: dict[str, str], key: str = "ci", **body: Any) -> httpx.Response:
    return httpx.post(
        f"{gateway.url}{CHAT}",
        json={"messages": HELLO} | body,
        headers={"Authorization": f"Bearer {gateway.keys[key]}"} | headers,
        timeout=BOUND_S,
        trust_env=False,
    )


def line_of(gateway: Gateway, answer_id: str, event: str = "call") -> dict[str, Any]:
    return gateway.wait_for_log(lambda line: line.get("id") == answer_id and line.get("event") == event)


def sent_span(request: Received) -> str:
    """Return the span id that a provider received. The trace and its flags are the client's."""
    version, trace_id, span_id, flags = str(request.header("traceparent")).split("-")
    assert (version, trace_id, flags) == ("00", TRACE_ID, "01")
    assert span_id != PARENT
    return span_id


@pytest.mark.parametrize("key", ["ci", "own"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_trace_goes_on_to_the_provider_with_a_span_of_the_gateway(
    gateway: Gateway, upstream: Upstream, stream: bool, key: str
) -> None:
    answer = ask(gateway, TRACED | {"X-Client-Request-Id": "order 7/a"}, key, stream=stream)
    assert answer.status_code == 200
    line = line_of(gateway, answer.headers["x-request-id"])
    span_id = sent_span(upstream.last)
    assert upstream.last.header("tracestate") == TRACED["tracestate"]
    assert (line["trace_id"], line["parent_span_id"], line["span_id"]) == (TRACE_ID, PARENT, span_id)
    row = gateway.wait_for_row(line["id"])
    assert line["client_request_id"] == row["client_request_id"] == "order 7/a"
    assert "x-client-request-id" not in upstream.last.header_names
    assert not {"traceparent", "tracestate", "x-client-request-id"} & answer.headers.keys()


async def test_a_trace_over_http2_goes_on_too(gateway: Gateway, upstream: Upstream) -> None:
    fields = [("authorization", f"Bearer {gateway.keys['ci']}"), ("content-type", "application/json")]
    ids = [*TRACED.items(), ("x-client-request-id", "order 8")]
    async with connect_http2(gateway) as client:
        answer = await client.request(json.dumps({"messages": HELLO}).encode(), *fields, *ids)
    line = line_of(gateway, answer.headers["x-request-id"])
    assert (line["span_id"], line["client_request_id"]) == (sent_span(upstream.last), "order 8")


def test_each_attempt_has_a_span_of_its_own(gateway: Gateway, upstream: Upstream) -> None:
    def fail_own(request: Received) -> Script:
        own = CUSTOMER_KEY in str(request.header("authorization"))
        return whole({"error": {"message": "no"}}, 503) if own else ordinary(request)

    upstream.behave(fail_own)
    answer = ask(gateway, TRACED, "own")
    assert answer.headers["x-gateway-fallback"] == "true"
    first, second = [sent_span(request) for request in upstream.requests]
    failed = line_of(gateway, answer.headers["x-request-id"], "attempt failed")
    assert (failed["trace_id"], failed["span_id"]) == (TRACE_ID, first)
    assert line_of(gateway, answer.headers["x-request-id"])["span_id"] == second != first


def test_two_failed_attempts_show_the_span_of_the_failure_that_the_client_gets(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(whole({"error": {"message": "no"}}, 503))
    answer = ask(gateway, TRACED, "own")
    first, second = [sent_span(request) for request in upstream.requests]
    assert line_of(gateway, answer.headers["x-request-id"])["span_id"] == first
    failed = [line["span_id"] for line in gateway.logs if line.get("event") == "attempt failed"]
    assert second in failed


def test_a_call_without_these_headers_has_none_of_it(gateway: Gateway, upstream: Upstream) -> None:
    answer = ask(gateway, {"tracestate": "a=1"})
    line = line_of(gateway, answer.headers["x-request-id"])
    assert [line[name] for name in ("trace_id", "parent_span_id", "span_id", "client_request_id")] == [
        None
    ] * 4
    assert not {"traceparent", "tracestate"} & upstream.last.header_names
    assert gateway.wait_for_row(line["id"])["client_request_id"] is None


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": f"00-{TRACE_ID}-{PARENT}-01-more", "tracestate": "a=1"},
        {"traceparent": "\u00ff" * 55},
        {"x-client-request-id": "x" * 513},
        {"x-client-request-id": "caf\u00e9"},
        {"x-client-request-id": "a\tb"},
        {"x-client-request-id": ""},
    ],
)
def test_malformed_ids_are_ignored(gateway: Gateway, upstream: Upstream, headers: dict[str, str]) -> None:
    raw: Any = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = ask(gateway, raw)
    assert answer.status_code == 200
    line = line_of(gateway, answer.headers["x-request-id"])
    assert (line["trace_id"], line["client_request_id"]) == (None, None)
    assert not {"traceparent", "tracestate"} & upstream.last.header_names


def test_a_refused_call_is_logged_with_its_trace_and_without_a_span(
    gateway: Gateway, upstream: Upstream
) -> None:
    answer = ask(gateway, TRACED | {"X-Client-Request-Id": 'a "quote"'}, model="no-such-model", n=0)
    assert answer.status_code == 400
    line = line_of(gateway, answer.headers["x-request-id"], "refusal")
    assert (line["trace_id"], line["span_id"], line["client_request_id"]) == (TRACE_ID, None, 'a "quote"')
    assert upstream.requests == []


def test_a_key_in_a_request_id_is_masked(gateway: Gateway, upstream: Upstream) -> None:
    answer = ask(gateway, {"X-Client-Request-Id": f"id Bearer {gateway.keys['ci']}"})
    line = line_of(gateway, answer.headers["x-request-id"])
    assert (
        line["client_request_id"] == gateway.wait_for_row(line["id"])["client_request_id"] == "id Bearer ***"
    )


def test_a_header_of_the_operators_wins(gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, TRACED, model="pinned").status_code == 200
    assert upstream.last.header("traceparent") == "the operator's"
    assert "tracestate" not in upstream.last.header_names

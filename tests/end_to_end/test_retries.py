"""A retry at the only place of a model: which failures have one, after how long, and what it costs."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import CLOSE, RESET, Script, ordinary, whole
from rig.upstream import RefusingPort, Upstream

KEY = new_key()

type Ask = Callable[..., httpx.Response]


def failure(status: int, *headers: tuple[str, str]) -> Script:
    return whole({"error": {"message": "not now"}}, status, headers)


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Iterator[Gateway]:
    with RefusingPort() as refusing:
        yield start_gateway(
            providers={
                "TESTER": provider(upstreams["TESTER"].base_url),
                "SHUT": provider(f"http://127.0.0.1:{refusing.port}/v1"),
            },
            models={"m": model(), "shut": model(provider="SHUT")},
            workspaces={"acme": workspace(("ci", KEY, True))},
            sections={"upstream": {"retries": 1}},
        )


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False, headers=headers) as client:
        yield lambda name="m", **body: client.post(
            "/v1/chat/completions", json={"model": name, "messages": HELLO} | body
        )
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


def once(script: Script, upstream: Upstream) -> None:
    """Answer the first request with ``script``, and all others as usual."""
    upstream.behave(lambda request: script if len(upstream.requests) == 1 else ordinary(request))


@pytest.mark.parametrize("status", [429, 500, 503, 529])
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_that_costs_nothing_is_retried_once(
    gateway: Gateway, ask: Ask, upstream: Upstream, status: int, stream: bool
) -> None:
    once(failure(status), upstream)
    answer = ask(stream=stream)
    assert answer.status_code == 200
    assert "x-gateway-fallback" not in answer.headers
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["attempts"], row["fallback"], row["status"]) == (2, 0, 200)
    assert len(upstream.requests) == 2


def test_a_failure_that_goes_on_is_the_answer_after_two_attempts(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failure(503))
    answer = ask()
    assert answer.status_code == 503
    assert len(upstream.requests) == 2
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["attempts"], row["retail_nanousd"]) == (2, 0)


def test_a_refused_connection_is_retried(gateway: Gateway, ask: Ask) -> None:
    answer = ask("shut")
    assert answer.status_code == 502
    assert gateway.wait_for_row(answer.headers["x-request-id"])["attempts"] == 2


@pytest.mark.parametrize(
    "script",
    [
        failure(400),
        failure(401),
        failure(408),
        failure(502),
        failure(504),
        failure(429, ("Retry-After", "30")),
        failure(503, ("x-should-retry", "false")),
        (RESET,),
        (CLOSE,),
    ],
    ids=["400", "401", "408", "502", "504", "429 in 30 s", "do not", "reset", "closed"],
)
def test_what_may_have_been_served_or_can_not_be_cured_is_not_retried(
    ask: Ask, upstream: Upstream, script: Script
) -> None:
    # A connection that closes while it is idle is another matter: see test_upstream_connections.py.
    upstream.close_idle_connections()
    once(script, upstream)
    assert ask().status_code >= 400
    assert len(upstream.requests) == 1


def test_the_wait_is_the_vendors_where_it_is_short(ask: Ask, upstream: Upstream) -> None:
    once(failure(429, ("Retry-After", "1")), upstream)
    assert ask().status_code == 200


def test_one_attempt_of_at_most_one_is_followed_by_none(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    """Neither a retry, nor another place, nor a fallback is made."""
    others = [{"provider": "TESTER", "upstream_model_id": "elsewhere"}]
    gateway = start_gateway(
        models={"m": model(), "placed": model(order="first", deployments=others), "good": model()},
        workspaces={"acme": workspace(("ci", KEY, True), fallback_model="good")},
        sections={"upstream": {"max_attempts": 1, "retries": 1}},
    )
    headers = {"Authorization": f"Bearer {KEY}"}
    for name in ("m", "placed"):
        upstream.behave(failure(503))
        upstream.requests.clear()
        url, body = f"{gateway.url}/v1/chat/completions", {"model": name, "messages": HELLO}
        answer = httpx.post(url, json=body, headers=headers, timeout=BOUND_S, trust_env=False)
        assert (answer.status_code, len(upstream.requests)) == (503, 1)
        row = gateway.wait_for_row(answer.headers["x-request-id"])
        assert (row["attempts"], row["fallback"], row["status"]) == (1, 0, 503)
    assert gateway.stop() == 0

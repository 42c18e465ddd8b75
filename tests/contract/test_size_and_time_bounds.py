"""Contract, "Errors": requests and answers that are too large, and providers that are too slow."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import (
    UNTIL_CLIENT_LEAVES,
    completion,
    response_head,
    until_close,
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def strict_gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway that accepts only small bodies, from clients and from providers."""
    sections = {"limits": {"max_request_bytes": 4096}, "upstream": {"max_response_bytes": 8192}}
    return start_gateway(sections=sections)


@pytest.fixture(scope="module")
def hasty_gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway that waits one second for an answer. On a slow machine no call succeeds there."""
    return start_gateway(
        sections={"upstream": {"first_byte_timeout_s": 1, "idle_timeout_s": 1, "whole_timeout_s": 1}}
    )


def _client(gateway: Gateway) -> httpx.Client:
    return httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False)


@pytest.fixture
def strict(strict_gateway: Gateway, upstream: Upstream) -> Iterator[httpx.Client]:
    with _client(strict_gateway) as made:
        yield made


@pytest.fixture
def hasty(hasty_gateway: Gateway, upstream: Upstream) -> Iterator[httpx.Client]:
    with _client(hasty_gateway) as made:
        yield made


def _body(**more: Any) -> bytes:
    return json.dumps({"messages": HELLO} | more).encode()


@pytest.mark.parametrize("authorized", [True, False])
def test_a_body_beyond_the_bound_is_too_large_with_and_without_a_length(
    strict: httpx.Client, upstream: Upstream, authorized: bool
) -> None:
    headers = {} if authorized else {"Authorization": "Bearer nobody"}
    body = _body(user="x" * 5000)
    answer = strict.post(PATH, content=body, headers=headers)
    assert_error(answer, 413, "request_too_large", "invalid_request_error")
    if authorized:
        answer = strict.post(PATH, content=iter([body[:100], body[100:]]))
        assert_error(answer, 413, "request_too_large", "invalid_request_error")
    assert upstream.requests == []


def test_a_body_of_exactly_the_bound_is_served(strict: httpx.Client) -> None:
    body = _body(padding="x" * (4096 - len(_body(padding=""))))
    assert len(body) == 4096
    assert strict.post(PATH, content=body).status_code == 200
    assert strict.post(PATH, content=body + b" ").status_code == 413


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_upstream_that_sends_nothing_times_out(
    hasty: httpx.Client, hasty_gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    upstream.behave((UNTIL_CLIENT_LEAVES,))
    answer = hasty.post(PATH, content=_body(stream=stream))
    assert_error(answer, 504, "upstream_error", "api_error")
    assert upstream.last.client_left.wait(BOUND_S)
    assert len(upstream.requests) == 1
    row = hasty_gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["error_code"]) == (504, "upstream_error")


def test_an_upstream_that_stops_inside_a_whole_answer_times_out(
    hasty: httpx.Client, upstream: Upstream
) -> None:
    upstream.behave(
        (
            response_head(200, [("Content-Type", "application/json"), ("Content-Length", "999")]),
            b'{"id":',
            UNTIL_CLIENT_LEAVES,
        )
    )
    answer = hasty.post(PATH, content=_body())
    assert_error(answer, 504, "upstream_error", "api_error")
    assert upstream.last.client_left.wait(BOUND_S)


def test_an_upstream_that_never_accepts_times_out(start_gateway: StartGateway) -> None:
    with _client(start_gateway(sections={"upstream": {"connect_timeout_s": 1}})) as client:
        answer = client.post(PATH, content=_body(model="deaf-model"))
    assert_error(answer, 502, "upstream_error", "api_error")


@pytest.mark.parametrize("has_length", [True, False], ids=["with a length", "without a length"])
def test_a_whole_answer_beyond_the_bound_is_an_upstream_error(
    strict: httpx.Client, upstream: Upstream, has_length: bool
) -> None:
    raw = json.dumps(completion("x" * 10_000)).encode()
    upstream.behave(whole(raw) if has_length else until_close(raw, content_type="application/json"))
    assert_error(strict.post(PATH, content=_body()), 502, "upstream_error", "api_error")

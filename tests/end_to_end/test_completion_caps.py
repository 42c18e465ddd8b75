"""Caps on completions, with a provider as strict as real ones: it counts prompt and cap together."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import FAMILIES, model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
WINDOWS = {"tight": 2000, "tight-too": 2000, "wide": 9000}
FALLBACKS = {"to-wide": "wide", "to-tight": "tight-too"}

type Ask = Callable[..., httpx.Response]


def counting(request: Received) -> Script:
    """Answer as a vendor whose window holds prompt and cap. Each word of the prompt is a token."""
    body = request.json()
    words, cap, window = (
        len(body["messages"][0]["content"].split()),
        body["max_tokens"],
        WINDOWS[body["model"]],
    )
    if words + cap <= window:
        return ordinary(request)
    message = (
        f"This endpoint's maximum context length is {window} tokens. However, you requested about {words + cap} "
        f"tokens ({words} of text input, {cap} in the output). Please reduce the length of either one."
    )
    return whole({"error": {"message": message, "code": 400}}, 400)


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    keys = {name: new_key() for name in FALLBACKS}
    made = start_gateway(
        families={**FAMILIES, "together": {"cap_field": "max_tokens", "cap_within_window": True}},
        models={
            name: model(
                upstream_model_id=name, family="together", max_completion_tokens=window, context_window=window
            )
            for name, window in WINDOWS.items()
        },
        workspaces={
            name: workspace((name, keys[name], True), fallback_model=fallback)
            for name, fallback in FALLBACKS.items()
        },
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    """Ask ``tight`` for the completion of a prompt of so many words."""
    upstream.behave(counting)
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(workspace: str, words: int, **body: Any) -> httpx.Response:
            messages = [{"role": "user", "content": "word " * words}]
            headers = {"Authorization": f"Bearer {gateway.keys[workspace]}"}
            return client.post(PATH, json={"model": "tight", "messages": messages} | body, headers=headers)

        yield send
    assert upstream.failures == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_without_a_cap_leaves_room_for_its_prompt(ask: Ask, upstream: Upstream, stream: bool) -> None:
    assert ask("to-tight", 100, stream=stream).status_code == 200
    (sent,) = upstream.requests
    assert 1000 < sent.json()["max_tokens"] < 2000 - 100


def test_a_small_cap_stays_as_the_client_wrote_it(ask: Ask, upstream: Upstream) -> None:
    assert ask("to-tight", 100, max_tokens=300).status_code == 200
    assert upstream.last.json()["max_tokens"] == 300


def test_a_prompt_that_only_the_estimate_finds_too_long_is_served(ask: Ask, upstream: Upstream) -> None:
    assert ask("to-tight", 1700).status_code == 200
    assert upstream.last.json()["max_tokens"] == 256


def test_a_fallback_with_a_larger_window_serves_what_is_too_long(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    answer = ask("to-wide", 3000)
    assert (answer.status_code, answer.json()["model"]) == (200, "wide")
    assert answer.headers["x-gateway-fallback"] == "true"
    assert [request.json()["model"] for request in upstream.requests] == ["tight", "wide"]
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["model_slug"], row["attempts"], row["fallback"]) == ("wide", 2, 1)


def test_no_fallback_follows_where_its_window_is_not_larger(ask: Ask, upstream: Upstream) -> None:
    answer = ask("to-tight", 3000)
    error = assert_error(answer, 400, "invalid_request_error", "invalid_request_error")
    assert "maximum context length is 2000" in error["message"]
    assert len(upstream.requests) == 1


def test_no_fallback_follows_another_error_of_the_client(ask: Ask, upstream: Upstream) -> None:
    upstream.behave(whole({"error": {"message": "temperature must be at most 1"}}, 400))
    assert ask("to-wide", 1).status_code == 400
    assert len(upstream.requests) == 1

"""Calls that are not streamed, to a provider that answers large completions only as streams: a strict Fireworks.

Source of its refusal: goclaw#660.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import FAMILIES, PROVIDER_KEY, model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.money import holds
from rig.raw_clients import RawClient
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    Gate,
    Received,
    Script,
    chunk,
    chunked,
    completion,
    event,
    ordinary,
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
MOST_WHOLE = 4096
USAGE = {"prompt_tokens": 20, "completion_tokens": 4000, "total_tokens": 4020}
PIECES = (
    *map(event, map(chunk, ("Once ", "upon ", "a time"))),
    event(chunk(finish="stop", usage=USAGE)),
    DONE,
)

type Ask = Callable[..., httpx.Response]


def fireworks(*steps: Any, finish: bool = True) -> Callable[[Received], Script]:
    """Answer as Fireworks does, with these steps as the stream. Other models answer ordinarily."""

    def behave(request: Received) -> Script:
        body = request.json()
        if body["model"] != "large":
            return ordinary(request)
        if body.get("stream") is True:
            return chunked(*steps, finish=finish)
        if body["max_tokens"] <= MOST_WHOLE:
            return whole(completion("Once upon a time", usage=USAGE))
        message = f"Requests with max_tokens > {MOST_WHOLE} must have stream=true"
        error = {"message": message, "param": "max_tokens", "code": "BAD_REQUEST", "type": "error"}
        return whole({"error": error}, 400)

    return behave


def start(start_gateway: StartGateway, **changes: Any) -> Gateway:
    keys = {name: new_key() for name in ("alone", "spared")}
    family = {
        "cap_field": "max_tokens",
        "max_whole_completion_tokens": MOST_WHOLE,
        "asks_stream_usage": False,
    }
    made = start_gateway(
        families={**FAMILIES, "fireworks": family},
        models={
            "large": model(upstream_model_id="large", family="fireworks", max_completion_tokens=32768),
            "spare": model(upstream_model_id="spare", family="older-chat"),
        },
        workspaces={
            "alone": workspace(("alone", keys["alone"], True)),
            "spared": workspace(("spared", keys["spared"], True), fallback_model="spare"),
        },
        **changes,
    )
    made.keys = keys
    return made


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start(start_gateway)


def ask_with(client: httpx.Client, gateway: Gateway, workspace: str = "alone", **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {gateway.keys[workspace]}"}
    return client.post(PATH, json={"model": "large", "messages": HELLO} | body, headers=headers)


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:
        yield lambda workspace="alone", **body: ask_with(client, gateway, workspace, **body)
    assert upstream.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


def row_of(gateway: Gateway, answer: httpx.Response) -> dict[str, Any]:
    return gateway.wait_for_row(answer.headers["x-request-id"])


def test_a_call_without_a_cap_gets_a_whole_answer(ask: Ask, gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(fireworks(*PIECES))
    answer = ask()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    made = answer.json()
    assert made["object"] == "chat.completion"
    assert made["model"] == "large"
    (choice,) = made["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Once upon a time"}
    assert (choice["finish_reason"], made["usage"]) == ("stop", USAGE)
    (sent,) = upstream.requests
    assert (sent.json()["stream"], sent.json()["max_tokens"]) == (True, 32768)
    assert "stream_options" not in sent.json()
    row = row_of(gateway, answer)
    assert (row["stream"], row["status"], row["finish_reason"]) == (0, 200, "stop")
    assert (row["completion_tokens"], row["usage_source"]) == (4000, "provider")


def test_both_ways_give_the_same_answer_and_cost(ask: Ask, gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(fireworks(*PIECES))
    answers = [ask(max_tokens=cap) for cap in (MOST_WHOLE, MOST_WHOLE + 1)]
    assert [request.json().get("stream") for request in upstream.requests] == [None, True]
    shown = [(answer.json()["choices"], answer.json()["usage"]) for answer in answers]
    for choices, _ in shown:
        choices[0].pop("logprobs")
    assert shown[0] == shown[1]
    assert answers[0].headers.keys() == answers[1].headers.keys()
    columns = ("retail_nanousd", "completion_tokens", "finish_reason", "stream", "attempts", "usage_source")
    rows = [row_of(gateway, answer) for answer in answers]
    assert [rows[0][name] for name in columns] == [rows[1][name] for name in columns]


def test_a_client_that_streams_gets_its_stream(ask: Ask, upstream: Upstream) -> None:
    upstream.behave(fireworks(*PIECES))
    answer = ask(stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")


FAULTS: dict[str, tuple[Script, int, str]] = {
    "an error at once": ((event({"error": {"message": "busy", "code": 503}}), DONE), 503, "busy"),
    "an error after text": ((*PIECES[:2], event({"error": {"message": "busy", "code": 429}})), 429, "busy"),
    "a break": ((*PIECES[:2], RESET), 502, "broke off"),
    "an early close": ((*PIECES[:2], CLOSE), 502, "broke off"),
    "an early end": (PIECES[:2], 502, "before the answer was complete"),
    "no completion": ((DONE,), 502, "no completion"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_stream_is_an_error_with_its_status_and_costs_nothing(
    ask: Ask, gateway: Gateway, upstream: Upstream, fault: str
) -> None:
    steps, status, said = FAULTS[fault]
    upstream.behave(fireworks(*steps))
    answer = ask()
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]
    row = row_of(gateway, answer)
    assert (row["retail_nanousd"], row["usage_source"], row["attempts"]) == (0, "none", 1)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fallback_follows_a_failed_stream(
    ask: Ask, gateway: Gateway, upstream: Upstream, fault: str
) -> None:
    upstream.behave(fireworks(*FAULTS[fault][0]))
    answer = ask("spared")
    assert (answer.status_code, answer.json()["model"]) == (200, "spare")
    assert answer.headers["x-gateway-fallback"] == "true"
    row = row_of(gateway, answer)
    assert (row["model_slug"], row["attempts"], row["fallback"]) == ("spare", 2, 1)


def test_a_break_after_the_end_of_each_choice_loses_nothing(ask: Ask, upstream: Upstream) -> None:
    upstream.behave(fireworks(*PIECES[:4], RESET))
    assert ask().json()["choices"][0]["message"]["content"] == "Once upon a time"


def test_a_key_in_the_answer_is_masked_also_where_it_is_cut(ask: Ask, upstream: Upstream) -> None:
    said = f"The key is {PROVIDER_KEY}."
    words = [event(chunk(said[at : at + 5])) for at in range(0, len(said), 5)]
    upstream.behave(fireworks(*words, event(chunk(finish="stop")), DONE))
    assert ask().json()["choices"][0]["message"]["content"] == "The key is ***."


def test_an_answer_whose_client_left_is_read_to_its_end(gateway: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(fireworks(PIECES[0], gate, *PIECES[1:]))
    with RawClient(gateway.url) as client:
        content = json.dumps({"model": "large", "messages": HELLO, "user": "left"}).encode()
        head = [
            f"POST {PATH} HTTP/1.1",
            "Host: gateway",
            "Content-Type: application/json",
            f"Authorization: Bearer {gateway.keys['alone']}",
            f"Content-Length: {len(content)}",
        ]
        client.send("\r\n".join([*head, "", ""]).encode() + content)
        upstream.wait_for_requests()
    # A later request is answered later.
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    gate.open()
    row = gateway.wait_for_row(lambda row: row["end_user"] == "left")
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert (row["completion_tokens"], row["usage_source"]) == (4000, "provider")


def test_the_time_of_a_whole_answer_bounds_it(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway, gate = start(start_gateway, sections={"upstream": {"whole_timeout_s": 1}}), Gate()
    upstream.behave(fireworks(*PIECES[:2], gate))
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:
        answer = ask_with(client, gateway)
    gate.open()
    assert_error(answer, 504, "upstream_error", "api_error")
    assert row_of(gateway, answer)["retail_nanousd"] == 0

"""Several places behind one model: which one serves a call, what follows a failure, and money."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.explain_commands import record
from rig.gateway import Gateway
from rig.money import credit, holds
from rig.scripts import Received, Script, completion, ordinary, whole
from rig.upstream import Upstream

from policies.attempt_ends import AttemptEnd

type Ask = Callable[..., httpx.Response]

TOO_LONG = {"error": {"message": "maximum context length is 1000 tokens", "code": "context_length_exceeded"}}


def place(provider: str, upstream_model_id: str, **changes: Any) -> dict[str, Any]:
    return {"provider": provider, "upstream_model_id": upstream_model_id} | changes


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    two = [place("B", "b"), place("C", "c")]
    keys = {name: new_key() for name in ("acme", "own", "poor", "long", "other")}
    byok = {"B": {"secret": "env:TEST_OWN_KEY", "routing": True}}
    made = start_gateway(
        providers={name: provider(base) for name in "ABCDE"},
        models={
            "first": model(provider="A", upstream_model_id="a", order="first", deployments=two),
            "sticky": model(provider="A", upstream_model_id="a", deployments=two),
            "cheap": model(
                provider="A",
                upstream_model_id="a",
                order="cheapest",
                deployments=[place("B", "b", input_price_per_m="0.01", output_price_per_m="0.01")],
            ),
            "many": model(
                provider="A",
                upstream_model_id="a",
                order="cheapest",
                input_price_per_m="0.01",
                output_price_per_m="1",
                deployments=[place("B", "b", input_price_per_m="10", output_price_per_m="0.5")],
            ),
            "circuit": model(
                provider="D", upstream_model_id="d", order="first", deployments=[place("D", "d2")]
            ),
            "beside": model(provider="D", upstream_model_id="beside"),
            **{
                f"rests-{name}": model(
                    provider=where,
                    upstream_model_id=f"{name}-1",
                    order="first",
                    deployments=[place(where, f"{name}-2")],
                )
                for name, where in (("acme", "E"), ("own", "B"))
            },
            "explained": model(
                provider="C", upstream_model_id="x1", deployments=[place("D", "x2"), place("E", "x3")]
            ),
            "short": model(provider="A", upstream_model_id="short", context_window=100_000),
            "other": model(provider="E", upstream_model_id="e", context_window=200_000),
        },
        workspaces={
            "acme": workspace(("ci", keys["acme"], True), fallback_model="other"),
            "own": workspace(("ci", keys["own"], True), byok=byok, plan="standard"),
            "other": workspace(("ci", keys["other"], True), byok=byok),
            "poor": workspace(("ci", keys["poor"], True), plan="standard"),
            "long": workspace(("ci", keys["long"], True), context_fallback_model="other"),
        },
        environment={"TEST_OWN_KEY": "customer-key"},
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(key: str, name: str, **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            asked = {"model": name, "messages": HELLO} | body
            return client.post("/v1/chat/completions", json=asked, headers=headers)

        yield send
    assert upstream.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


def failing(status: int, *places: str) -> Callable[[Received], Script]:
    down = whole({"error": {"message": "down"}}, status)
    return lambda request: down if request.json()["model"] in places else ordinary(request)


def sent(upstream: Upstream) -> list[str]:
    return [request.json()["model"] for request in upstream.requests]


def row(gateway: Gateway, answer: httpx.Response, *names: str) -> tuple[Any, ...]:
    found = gateway.wait_for_row(answer.headers["x-request-id"])
    return tuple(found[name] for name in names)


def attempts(gateway: Gateway, call_id: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(gateway.folder / "var" / "tollgate.db")) as ledger:
        columns = ", ".join(AttemptEnd._fields)
        return ledger.execute(
            f"SELECT {columns} FROM attempts WHERE call_id = ? ORDER BY number", (call_id,)
        ).fetchall()


@pytest.mark.parametrize("stream", [False, True])
def test_another_place_of_the_model_serves_and_is_no_fallback(
    gateway: Gateway, ask: Ask, upstream: Upstream, stream: bool
) -> None:
    upstream.behave(failing(500, "a"))
    answer = ask("acme", "first", stream=stream)
    assert answer.status_code == 200
    assert sent(upstream) == ["a", "b"]
    assert "x-gateway-fallback" not in answer.headers
    if not stream:
        assert answer.json()["model"] == "first"
    names = ("model_slug", "provider", "deployment", "fallback", "attempts", "status")
    assert row(gateway, answer, *names) == ("first", "B", "B/b", 0, 2, 200)
    found = {"event": "call", "id": answer.headers["x-request-id"]}
    line = gateway.wait_for_log(lambda line: line.items() >= found.items())
    assert line["deployment"] == "B/b"
    assert [(end["place"], end["platform_key"], end["status"]) for end in line["attempt_ends"]] == [
        ("A/a", 1, 500),
        ("B/b", 1, 200),
    ]
    tried = attempts(gateway, answer.headers["x-request-id"])
    assert [one[:-1] for one in tried] == [
        (1, "A", "A/a", "payg", 1, 500, "upstream_error"),
        (2, "B", "B/b", "payg", 1, 200, None),
    ]
    assert [one[-1] for one in tried] == [end["duration_ms"] for end in line["attempt_ends"]]


def test_the_fallback_model_follows_the_places_within_the_bound_of_attempts(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failing(503, "a", "b"))
    assert ask("acme", "first").json()["model"] == "first"
    assert sent(upstream) == ["a", "b", "c"]
    upstream.requests.clear()
    upstream.behave(failing(503, "a", "b", "c"))
    answer = ask("acme", "first")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "upstream_error")
    assert sent(upstream) == ["a", "b", "c"]
    # The client has the failure of the first, and so has the row.
    assert row(gateway, answer, "provider", "attempts", "retail_nanousd") == ("A", 3, 0)
    tried = attempts(gateway, answer.headers["x-request-id"])
    assert [one[2:6] for one in tried] == [(name, "payg", 1, 503) for name in ("A/a", "B/b", "C/c")]


def test_a_conversation_stays_at_its_place_and_many_use_all(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    answers = [ask("acme", "sticky") for _ in range(4)]
    assert {answer.status_code for answer in answers} == {200}
    assert len(set(sent(upstream))) == 1
    assert row(gateway, answers[0], "attempts") == (1,)
    assert attempts(gateway, answers[0].headers["x-request-id"]) == []
    upstream.requests.clear()
    for number in range(30):
        ask("acme", "sticky", prompt_cache_key=f"run {number}")
    assert set(Counter(sent(upstream))) == {"a", "b", "c"}


def test_retail_is_the_models_and_wholesale_the_places(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    answer = ask("acme", "cheap")
    assert sent(upstream) == ["b"]
    prompt, completion, retail, wholesale = row(
        gateway, answer, "prompt_tokens", "completion_tokens", "retail_nanousd", "wholesale_nanousd"
    )
    assert retail == prompt * 156 + completion * 624
    assert wholesale == prompt * 10 + completion * 10


@pytest.mark.parametrize(("choices", "cheapest"), [(1, "a"), (8, "b")])
def test_the_cheapest_place_is_that_of_all_choices(
    ask: Ask, upstream: Upstream, choices: int, cheapest: str
) -> None:
    assert ask("acme", "many", max_tokens=4_000, n=choices).status_code == 200
    assert sent(upstream) == [cheapest]


def test_an_own_key_for_one_place_is_used_there_and_costs_nothing(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    answer = ask("own", "first")
    assert sent(upstream) == ["b"]
    assert upstream.last.header("authorization") == "Bearer customer-key"
    assert row(gateway, answer, "mode", "provider", "retail_nanousd") == ("byok", "B", 0)


def test_each_attempt_holds_again_and_only_the_one_that_served_is_paid(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    assert ask("poor", "first").status_code == 402
    assert sent(upstream) == []
    credit(gateway.folder / "var" / "tollgate.db", "poor", "1")
    upstream.behave(failing(429, "a", "b"))
    answer = ask("poor", "first")
    assert sent(upstream) == ["a", "b", "c"]
    assert row(gateway, answer, "provider", "attempts") == ("C", 3)


def test_a_place_has_a_circuit_of_its_own(gateway: Gateway, ask: Ask, upstream: Upstream) -> None:
    upstream.behave(failing(500, "d"))

    def is_passed_over() -> bool:
        upstream.requests.clear()
        assert ask("acme", "circuit").status_code == 200
        return sent(upstream) == ["d2"]

    gateway.wait_until(is_passed_over)
    shown = record(gateway.folder, "acme", {"model": "circuit", "messages": HELLO})
    assert ["circuit is open" in "".join(one["reasons"]) for one in shown["attempts"]] == [True, False, False]
    upstream.requests.clear()
    # The other models of that provider are not concerned.
    assert ask("acme", "beside").json()["model"] == "beside"
    assert sent(upstream) == ["beside"]
    gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit opened", "circuit": "D:d/payg/acme"}.items()
    )


def test_the_order_and_what_follows_are_as_explained(gateway: Gateway, ask: Ask, upstream: Upstream) -> None:
    shown = record(gateway.folder, "acme", {"model": "explained", "messages": HELLO})["attempts"]
    places = [one["deployment"] for one in shown]
    assert sorted(places) == ["C/x1", "D/x2", "E/x3"]
    followed = [
        {one["failure"]: (one["then"], one["place"]) for one in attempt["on_failure"]} for attempt in shown
    ]
    assert followed[0]["503"] == ("attempt", places[1])
    assert followed[1]["429"] == ("attempt", places[2])
    assert (followed[0]["400"], followed[2]["503"]) == (("failure", None),) * 2
    first, second = (one["upstream_model_id"] for one in shown[:2])
    statuses = {first: 503, second: 429}
    upstream.behave(
        lambda request: (
            whole({"error": {"message": "down"}}, statuses[name])
            if (name := request.json()["model"]) in statuses
            else ordinary(request)
        )
    )
    answer = ask("acme", "explained")
    assert answer.status_code == 200
    assert [one[2] for one in attempts(gateway, answer.headers["x-request-id"])] == places


def test_a_prompt_that_is_too_long_goes_to_the_model_for_long_prompts(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(
        lambda request: whole(TOO_LONG, 400) if request.json()["model"] == "short" else ordinary(request)
    )
    answer = ask("long", "short")
    assert (answer.json()["model"], answer.headers["x-gateway-fallback"]) == ("other", "true")
    assert sent(upstream) == ["short", "e"]
    upstream.behave(failing(500, "short"))
    assert ask("long", "short").status_code == 500


@pytest.mark.parametrize("key", ["acme", "own"])
def test_a_place_whose_quota_is_used_up_rests_until_its_reset(ask: Ask, upstream: Upstream, key: str) -> None:
    used_up = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "10m0s")]

    def answer(request: Received) -> Script:
        is_first = request.json()["model"] == f"{key}-1"
        return whole(completion("Hello!"), 200, used_up) if is_first else ordinary(request)

    upstream.behave(answer)
    assert [ask(key, f"rests-{key}").status_code for _ in range(3)] == [200] * 3
    assert sent(upstream) == [f"{key}-1", f"{key}-2", f"{key}-2"]
    # What the vendor said to one customer's own key is nothing to another's.
    upstream.requests.clear()
    assert ask("other", f"rests-{key}").status_code == 200
    assert sent(upstream) == [f"{key}-1" if key == "own" else f"{key}-2"]

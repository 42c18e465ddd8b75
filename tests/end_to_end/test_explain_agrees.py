"""``tollgate explain`` and a live call agree: the same requests are explained and then sent to one real gateway."""

from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.configuration import new_key
from rig.explained import MAX_REQUEST_BYTES, NAMES, TOOLS, settings, write_policy
from rig.explained_calls import Live, assert_sent_as_explained, body_of, dropped_header
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import whole
from rig.upstream import Upstream


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


SERVED: dict[str, tuple[str, dict[str, Any]]] = {
    "the default": ("plain", {}),
    "tools and reasoning": (
        "plain",
        {"model": "split", "tools": TOOLS, "reasoning_effort": "max", "max_tokens": 3, "n": 2, "seed": 1},
    ),
    "tools without reasoning": ("plain", {"model": "split", "tools": TOOLS, "reasoning_effort": "none"}),
    "a pinned model, streamed": ("plain", {"model": "gpt", "stream": True, "temperature": 3, "n": 500}),
    "a hint": ("plain", {"model": "no-such-model", "max_tokens": 7}),
    "an alias of the workspace": ("plain", {"model": "Haiku-4-5-20251001", "max_tokens": 9}),
    "an alias of the catalog": ("plain", {"model": "gpt-latest", "max_tokens": 9}),
    "a keyword": ("plain", said("SQL, please") | {"temperature": 1, "max_tokens": 900, "stop": "x"}),
    "a keyword in Chinese": ("plain", said("用數據庫查询 naïve 🎉") | {"temperature": 1.7, "top_p": 0.5}),
    "tools": ("plain", {"tools": TOOLS, "tool_choice": "required", "seed": 7, "user": "u-1"}),
    "JSON": ("plain", {"response_format": {"type": "json_object"}, "logprobs": True, "n": 2}),
    "what Claude has no place for": (
        "plain",
        {"model": "claude", "messages": [{"role": "user", "content": "x", "name": "Ann"}], "n": 4}
        | {"seed": 1, "stop": ["a"], "user": "jane@example.com", "tool_choice": "auto"},
    ),
    "what Gemini calls otherwise": (
        "plain",
        {"model": "gem", "max_completion_tokens": 30, "stop": list("abcdefgh"), "reasoning_effort": "max"}
        | {"top_k": 3, "parallel_tool_calls": True, "unheard_of": {"a": 1}, "seed": None},
    ),
    "no key at all": ("plain", {"model": "local"}),
    "the built-in provider": ("plain", {"model": "echo", "max_tokens": 5}),
    "a cap above the catalog's": ("plain", {"model": "claude", "max_tokens": 100_000}),
    "a cap that leaves room for the prompt": ("plain", {"model": "mistral"}),
    "a whole answer that comes as a stream": ("plain", {"model": "fire"}),
    "a whole answer": ("plain", {"model": "fire", "max_tokens": 9}),
    "a cap that the budget lowers": ("capped", {"model": "dear", "max_tokens": 500}),
    "a lower cap of the client's": ("capped", {"model": "dear", "max_tokens": 2}),
    "a policy's cap": ("capped", {"model": "dear", **said("short")}),
    "several choices under a budget": ("capped", {"model": "dear", "n": 3}),
    "an own key": ("acme", {"model": "own", "max_tokens": 20}),
    "an own key where the wallet is empty": ("poor", {"model": "own-only"}),
    "a model outside the catalog": ("acme", {"model": "foundry/ft:mine", "temperature": 9}),
    "the one call of a key": ("once", {}),
    "fields that are not sent on": (
        "plain",
        {"model": "gpt", "metadata": {"a": "b"}, "store": True, "functions": [], "function_call": "auto"}
        | {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 5, "logit_bias": None},
    ),
}
WON = {
    "the default": "catalog",
    "a hint": "client",
    "a cap above the catalog's": "catalog",
    "a cap that leaves room for the prompt": "window",
    "a whole answer that comes as a stream": "catalog",
    "a cap that the budget lowers": "budget",
    "a policy's cap": "policies",
    "a lower cap of the client's": "client",
    "a model outside the catalog": None,
}
"""The cap that is sent."""
REFUSED: dict[str, tuple[str, dict[str, Any] | bytes, int, str]] = {
    "no JSON": ("plain", b'{"messages": [', 400, "validation_failed"),
    "not UTF-8": ("plain", b'{"messages": "\xff"}', 400, "validation_failed"),
    "an empty body": ("plain", b"", 400, "validation_failed"),
    "wrong types": ("plain", {"temperature": "hot", "n": 0}, 400, "validation_failed"),
    "what a dialect has no place for": ("plain", {"model": "claude", **said("  ")}, 400, "validation_failed"),
    "an unknown role": ("plain", {"messages": [{"role": "User", "content": "x"}]}, 400, "validation_failed"),
    "tools of the provider's": ("plain", {"tools": [{"type": "web_search"}]}, 400, "validation_failed"),
    "no messages": ("plain", {"messages": []}, 400, "bad_request"),
    "nothing that chooses": ("bare", {}, 400, "bad_request"),
    "an unknown name with own keys": ("acme", {"model": "no-such-model"}, 400, "bad_request"),
    "a custom name without routing": ("acme", {"model": "quiet/x"}, 400, "bad_request"),
    "an inactive model": ("plain", {"model": "old"}, 400, "invalid_state"),
    "a provider without a key": ("plain", {"model": "keyless"}, 403, "byok_required"),
    "an own key that is missing": ("acme", {"model": "lost"}, 400, "invalid_state"),
    "a model for own keys only": ("plain", {"model": "paid-only"}, 403, "byok_required"),
    "what a policy forbids": ("plain", said("forbidden"), 403, "byok_required"),
    "a policy that fails": ("plain", said("faulty"), 500, "internal_error"),
    "an empty wallet": ("poor", {}, 402, "payment_required"),
    "no budget for one token": ("broke", {"model": "dear"}, 402, "payment_required"),
    "a prompt beyond the budget": ("broke", {"model": "dear", **said("x" * 9_000)}, 402, "payment_required"),
    "a key whose calls are used up": ("once", {}, 429, "rate_limit_exceeded"),
    "a body too large": ("plain", said("x" * MAX_REQUEST_BYTES), 413, "request_too_large"),
    "a fault of the gateway's": (
        "plain",
        {"model": "odd", "tools": TOOLS, "tool_choice": "required"},
        500,
        "internal_error",
    ),
    "an inactive key": ("retired", {}, 401, "invalid_api_key"),
}


@pytest.fixture(scope="module")
def _gateway(
    start_gateway: StartGateway, upstreams: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    keys = {name: new_key() for name in NAMES}
    folder = tmp_path_factory.mktemp("explained")
    write_policy(folder)
    gateway = start_gateway(folder, **settings(upstreams["TESTER"].base_url, keys))
    gateway.keys = keys
    return gateway


@pytest.fixture
def live(_gateway: Gateway, upstream: Upstream) -> Live:
    return Live(_gateway, upstream)


@pytest.mark.parametrize("case", SERVED)
def test_the_request_the_hold_and_the_row_are_as_explained(live: Live, case: str) -> None:
    key, asked = SERVED[case]
    report = live.explain(key, body_of(asked))
    assert report["refusal"] is None
    answer = live.call(key, body_of(asked))
    assert answer.status_code == 200, answer.text
    (attempt,) = report["attempts"]
    if case in WON:
        assert attempt["caps"]["won"] == WON[case]
    if attempt["built_in"]:
        assert live.upstream.requests == []
    else:
        assert_sent_as_explained(attempt, live.upstream.last, live.held[-1])
    assert answer.headers.get("x-gateway-dropped") == dropped_header(attempt)
    row = live.row(answer)
    assert report["stream"] or answer.json()["model"] == row["model_slug"]
    for column in ("model_slug", "provider", "mode", "upstream_model_id", "fallback"):
        assert row[column] == attempt[column], column
    assert row["requested_model"] == report["requested_model"]
    assert row["stream"] == report["stream"]
    line = live.gateway.wait_for_log(lambda line: line.get("id") == row["id"])
    assert line["decided_by"] == report["decided_by"]


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_as_explained(live: Live, case: str) -> None:
    key, asked, status, code = REFUSED[case]
    if key == "once":  # Its only call may be made already by another test.
        live.call(key, body_of(asked))
    refusal = live.explain(key, body_of(asked))["refusal"]
    answer = live.call(key, body_of(asked))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert live.upstream.requests == []
    assert (refusal["status"], refusal["code"]) == (status, code)
    assert {name: refusal[name] for name in ("message", "type", "param", "code")} == answer.json()["error"]
    if key == "retired":  # A live call does not show that the key exists.
        assert refusal["why"] == "key retired is not active"


@pytest.mark.parametrize(("key", "name"), [("hop", "broken"), ("net", "own-broken")])
def test_the_second_attempt_is_made_as_explained(live: Live, key: str, name: str) -> None:
    content = body_of({"model": name, "temperature": 1.5, "user": "u"})
    report = live.explain(key, content)
    assert report["refusal"] is None
    answer = live.call(key, content)
    received = live.upstream.wait_for_requests(2)
    for attempt, request, held in zip(report["attempts"], received, live.held, strict=True):
        assert_sent_as_explained(attempt, request, held)
    first, second = report["attempts"]
    assert (first["fallback"], second["fallback"]) == (False, True)
    assert answer.headers.get("x-gateway-dropped") == dropped_header(second)
    row = live.row(answer)
    assert (row["attempts"], row["model_slug"], row["mode"]) == (2, second["model_slug"], second["mode"])


@pytest.mark.parametrize(
    ("key", "name", "second"),
    [
        ("poor-net", "own-broken", "payment_required"),  # The Safety Net has no money.
        ("poor-hop", "broken", "payment_required"),  # No money for the fallback model: the first error stays.
        ("plain", "broken", None),
        ("net", "foundry/broken-3", None),
    ],
)
def test_the_error_without_a_second_attempt_is_as_explained(
    live: Live, key: str, name: str, second: str | None
) -> None:
    content = body_of({"model": name})
    report = live.explain(key, content)
    answer = live.call(key, content)
    assert len(live.upstream.requests) == 1
    assert [attempt["refusal"] and attempt["refusal"]["code"] for attempt in report["attempts"][1:]] == (
        [second] if second else []
    )
    if second is None:
        assert report["why_alone"]
    if report["told_on_failure"] is None:
        assert (answer.status_code, answer.json()["error"]["message"]) == (500, "down")
    else:
        error = {name: report["told_on_failure"][name] for name in ("message", "type", "param", "code")}
        assert (answer.status_code, answer.json()["error"]) == (report["told_on_failure"]["status"], error)
        assert "cannot use the Safety Net fallback" in error["message"]


def test_the_error_of_a_model_that_forbids_the_safety_net_is_as_explained(live: Live) -> None:
    content = body_of({"model": "own-only"})
    error = live.explain("net", content)["told_on_failure"]
    live.upstream.behave(whole({"error": {"message": "down"}}, status=500))
    answer = live.call("net", content)
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, error["message"])
    assert error["code"] == "byok_required"


def test_explaining_writes_nothing(live: Live) -> None:
    def state() -> list[Any]:
        folder = live.gateway.folder
        files = {path: path.read_bytes() for path in Path(folder).rglob("*.toml")}
        return [files, holds(live.ledger), live.gateway.ledger_rows(), live.upstream.requests[:]]

    live.gateway.wait_until(lambda: holds(live.ledger) == [])
    before = state()
    for case in ("the default", "a cap that the budget lowers", "an own key"):
        key, asked = SERVED[case]
        live.explain(key, body_of(asked))
    assert state() == before

"""Contract, "Execution modes": the key that each provider gets, and the payer, when a customer has an own key.

tests/unit/policies/test_routing.py has a line for each case of routing. These tests cover only the cases that need
a running gateway.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import CLOSE, Received, Script, chunk, chunked, event, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
CUSTOMER_KEY = "fake-customer-key-" + "1" * 24
NO_TOKEN_FIELDS = {"max_tokens", "max_completion_tokens"}
MODELS = {
    "own": model(),
    "own-only": model(byok_only=True),
    "paid": model(provider="PAID"),
    "paid-only": model(provider="PAID", byok_only=True),
    "paid-old": model(provider="PAID", active=False),
    "lost": model(provider="LOST"),
}
BYOK = {
    "TESTER": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True},
    "CLAUDE": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True},
    "LOST": {"secret": "env:TEST_OWN_KEY_THAT_IS_NOT_SET", "routing": True},
    "QUIET": {"secret": "env:TEST_CUSTOMER_KEY", "routing": False},
}
RULES = [
    {"keywords": ["sql"], "model": "own"},
    {"keywords": ["retired"], "model": "paid-old"},
    {"keywords": ["vip"], "model": "paid-only"},
]

type Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    """A gateway whose workspaces have plan standard and empty wallets, so that it serves no metered call."""
    base = upstreams["TESTER"].base_url
    keys = {name: new_key() for name in ("ci", "capped", "slow", "rich")}
    byok = {"byok": BYOK, "rules": RULES}
    capped = workspace(("capped", keys["capped"], True), **byok, plan="standard", overage_protection=True)
    capped["keys"][0] |= {"request_cap": 2, "spend_cap_usd": "0.000000001"}
    made = start_gateway(
        providers={
            "TESTER": provider(base, custom_family="older-chat"),
            "CLAUDE": provider(base, dialect="anthropic"),
            **{name: provider(base) for name in ("PAID", "LOST", "QUIET")},
        },
        models=MODELS,
        workspaces={
            "acme": workspace(("ci", keys["ci"], True), **byok, plan="standard"),
            "capped": capped,
            "slow": workspace(("slow", keys["slow"], True), **byok, plan="standard", rpm_override=2),
            "rich": workspace(("rich", keys["rich"], True), **byok, default_model="paid"),
        },
        environment={"TEST_CUSTOMER_KEY": CUSTOMER_KEY},
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    """Make a call: ``ask("own", key="ci", stream=True)``."""
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(name: str | None = None, key: str = "ci", **body: Any) -> httpx.Response:
            named = {} if name is None else {"model": name}
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            return client.post(PATH, json={"messages": HELLO} | named | body, headers=headers)

        yield send
    assert upstream.failures == []


def row_of(gateway: Gateway, answer: httpx.Response) -> dict[str, Any]:
    return gateway.wait_for_row(answer.headers["x-request-id"])


def sent_keys(request: Received) -> tuple[bool, bool]:
    """Return whether the provider received the customer's key, and whether it received the platform's key."""
    everything = json.dumps(request.headers) + request.target + request.body.decode()
    return CUSTOMER_KEY in everything, PROVIDER_KEY in everything


@pytest.mark.parametrize("stream", [False, True])
def test_the_provider_of_an_own_key_gets_only_that_key_and_the_call_is_free(
    ask: Ask, gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    answer = ask("own", stream=stream)
    assert answer.status_code == 200
    assert upstream.last.header("authorization") == f"Bearer {CUSTOMER_KEY}"
    assert sent_keys(upstream.last) == (True, False)
    row = row_of(gateway, answer)
    assert (row["mode"], row["wholesale_nanousd"], row["retail_nanousd"]) == ("byok", 0, 0)
    assert (row["prompt_tokens"], row["completion_tokens"], row["usage_source"]) == (9, 2, "provider")
    line = gateway.wait_for_log(lambda line: line.get("id") == row["id"])
    assert (line["mode"], line["decided_by"]) == ("byok", "byok_tier1")


def test_another_provider_gets_only_the_platforms_key(ask: Ask, gateway: Gateway, upstream: Upstream) -> None:
    answer = ask("paid", key="rich")
    assert sent_keys(upstream.last) == (False, True)
    row = row_of(gateway, answer)
    assert row["mode"] == "payg"
    assert row["retail_nanousd"] > 0


def test_an_empty_wallet_and_a_reached_spend_cap_do_not_refuse_an_own_key(
    ask: Ask, upstream: Upstream
) -> None:
    assert_error(ask("paid"), 402, "payment_required", "invalid_request_error")
    assert upstream.requests == []
    assert ask("own").status_code == 200


def test_an_own_key_gets_the_catalogs_maximum_without_overage_protection(
    ask: Ask, upstream: Upstream
) -> None:
    # The request cap of the key allows two calls. The third is refused in every mode.
    assert ask("own", key="capped").status_code == 200
    assert upstream.last.json()["max_completion_tokens"] == 16384
    assert ask("own-only", key="capped", max_tokens=7).status_code == 200
    assert upstream.last.json()["max_completion_tokens"] == 7
    assert_error(ask("own", key="capped"), 429, "rate_limit_exceeded", "rate_limit_error")
    assert len(upstream.requests) == 2


def test_calls_with_an_own_key_count_for_the_workspaces_rate(ask: Ask, upstream: Upstream) -> None:
    assert [ask("own", key="slow").status_code for _ in range(3)] == [200, 200, 429]
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_outside_the_catalog_keeps_its_requested_name(
    ask: Ask, gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    name = "Tester/vendor/new-model:1"
    answer = ask(name, stream=stream)
    assert answer.status_code == 200
    if stream:
        events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        assert {json.loads(text)["model"] for text in events} == {name}
    else:
        assert answer.json()["model"] == name
    sent = upstream.last.json()
    assert sent["model"] == "vendor/new-model:1"
    assert not sent.keys() & NO_TOKEN_FIELDS
    row = row_of(gateway, answer)
    assert (row["requested_model"], row["model_slug"], row["upstream_model_id"]) == (
        name,
        name,
        sent["model"],
    )
    assert (row["provider"], row["mode"], row["retail_nanousd"]) == ("TESTER", "byok", 0)


def test_the_clients_cap_is_sent_in_the_field_of_the_custom_family(ask: Ask, upstream: Upstream) -> None:
    assert ask("tester/x", max_completion_tokens=900_000).status_code == 200
    sent = upstream.last.json()
    assert {name: sent[name] for name in sent.keys() & NO_TOKEN_FIELDS} == {"max_tokens": 900_000}


def test_an_api_that_requires_a_cap_gets_one(ask: Ask, upstream: Upstream) -> None:
    message = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "model": "claude-x",
        "stop_reason": "end_turn",
    }
    content = [{"type": "text", "text": "hello"}]
    upstream.behave(whole({**message, "content": content, "usage": {"input_tokens": 9, "output_tokens": 2}}))
    answer = ask("claude/claude-x")
    assert answer.json()["model"] == "claude/claude-x"
    assert upstream.last.json()["max_tokens"] == 4096
    assert upstream.last.header("x-api-key") == CUSTOMER_KEY


def test_an_interrupted_stream_of_an_uncapped_model_is_recorded_by_estimate(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(event(chunk("x" * 400)), CLOSE))
    row = row_of(gateway, ask("tester/x", stream=True))
    assert (row["usage_source"], row["completion_tokens"], row["retail_nanousd"]) == ("estimated", 100, 0)


def test_a_rule_reads_the_parts_of_the_last_user_message(ask: Ask, gateway: Gateway) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
    parts = [picture, {"type": "text", "text": "Fix my SQL!"}]
    messages = [*HELLO, {"role": "assistant", "content": "vip"}, {"role": "user", "content": parts}]
    answer = ask("paid", key="rich", messages=messages)
    assert answer.json()["model"] == "own"
    line = gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert line["decided_by"] == "rule 1 (sql)"
    messages[-1] = {"role": "user", "content": [picture]}
    assert ask("paid", key="rich", messages=messages).json()["model"] == "paid"


def _says_its_key(request: Received) -> Script:
    key = (request.header("authorization") or "").removeprefix("Bearer ")
    return whole({"error": {"message": f"Key {key} may not use this.", "param": key}}, status=403)


@pytest.mark.parametrize(("name", "stream"), [("own", False), ("own", True), ("paid", False), ("paid", True)])
def test_an_error_shows_no_key_of_either_kind(
    ask: Ask, gateway: Gateway, upstream: Upstream, name: str, stream: bool
) -> None:
    upstream.behave(_says_its_key)
    answer = ask(name, key="rich", stream=stream)
    assert_error(answer, 403, "permission_denied", "permission_denied")
    row = row_of(gateway, answer)
    for secret in (CUSTOMER_KEY, PROVIDER_KEY):
        assert secret not in answer.text
        assert secret not in json.dumps(row)
    gateway.assert_no_secret_logged([CUSTOMER_KEY])


A_KEY = "sk-fake-0000-1111-2222"

# request, message; expected status, code, part of the message
REFUSED: list[tuple[str | None, str, int, str, str]] = [
    (None, "hello", 400, "bad_request", "Name a model"),
    ("no-such-model", "hello", 400, "bad_request", "No model of that name"),
    ("nobody/x", "hello", 400, "bad_request", "No model of that name"),
    ("paid/x", "hello", 400, "bad_request", "add [byok.PAID] with 'routing = true'"),
    ("quiet/x", "hello", 400, "bad_request", "set 'routing = true' in [byok.QUIET]"),
    ("tester/../admin", "hello", 400, "bad_request", "segments"),
    (f"tester/{A_KEY}", "hello", 400, "bad_request", "looks like a credential"),
    ("lost", "hello", 400, "invalid_state", "[byok.LOST]"),
    ("lost/x", "hello", 400, "invalid_state", "[byok.LOST]"),
    ("paid-old", "hello", 400, "invalid_state", "No active model"),
    ("paid", "a retired word", 400, "invalid_state", "change rules[1].model"),
    ("paid-only", "hello", 403, "byok_required", "add [byok.PAID]"),
    ("paid", "a vip word", 403, "byok_required", "change its rules[2].model"),
]


def test_a_refused_call_reaches_no_upstream_and_has_no_row(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    refused = []
    for name, text, status, code, part in REFUSED:
        answer = ask(name, messages=[{"role": "user", "content": text}])
        kind = "permission_denied" if status == 403 else "invalid_request_error"
        assert part in assert_error(answer, status, code, kind)["message"]
        assert A_KEY not in answer.text
        refused.append(answer.headers["x-request-id"])
    assert upstream.requests == []
    row_of(gateway, ask("own"))
    assert not {row["id"] for row in gateway.ledger_rows()} & set(refused)
    gateway.assert_no_secret_logged([A_KEY, CUSTOMER_KEY])

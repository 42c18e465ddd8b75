"""``POST /v1/messages/count_tokens``: the provider's count or an estimate, free, but within the workspace's rate."""

from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, TOLLGATE, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.messages_requests import HELLO, MARK, TOOL, text, user
from rig.scripts import RESET, Gate, Script, whole
from rig.upstream import Upstream

TIMEOUT_S = 2
PROGRAM = ("-c", f"from addon.calls import count_tokens; count_tokens.TIMEOUT_S = {TIMEOUT_S}; {TOLLGATE[1]}")
FAMILIES = {
    "claude": {"message_extra": ["reasoning_details", "cache_control"], "late_system_role": "system"},
    "gpt": {},
}
WORDS = "word " * 30_000


@pytest.fixture(scope="module")
def counting(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    keys = {"ci": new_key(), "slow": new_key()}
    made = start_gateway(
        providers={
            "CLAUDE": provider(base, dialect="anthropic", auth="x-api-key"),
            "GPT": provider(base),
        },
        models={
            "claude": model(provider="CLAUDE", upstream_model_id="claude-x", family="claude"),
            "gpt": model(provider="GPT", family="gpt"),
        },
        families=FAMILIES,
        workspaces={
            "acme": workspace(
                ("ci", keys["ci"], True), budgets=[{"for": "user", "required": True, "spend_cap_usd": "9"}]
            ),
            "slow": workspace(("slow", keys["slow"], True), rpm_override=1),
        },
        program=PROGRAM,
    )
    made.keys = keys
    return made


@pytest.fixture
def sdk(counting: Gateway, upstream: Upstream) -> Anthropic:
    upstream.behave(whole({"input_tokens": 4_321}))
    return Anthropic(base_url=counting.url, auth_token=counting.key, max_retries=0, timeout=BOUND_S)


def test_the_provider_counts_what_it_would_get(sdk: Anthropic, upstream: Upstream, counting: Gateway):
    asked: dict[str, Any] = {
        "messages": [*user(text(WORDS, cache_control=MARK)), {"role": "system", "content": "Late"}],
        "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
        "thinking": {"type": "enabled", "budget_tokens": 9_000},
    }
    counted = sdk.messages.count_tokens(model="claude", system="Be brief.", **asked)
    assert counted.input_tokens == 4_321
    assert upstream.last.target == "/v1/messages/count_tokens"
    assert (upstream.last.header("x-api-key"), upstream.last.header("anthropic-version")) == (
        PROVIDER_KEY,
        "2023-06-01",
    )
    assert upstream.last.json() == {
        "model": "claude-x",
        "system": "Be brief.",
        **asked,
        "tools": [TOOL],
    }
    assert counting.ledger_rows() == []


@pytest.mark.parametrize(
    "script",
    [
        whole({"error": {"type": "not_found_error", "message": "no"}}, 404),
        whole({"input_tokens": "many"}),
        whole(b"{", content_type="text/html"),
        whole({"input_tokens": 7, "more": "x" * 70_000}),
        (RESET,),
        (Gate(),),
    ],
    ids=["refused", "no number", "no json", "endless", "broken", "late"],
)
def test_without_a_count_of_the_provider_it_is_the_estimate(
    sdk: Anthropic, upstream: Upstream, script: Script
):
    upstream.behave(script)
    counted = sdk.messages.count_tokens(model="claude", messages=user(text(WORDS)))  # type: ignore[arg-type]
    assert 30_000 <= counted.input_tokens < 60_000
    assert {one.target for one in upstream.requests} == {"/v1/messages/count_tokens"}


def test_other_providers_prompts_are_estimated(sdk: Anthropic, upstream: Upstream):
    short = sdk.messages.count_tokens(model="gpt", messages=HELLO)  # type: ignore[arg-type]
    long = sdk.messages.count_tokens(model="gpt", messages=HELLO, system=WORDS, tools=[TOOL])  # type: ignore[arg-type,list-item]
    assert 0 < short.input_tokens < 1_000 and long.input_tokens > 30_000
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"messages": HELLO, "top_p": 7}, 400, "top_p: Input should be less than or equal to 1"),
        ({}, 400, "messages: At least one message is required."),
        ({"messages": HELLO, "model": "no-such-model"}, 400, "No model of that name"),
    ],
)
def test_what_an_answer_would_be_refused_for(
    sdk: Anthropic, counting: Gateway, asked: dict[str, Any], status: int, words: str
):
    answer = httpx.post(
        f"{counting.url}/v1/messages/count_tokens",
        json={"model": "claude"} | asked,
        headers={"x-api-key": counting.key},
        timeout=BOUND_S,
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")
    assert words in answer.json()["error"]["message"]
    assert answer.json()["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


def test_it_counts_in_the_rate_of_the_workspace(counting: Gateway, sdk: Anthropic):
    slow = sdk.with_options(auth_token=counting.keys["slow"])
    assert slow.messages.count_tokens(model="gpt", messages=HELLO).input_tokens  # type: ignore[arg-type]
    with pytest.raises(anthropic.RateLimitError, match="limit of 1 requests a minute"):
        slow.messages.count_tokens(model="gpt", messages=HELLO)  # type: ignore[arg-type]


def test_a_field_that_a_budget_requires_is_named_in_the_words_of_the_api(sdk: Anthropic, upstream: Upstream):
    with pytest.raises(anthropic.BadRequestError, match=r"metadata\.user_id: A text is required by a budget"):
        sdk.messages.create(model="gpt", max_tokens=9, messages=HELLO)  # type: ignore[arg-type]
    assert upstream.requests == []


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_an_agent_finds_the_gateway_before_its_first_call(counting: Gateway, path: str):
    answer = httpx.head(f"{counting.url}{path}", timeout=BOUND_S, trust_env=False)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["x-request-id"]
    assert httpx.get(f"{counting.url}{path}", timeout=BOUND_S, trust_env=False).status_code == 404

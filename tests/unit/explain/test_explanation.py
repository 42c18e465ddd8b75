"""Explanations: they agree with the decisions for any request, and show exactly what would be sent."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from rig import explained
from rig.configuration import Configuration, new_key

from addon.calls.call_state import Call
from addon.calls.chat_request import parse_chat_request
from addon.dialects import DIALECTS
from addon.explain.explanation import BUILT_IN_URL, Counted, Explanation, explain
from addon.settings.settings import Settings, load_settings
from addon.store.protocol import StoreUnavailable
from policies.call_stages import Stage
from policies.completion_cap import find_completion_cap
from policies.exchange import Exchange
from policies.field_rules import count_choices
from policies.limits import Limit, limits_of
from policies.model import Workspace
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.routing import choose_route
from policies.sanitize import sanitize
from policies.spend import NOT_METERED, CounterUse, Denial, compute_max_cost, make_denial_refusal, place_hold

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
UNUSED = CounterUse()


@cache
def loaded() -> Settings:
    keys = {name: new_key() for name in explained.NAMES}
    configuration = Configuration(**explained.settings("https://provider.example/v1", keys))
    with TemporaryDirectory() as folder:
        explained.write_policy(Path(folder))
        found = load_settings(configuration.write(Path(folder)), explained.ENVIRONMENT)
    return found.with_builtin_url(BUILT_IN_URL, SecretStr("-"))


def call_of(workspace: Workspace) -> Call:
    return Call(Exchange("x", NOW, 0.0, Stage.ADMITTED, workspace, workspace.keys[0]), loaded())


def explain_as(name: str, body: Any, counted: Counted = lambda *_: UNUSED) -> Explanation:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return explain(call_of(loaded().workspaces[name]), content, counted)


def refusal_by_the_decisions(
    workspace: Workspace, content: bytes, used: CounterUse
) -> tuple[str, str] | None:
    """Return the code and message of the first attempt's refusal, from the pure functions alone."""
    try:
        chat = parse_chat_request(content)
        asked = RequestFacts(chat.model, chat.fields)
        target = choose_route(asked, workspace, loaded().models, loaded().providers).targets[0]
        model = target.model
        extras = {name: value for name, value in chat.extras.items() if name in model.family.extra}
        fields = {**chat.fields, **extras}
        max_cost = NOT_METERED
        if target.mode == "payg":
            assert model.max_completion_tokens is not None
            max_cost = compute_max_cost(
                model.retail,
                chat.prompt_tokens(model.family),
                find_completion_cap(chat.requested_cap, model.max_completion_tokens),
                count_choices(fields, model.family),
                is_protected=workspace.overage_protection,
                names_cap=chat.requested_cap is not None,
                uncapped_tokens=model.family.uncapped_completion_tokens,
            )
        limits = limits_of(workspace, workspace.keys[0], target.mode, NOW)
        decided = place_hold(max_cost, limits, {limit.counter: used for limit in limits})
        if isinstance(decided, Denial):
            raise make_denial_refusal(decided, NOW)
        budget = decided.cap_tokens if target.mode == "payg" else None
        cap = find_completion_cap(chat.requested_cap, model.max_completion_tokens, budget)
        body = sanitize(fields, model, cap, chat.stream).body
        DIALECTS[model.provider.dialect].request(target, body)
    except Refusal as refusal:
        return refusal.code, refusal.message
    except KeyError:  # The operator's mistake in ``rig.explained``.
        return "internal_error", "The gateway failed to handle this request."
    return None


texts = st.sampled_from(["hello", "SQL", "數據庫", " ", "", "naïve 🎉", "x" * 3_000])
parts = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/x.png"}},
            {"type": "unheard_of"},
        ]
    ),
    min_size=1,
    max_size=2,
)
CALLED = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": texts | parts},
        optional={
            "name": st.just("Ann"),
            "x": st.just(1),
            "reasoning_content": st.just("Hm."),
            "tool_calls": st.just([CALLED]),
        },
    ),
    min_size=1,
    max_size=3,
)
numbers = st.sampled_from([None, -3, 0, 0.5, 1, 3, 10**6])
counts = st.sampled_from([None, 1, 3, 200])
requests = st.fixed_dictionaries(
    {"messages": messages},
    optional={
        **dict.fromkeys(("temperature", "presence_penalty"), numbers),
        **dict.fromkeys(("n", "seed", "top_logprobs"), counts),
        **dict.fromkeys(("max_tokens", "max_completion_tokens"), st.sampled_from([None, 1, 50, 10**9])),
        "top_p": st.sampled_from([0.5, 1, 2]),
        "model": st.sampled_from([*explained.MODELS, "no-such-model", "foundry/mine", "quiet/x", "local/x"]),
        "stream": st.booleans(),
        "stop": st.sampled_from(["a", ["a", " "], list("abcdefg")]),
        "tools": st.sampled_from([[], explained.TOOLS, [{"type": "web_search"}]]),
        "tool_choice": st.sampled_from(
            ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}]
        ),
        "response_format": st.sampled_from(
            [{"type": kind} for kind in ("text", "json_object", "json_schema")]
        ),
        "reasoning_effort": st.sampled_from(["none", "low", "max", 7]),
        "thinking": st.sampled_from([{"type": "enabled", "budget_tokens": 1_024}, {"type": "disabled"}]),
        "user": texts,
        "logprobs": st.booleans(),
        "parallel_tool_calls": st.booleans(),
        "top_k": st.just(4),
        "stream_options": st.just({"include_usage": False}),
        "unheard_of": st.just({"a": []}),
    },
)
standings = st.builds(
    CounterUse,
    st.sampled_from([0, 10**6, 10**12]),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([0, 10**8]),
    st.just(0),
)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(explained.NAMES), request=requests, used=standings)
def test_an_explanation_agrees_with_the_decisions_and_sends_the_body_that_it_shows(
    name: str, request: dict[str, Any], used: CounterUse
) -> None:
    content = json.dumps(request).encode()
    workspace = loaded().workspaces.get(name) or loaded().workspaces["plain"]
    found = explain(call_of(workspace), content, lambda *_: used)
    refused = found.refused and (found.refused.answer.code, found.refused.answer.message)
    assert refused == refusal_by_the_decisions(workspace, content, used)
    for attempt in found.attempts:
        if attempt.body is not None:
            assert_true(request, attempt)


def assert_true(request: dict[str, Any], attempt: Any) -> None:
    """Every field has a change. A kept field is in the body as it was sent, and a dropped field is not."""
    actions: dict[str, set[str]] = {}
    for change in attempt.fields:
        assert change.reason
        assert change.source
        actions.setdefault(change.field, set()).add(change.action)
    explained = {name.partition(".")[0] for name in actions}
    assert explained >= request.keys()
    if attempt.target.model.provider.dialect == "openai":
        assert attempt.body.keys() <= explained | {"random_seed"}
    for name, taken in actions.items():
        if taken == {"kept"}:
            assert attempt.body[name] == request[name], name
        if taken == {"dropped"} and "." not in name:
            assert name not in attempt.body, name


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_get_an_explanation(content: bytes) -> None:
    refused = explain_as("plain", content).refused
    assert refused is not None
    assert (refused.step, refused.answer.status) == ("body", 400)


BODY = {"messages": [{"role": "user", "content": "hello", "name": "Ann"}]}


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("gpt", {"seed": 1}, {"seed": [("kept", "the contract, chat request body")]}),
        ("gpt", {"max_tokens": 5}, {"max_tokens": [("renamed", "families.toml [openai-chat] cap_field")]}),
        ("gpt", {"stream": False}, {"stream": [("dropped", "the contract, chat request body")]}),
        ("gpt", {"user": None}, {"user": [("dropped", "the contract, chat request body")]}),
        ("gpt", {"top_k": 4}, {"top_k": [("dropped", "families.toml, default of extra")]}),
        (
            "claude",
            {"n": 2, "stop": "x", "user": "u"},
            {
                "n": [
                    ("clamped", "families.toml [claude-sampling] n_limit"),
                    ("dropped", "providers.toml [CLAUDE] dialect"),
                ],
                "stop": [("renamed", "providers.toml [CLAUDE] dialect")],
                "user": [("renamed", "providers.toml [CLAUDE] dialect")],
                "messages.name": [("dropped", "providers.toml [CLAUDE] dialect")],
            },
        ),
        (
            "gem",
            {"temperature": 1, "tool_choice": "auto", "stream": True},
            {
                "temperature": [("renamed", "providers.toml [GOOGLE] dialect")],
                "tool_choice": [("dropped", "the contract, chat request body")],
                "messages.name": [("dropped", "providers.toml [GOOGLE] dialect")],
            },
        ),
    ],
)
def test_each_change_of_a_field_has_its_source(
    model: str, fields: dict[str, Any], expected: dict[str, list[tuple[str, str]]]
) -> None:
    (attempt,) = explain_as("plain", BODY | {"model": model} | fields).attempts
    for name, changes in expected.items():
        assert [(one.action, one.source) for one in attempt.fields if one.field == name] == changes, name


def test_a_dialects_name_of_a_field_is_shown() -> None:
    (attempt,) = explain_as("plain", BODY | {"model": "gem", "stop": "x", "stream": True}).attempts
    reasons = {change.field: change.reason for change in attempt.fields}
    assert reasons["stop"] == "the dialect gemini sends it as generationConfig.stopSequences"
    assert reasons["stream"] == "the dialect gemini sends it as the URL"
    assert "stream_options" not in reasons


def test_the_fields_that_a_dialect_adds_are_shown() -> None:
    acme = loaded().workspaces["acme"]
    acme = replace(acme, byok={**acme.byok, "CLAUDE": acme.byok["FOUNDRY"]})
    content = json.dumps(BODY | {"model": "claude/mine"}).encode()
    (attempt,) = explain(call_of(acme), content, lambda *_: UNUSED).attempts
    assert attempt.caps.sent is None
    added = {change.field: change for change in attempt.fields}["max_tokens"]
    assert (added.action, added.source) == ("set", "providers.toml [CLAUDE] dialect")


def test_the_budgets_cap_is_shown_also_where_another_wins() -> None:
    capped = explain_as("capped", BODY | {"model": "dear", "max_tokens": 2}).attempts[0].caps
    assert (capped.client, capped.catalog, capped.sent, capped.won) == (2, 16_384, 2, "client")
    assert capped.budget is not None
    assert 200 < capped.budget < 300
    assert explain_as("plain", BODY | {"model": "dear"}).attempts[0].caps.budget is None


@pytest.mark.parametrize(("asked", "won"), [(30, "client"), (50, "policies"), (None, "policies")])
def test_a_policys_cap_is_shown_also_where_another_wins(asked: int | None, won: str) -> None:
    body = {"messages": [{"role": "user", "content": "short"}], "max_tokens": asked}
    first, second = (attempt.caps for attempt in explain_as("hop", body | {"model": "gpt"}).attempts)
    assert (first.client, first.policies, first.won) == (asked, 40, won)
    assert (second.policies, second.sent, second.won) == (10, 10, "policies")


def test_a_policy_that_fails_is_named() -> None:
    refused = explain_as("plain", {"messages": [{"role": "user", "content": "faulty"}]}).refused
    assert refused is not None
    assert (refused.step, refused.answer.code) == ("policies", "internal_error")
    assert refused.why == 'PolicyFailed: policy "house" raised KeyError'


def test_each_refusal_for_a_budget_names_the_budget() -> None:
    def message(text: str) -> str:
        asked = {"model": "dear", "messages": [{"role": "user", "content": text}]}
        refused = explain_as("broke", asked).refused
        assert refused is not None
        return refused.answer.message

    assert message("hello") == "Insufficient budget for this completion request."
    assert message("x" * 9_000).endswith("the estimated prompt cost exceeds the remaining cap.")


def test_an_unavailable_store_refuses_as_for_a_live_call_with_the_reason() -> None:
    for name in ("plain", "acme"):
        refused = explain_as(name, BODY | {"model": "gpt"}, StoreUnavailable("it is away")).refused
        assert refused is not None
        assert (refused.step, refused.answer.status, refused.why) == ("limits", 503, "it is away")


def test_so_does_a_store_that_fails_while_it_is_read() -> None:
    def read_used(*_: Limit | str) -> CounterUse:
        raise StoreUnavailable("it went away")

    refused = explain_as("capped", BODY, read_used).refused
    assert refused is not None
    assert (refused.step, refused.answer.code) == ("limits", "rate_limit_unavailable")


@pytest.mark.parametrize(
    ("workspace", "model", "why"),
    [
        ("plain", "gpt", "the workspace has no fallback_model"),
        ("hop", "claude", "fallback_model is the same model"),
        ("acme", "own", "safety_net is off"),
        ("net", "foundry/mine", "the Safety Net serves models of the catalog only"),
        ("net", "own-only", "own-only is byok_only, which bars the Safety Net"),
        ("hop", "gpt", None),
        ("net", "own", None),
    ],
)
def test_the_reason_for_no_second_attempt_is_shown(workspace: str, model: str, why: str | None) -> None:
    found = explain_as(workspace, BODY | {"model": model})
    assert found.no_fallback_reason == why
    assert len(found.attempts) == (1 if why else 2)

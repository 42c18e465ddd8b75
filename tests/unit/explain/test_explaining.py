"""Explanations show where each change comes from, what else would be sent, and why a call is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rig.explained import TOOLS
from rig.explanations import UNUSED, call_of, explain_as, loaded

from addon.explain.explaining import explain
from addon.explain.records import make_explanation_record
from addon.explain.sentences import describe_requests, describe_tokens
from addon.store.protocol import StoreUnavailable
from policies.limits import Limit
from policies.model import Budget
from policies.spend import CounterUse

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
            "split",
            {"n": 2, "reasoning_effort": "max", "tools": TOOLS},
            {
                "n": [
                    ("clamped", "families.toml, default of responses.n_limit"),
                    ("dropped", 'models.toml ["split"] dialect'),
                ],
                "reasoning_effort": [("renamed", 'models.toml ["split"] dialect')],
                "messages.name": [("dropped", 'models.toml ["split"] dialect')],
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


@pytest.mark.parametrize(("effort", "dialect"), [("low", "responses"), ("none", "openai")])
def test_it_says_where_a_call_goes_and_why(effort: str, dialect: str) -> None:
    asked = BODY | {"model": "split", "tools": TOOLS, "reasoning_effort": effort}
    explanation = explain_as("plain", asked)
    (record,) = make_explanation_record("plain", "k", explanation, [])["attempts"]
    path = {"responses": "/responses", "openai": "/chat/completions"}[dialect]
    assert (record["dialect"], record["url"]) == (dialect, f"https://provider.example/v1{path}")
    said = [reason for reason in record["reasons"] if reason.startswith("dialect ")]
    rule = 'dialect responses, for calls with tools and reasoning (models.toml ["split"] dialect)'
    assert said == ([rule] if dialect == "responses" else [])


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
    (attempt,) = explain(call_of(acme), content, lambda *_: UNUSED, {}).attempts
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


def test_the_tokens_that_a_call_takes_are_shown() -> None:
    workspace = replace(loaded().workspaces["hop"], tpm=20_000)
    workspace = replace(workspace, keys=(replace(workspace.keys[0], tpm=9_000),))
    content = json.dumps(BODY | {"model": "gpt", "max_tokens": 4_000}).encode()
    found = explain(call_of(workspace), content, lambda *_: UNUSED, {})
    first, second = found.attempts
    assert (found.workspace_tpm, found.key_tpm, found.refused, second.tokens) == (20_000, 9_000, None, None)
    assert first.tokens is not None
    assert 1_000 < first.tokens < 1_500
    said = describe_tokens(found)
    assert said == f"20,000 of the workspace, 9,000 of the key; the call takes {first.tokens:,}"
    assert describe_tokens(explain_as("plain", BODY)) is None


def test_the_rates_of_its_user_and_tags_are_shown() -> None:
    budgets = (Budget("user", None, rpm=20), Budget("tag:team", None, rpm=1_000, tpm=9_000))
    workspace = replace(loaded().workspaces["plain"], budgets=budgets)
    asked = BODY | {"model": "gpt", "max_tokens": 400, "user": "ann", "metadata": {"team": "search"}}
    content = json.dumps(asked).encode()
    found = explain(call_of(workspace), content, lambda *_: UNUSED, {})
    assert found.refused is None
    assert describe_requests(found) == '20 of user "ann", 1,000 of tag:team "search"'
    assert str(describe_tokens(found)).startswith('9,000 of tag:team "search"; the call takes ')
    assert make_explanation_record("plain", "ci", found, ())["budget_rates"] == [
        {"budget": "user", "value": "ann", "unit": "requests", "per_minute": 20},
        {"budget": "tag:team", "value": "search", "unit": "requests", "per_minute": 1_000},
        {"budget": "tag:team", "value": "search", "unit": "tokens", "per_minute": 9_000},
    ]
    assert describe_requests(explain_as("plain", BODY)) is None


def test_a_call_above_a_whole_limit_of_tokens_is_refused() -> None:
    workspace = replace(loaded().workspaces["plain"], tpm=1_000)
    found = explain(call_of(workspace), json.dumps(BODY).encode(), lambda *_: UNUSED, {})
    assert found.refused is not None
    assert (found.refused.step, found.refused.answer.status) == ("limits", 429)
    assert "more than the workspace's limit of 1000 tokens a minute" in found.refused.answer.message


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

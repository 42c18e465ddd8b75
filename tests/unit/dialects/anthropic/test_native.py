"""Requests of the Messages API to Anthropic's models go as their clients wrote them, less what a model refuses."""

import json
from dataclasses import replace

import pytest
from pydantic import SecretStr
from rig.built_requests import active_models
from rig.corpus import needs_corpus
from rig.native_anthropic import read_recordings
from rig.vendors import VENDORS
from rig.vendors.rules import refusal

from addon.dialects.anthropic import native
from addon.dialects.anthropic.native_fields import BETAS
from addon.dialects.content_blocks import REASONING_FORMAT
from addon.dialects.native_request import NativeRequest
from addon.dialects.opaque_reasoning import seal
from addon.text.large_strings import LargeStrings
from policies.hosted_tools import find_search_bound
from policies.refusal import Refusal
from policies.route import Target

MODELS = {model.slug: model for model in active_models() if model.provider.name == "ANTHROPIC"}
BUDGETS, BOTH, ADAPTIVE, ALWAYS = (
    "claude-haiku-4-5",
    "claude-sonnet-4-6",
    "claude-sonnet-5",
    "claude-opus-5-5",
)
HELLO = [{"role": "user", "content": "Hello"}]
BASH = {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a", "is_error": True}
MARK = {"cache_control": {"type": "ephemeral"}}
AGENT = {
    "model": "claude-sonnet-5",
    "max_tokens": 64000,
    "system": [{"type": "text", "text": "You are an agent.", **MARK}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {"role": "system", "content": "The folder is /home."},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB=="}, USE],
        },
        {"role": "user", "content": [{**RESULT, **MARK}]},
        {"role": "system", "content": [{"type": "text", "text": "99 tokens left", **MARK}]},
    ],
    "tools": [BASH, {**BASH, "name": "Later", "defer_loading": True}],
    "metadata": {"user_id": '{"device_id":"1e22","account_uuid":"","session_id":"b8f3"}'},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}


def built(slug=ADAPTIVE, cap=None, body=None, headers=None, hosted=frozenset(), streams=False, **fields):
    given = {"model": "x", "max_tokens": 4000, "messages": HELLO, **fields} if body is None else body
    before = json.dumps(given)
    asked = NativeRequest(given, headers or {})
    target = Target(MODELS[slug], "payg", SecretStr("key"))
    made = native.request(target, asked, cap, streams=streams, hosted_tools=hosted)
    assert json.dumps(given) == before, "the client's body is not written to"
    return made


def sent(*args, **fields):
    return json.loads(built(*args, **fields).content)


def unsent(*args, **fields):
    return built(*args, **fields).unsent_fields


def test_a_request_goes_as_its_client_wrote_it():
    made = built(cap=64000, body=AGENT, streams=True)
    assert json.loads(made.content) == AGENT | {"model": "claude-sonnet-5"}
    assert list(json.loads(made.content)) == list(AGENT)
    assert (made.unsent_fields, made.url) == ((), "https://api.anthropic.com/v1/messages")
    whole = sent(cap=100, body=AGENT)
    assert "stream" not in whole and whole["max_tokens"] == 100


HARD = [
    {},
    {"temperature": 0.5, "top_p": 0.9, "top_k": 5},
    {"thinking": {"type": "enabled", "budget_tokens": 8000}},
    {"thinking": {"type": "enabled", "budget_tokens": 8000}, "temperature": 0.5},
    {"thinking": {"type": "disabled"}, "context_management": None, "output_config": None},
    {"thinking": None, "output_config": {"effort": "max"}},
    {"output_config": {"effort": "xhigh"}},
    {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
    {"speed": "fast", "mcp_servers": [{"name": "a"}], "container": "c", "service_tier": "auto"},
]


@pytest.mark.parametrize("slug", MODELS)
def test_a_strict_vendor_takes_what_is_sent(slug):
    for cap in (64000, 2000, 900):
        for more in HARD:
            body = {name: value for name, value in (AGENT | more).items() if value is not None}
            made = built(slug, cap, body, streams=True)
            assert refusal(VENDORS["ANTHROPIC"], "/v1/messages", made.content) is None, more


def test_a_choice_that_can_not_be_forced_is_refused_by_name():
    with pytest.raises(Refusal, match="claude-opus-5-5 does not take 'any'") as caught:
        built(ALWAYS, tools=[BASH], tool_choice={"type": "any"})
    assert caught.value.param == "tool_choice.type"
    thinking = {"type": "adaptive"}
    made = built(BUDGETS, 9000, AGENT | {"tool_choice": {"type": "any"}, "thinking": thinking})
    assert refusal(VENDORS["ANTHROPIC"], "/v1/messages", made.content) is None
    assert made.unsent_fields == ("thinking", "context_management")


def test_fields_beyond_the_list_are_left_out_and_named():
    more = {"speed": "fast", "mcp_servers": [], "container": "c", "fallbacks": "default", "unknown": 1}
    assert unsent(**more) == ("speed", "mcp_servers", "container", "fallbacks", "unknown")
    assert sent(**more) == {"model": ADAPTIVE, "max_tokens": 4000, "messages": HELLO}
    assert unsent(speed=None) == ()


@pytest.mark.parametrize(("name", "value"), [("compaction", {}), ("inference_geo", "us")])
def test_fields_without_which_the_answer_would_be_another_are_refused(name, value):
    with pytest.raises(Refusal) as caught:
        built(**{name: value})
    assert (caught.value.code, caught.value.param) == ("validation_failed", name)
    assert name not in sent(**{name: None})


@pytest.mark.parametrize(
    ("asked", "cap", "budget", "made"),
    [
        (64000, 64000, 32000, 32000),
        (64000, 40000, 32000, 32000),
        (64000, 32000, 32000, 16000),
        (64000, 2000, 32000, 1024),
        (64000, 1024, 32000, None),
        (8000, 4000, 9000, 9000),  # the client's own fault, or interleaved thinking
    ],
)
def test_a_budget_falls_with_the_cap(asked, cap, budget, made):
    thinking = {"type": "enabled", "budget_tokens": budget}
    result = built(BUDGETS, cap, max_tokens=asked, thinking=thinking)
    body = json.loads(result.content)
    assert body.get("thinking") == (made and {**thinking, "budget_tokens": made})
    assert result.unsent_fields == (("thinking",) if made is None else ())


def test_a_model_outside_the_catalog_gets_what_its_client_wrote():
    fields = {"temperature": 0.5, "top_k": 3, "thinking": {"type": "enabled", "budget_tokens": 3000}}
    messages = [*HELLO, {"role": "system", "content": "Be brief."}]
    asked = NativeRequest({"max_tokens": 4000, "messages": messages, "model": "x", **fields, "new": 1})
    model = replace(MODELS[ADAPTIVE], max_completion_tokens=None)
    target = Target(model, "byok", SecretStr("key"))
    for cap, budget in ((4000, 3000), (2000, 1500), (1000, None)):
        made = native.request(target, asked, cap, streams=False, hosted_tools=frozenset())
        body = json.loads(made.content)
        assert (body["temperature"], body["top_k"], body["messages"]) == (0.5, 3, messages)
        assert body.get("thinking", {}).get("budget_tokens") == budget


def test_edits_of_thinking_go_with_it():
    edits = [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]
    made = built(
        BUDGETS,
        1000,
        thinking={"type": "enabled", "budget_tokens": 2000},
        context_management={"edits": edits, "more": 1},
    )
    assert json.loads(made.content)["context_management"] == {"edits": edits[1:], "more": 1}
    assert made.unsent_fields == ("thinking", "context_management")
    compact = {"edits": [{"type": "compact_20260112"}, *edits, None, "x"]}
    made = built(context_management=compact)
    assert json.loads(made.content)["context_management"] == {"edits": edits}
    assert made.unsent_fields == ("context_management",)


@pytest.mark.parametrize(
    ("slug", "thinking", "effort", "made", "made_effort", "left_out"),
    [
        (BUDGETS, "adaptive", "low", 1024, None, ()),
        (BUDGETS, "adaptive", None, 4096, None, ()),
        (BUDGETS, "enabled", "low", 5000, None, ("output_config.effort",)),
        (BOTH, "enabled", None, 5000, None, ()),
        (BOTH, "adaptive", "xhigh", "adaptive", "high", ()),
        (ADAPTIVE, "enabled", "xhigh", "adaptive", "xhigh", ()),
        (ADAPTIVE, "disabled", None, "disabled", None, ()),
        (ALWAYS, "disabled", None, None, None, ("thinking",)),
        (ADAPTIVE, "between_tools", None, None, None, ("thinking",)),
    ],
)
def test_thinking_has_a_form_that_the_model_takes(slug, thinking, effort, made, made_effort, left_out):
    given = {"type": thinking} | ({"budget_tokens": 5000} if thinking == "enabled" else {})
    config = {"output_config": {"effort": effort}} if effort else {}
    result = built(slug, 64000, max_tokens=64000, thinking=given, **config)
    body = json.loads(result.content)
    found = body.get("thinking")
    assert (found and (found.get("budget_tokens") or found["type"])) == made
    assert body.get("output_config", {}).get("effort") == made_effort
    assert result.unsent_fields == left_out


@pytest.mark.parametrize(
    ("slug", "given", "left_out"),
    [
        (BOTH, {"temperature": 0.5, "top_p": 0.9}, ("top_p",)),
        (BOTH, {"top_p": 0.9, "top_k": 5}, ()),
        (BOTH, {"temperature": 0.5, "top_k": 5, "thinking": {"type": "adaptive"}}, ("temperature", "top_k")),
        (ADAPTIVE, {"temperature": 1, "top_p": 0.9, "top_k": 5}, ("top_p", "top_k")),
        (ADAPTIVE, {"temperature": None}, ()),
    ],
)
def test_sampling_parameters_go_where_the_model_takes_them(slug, given, left_out):
    made = built(slug, **given)
    assert made.unsent_fields == left_out
    body = json.loads(made.content)
    assert {name: body.get(name) for name in given} == {
        name: None if name in left_out else value for name, value in given.items()
    }


def test_system_messages_move_to_the_front_where_a_model_takes_them_only_there():
    body = sent(BUDGETS, 64000, AGENT)
    said = [block["text"] for block in body["system"]]
    assert said == ["You are an agent.", "The folder is /home.", "99 tokens left"]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "Later"}}
    messages = [*HELLO, {"role": "system", "content": [change]}]
    assert unsent(BUDGETS, messages=messages) == ("messages.tool_addition",)
    assert sent(BUDGETS, messages=messages) == sent(BUDGETS)
    assert sent(ADAPTIVE, messages=messages)["messages"] == messages


def test_hosted_tools_are_left_out_unless_they_may_run():
    tools = [
        SEARCH,
        BASH,
        {"type": "code_execution_20250825", "name": "code"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "tool_search_tool_bm25_20251119", "name": "find"},
        {"type": "mcp_toolset", "mcp_server_name": "m"},
    ]
    made = built(tools=tools)
    assert json.loads(made.content)["tools"] == [BASH, tools[3], tools[4]]
    assert made.unsent_fields == (
        "tools.web_search_20250305",
        "tools.code_execution_20250825",
        "tools.mcp_toolset",
    )
    most = MODELS[ADAPTIVE].max_searches
    for uses, bound in ((None, most), (2, 2), (most + 1, most)):
        tool = SEARCH if uses is None else {**SEARCH, "max_uses": uses}
        made = built(tools=[tool], hosted=frozenset({"web_search"}))
        assert json.loads(made.content)["tools"] == [{**SEARCH, "max_uses": bound}]
        assert made.unsent_fields == ()
    other = {**SEARCH, "name": "other", "max_uses": most}
    made = built(tools=[{**SEARCH, "max_uses": most - 1}, other, other], hosted=frozenset({"web_search"}))
    assert [one["max_uses"] for one in json.loads(made.content)["tools"]] == [most - 1, 1]
    assert made.unsent_fields == ("tools.web_search_20250305",)


@pytest.mark.parametrize("bounds", [{"max_tool_calls": 0}, {"max_tool_calls": 1}, {"max_tool_calls": None}])
def test_no_more_searches_are_sent_than_are_held(bounds):
    # Money is held for the body as the client wrote it, so fields of another API count there, too.
    body = {"max_tokens": 4000, "messages": HELLO, "tools": [SEARCH], **bounds}
    hosted, most = frozenset({"web_search"}), MODELS[ADAPTIVE].max_searches
    tools = json.loads(built(body=body, hosted=hosted).content).get("tools", [])
    assert sum(tool["max_uses"] for tool in tools) == find_search_bound(body, hosted, most)


def test_a_choice_goes_with_its_tool():
    choice = {"type": "tool", "name": "web_search"}
    body = sent(tools=[SEARCH], tool_choice=choice)
    assert body.keys().isdisjoint({"tools", "tool_choice"})
    assert unsent(tools=[SEARCH, BASH], tool_choice=choice) == ("tools.web_search_20250305", "tool_choice")
    assert sent(tools=[SEARCH, BASH], tool_choice={"type": "auto"})["tool_choice"] == {"type": "auto"}


def assistant(*blocks):
    return [*HELLO, {"role": "assistant", "content": list(blocks)}, {"role": "user", "content": [RESULT]}]


def content_of(messages, **fields):
    return sent(messages=messages, **fields)["messages"]


OURS = [{"type": "reasoning.text", "signature": "sig", "format": REASONING_FORMAT, "index": 0}]
THEIRS = [{"type": "reasoning.encrypted", "data": "gAAA", "format": "openai-responses-v1", "index": 0}]


def test_sealed_thinking_is_restored_or_left_out():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": seal(OURS)}
    assert content_of(assistant(thought, USE))[1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        USE,
    ]
    hidden = {"type": "redacted_thinking", "data": seal([{**OURS[0], "text": "Hm."}])}
    assert content_of(assistant(hidden, USE))[1]["content"][0]["signature"] == "sig"
    for foreign in (seal(THEIRS), seal([]), "tg1.broken", "", None):
        messages = assistant({**thought, "signature": foreign}, USE)
        assert content_of(messages)[1]["content"] == [USE]
        assert unsent(messages=messages) == ("messages.thinking",)
    alone = [*HELLO, {"role": "assistant", "content": [{**thought, "signature": seal(THEIRS)}]}, *HELLO]
    assert content_of(alone) == [*HELLO, *HELLO]


def test_a_budget_needs_thinking_at_the_beginning_of_an_open_turn():
    budget = {"type": "enabled", "budget_tokens": 2000}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": seal(THEIRS)}
    made = built(BUDGETS, messages=assistant(thought, USE), thinking=budget)
    assert "thinking" not in json.loads(made.content)
    assert made.unsent_fields == ("messages.thinking", "thinking")


def test_ids_of_other_providers_are_accepted_ones_in_call_and_result():
    use, result = {**USE, "id": "functions.Bash:0"}, {**RESULT, "tool_use_id": "functions.Bash:0"}
    _, asked, answered = content_of(
        [
            *HELLO,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
    )
    made = asked["content"][0]["id"]
    assert made.startswith("call_") and answered["content"][0]["tool_use_id"] == made


@pytest.mark.parametrize(
    ("user", "sent_user"), [("a-b-c", "a-b-c"), ("me@example.com", None), ("+41 44 123 45 67", None)]
)
def test_no_personal_data_is_sent_as_the_user(user, sent_user):
    made = built(metadata={"user_id": user, "team": "x"})
    found = json.loads(made.content)["metadata"]
    assert found["user_id"] == (sent_user or found["user_id"]) and (
        sent_user or user not in made.content.decode()
    )
    assert list(found) == ["user_id"] and made.unsent_fields == ("metadata.team",)
    assert "metadata" not in sent(metadata={"user_id": None})


def header(made, name):
    return dict(made.headers).get(name)


def test_known_beta_names_pass():
    asked = "context-management-2025-06-27, mcp-client-2025-11-20,  effort-2025-11-24,made-up"
    made = built(headers={"anthropic-beta": asked})
    assert header(made, "anthropic-beta") == "context-management-2025-06-27,effort-2025-11-24"
    assert header(made, "anthropic-version") == "2023-06-01"
    assert header(built(), "anthropic-beta") is None
    assert built(headers={"anthropic-beta": asked}).headers == made.headers


def test_no_beta_that_costs_or_stores_passes():
    words = ("mcp", "fast", "files", "skills", "fallback", "container", "code-execution", "thread", "compact")
    assert not [name for name in BETAS if any(word in name for word in words)]


def test_a_long_text_stays_a_mark():
    text = json.dumps({"max_tokens": 5, "messages": [{"role": "user", "content": "x" * 9000}]}).encode()
    start = text.index(b"xxx")
    cut = LargeStrings(text, [(start, start + 9000)])
    body = json.loads(cut.skeleton())
    (turn,) = body["messages"]
    turn["content"] = cut.find(turn["content"])
    content = cut.restore(built(body=body).content)
    assert json.loads(content)["messages"][0]["content"] == "x" * 9000


@needs_corpus
def test_recorded_requests_are_sent_as_they_are():
    plain = 0
    for record in read_recordings():
        given = record["request"]
        if not given or record["status"] != 200 or {"mcp_servers", "anthropic_version"} & given.keys():
            continue
        made = built(BOTH, body=given, streams=record["stream"], hosted=frozenset({"web_search"}))
        wanted = {**given, "model": "claude-sonnet-4-6"}
        wanted |= {"stream": True} if record["stream"] else {}
        body = json.loads(made.content)
        for name in (*made.unsent_fields, "stream", "tools"):
            wanted.pop(name.partition(".")[0], None)
            body.pop(name.partition(".")[0], None)
        assert body == wanted, record["id"]
        plain += not made.unsent_fields
    assert plain > 60

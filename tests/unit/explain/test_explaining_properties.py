"""Explanations agree with the decisions for any request, and show exactly what would be sent."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig import explained
from rig.explanations import NOW, call_of, explain_as, loaded

from addon.apis.chat.request import parse_chat_request
from addon.dialects import DIALECTS
from addon.explain.explaining import explain
from policies.completion_cap import find_completion_cap
from policies.field_rules import count_choices
from policies.limits import limits_of
from policies.model import Workspace
from policies.model_names import ModelNames
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.routing import choose_route
from policies.sanitize import sanitize
from policies.spend import NOT_METERED, CounterUse, Denial, compute_max_cost, make_denial_refusal, place_hold


def refusal_by_the_decisions(
    workspace: Workspace, content: bytes, used: CounterUse
) -> tuple[str, str] | None:
    """Return the code and message of the first attempt's refusal, from the pure functions alone."""
    try:
        chat = parse_chat_request(content)
        asked = RequestFacts(chat.model, chat.fields)
        target = choose_route(asked, workspace, ModelNames(loaded().models), loaded().providers).targets[0]
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


@given(name=st.sampled_from(explained.NAMES), request=requests, used=standings)
def test_an_explanation_agrees_with_the_decisions_and_sends_the_body_that_it_shows(
    name: str, request: dict[str, Any], used: CounterUse
) -> None:
    content = json.dumps(request).encode()
    workspace = loaded().workspaces.get(name) or loaded().workspaces["plain"]
    found = explain(call_of(workspace), content, lambda *_: used, {})
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


@given(
    content=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_get_an_explanation(content: bytes) -> None:
    refused = explain_as("plain", content).refused
    assert refused is not None
    assert (refused.step, refused.answer.status) == ("body", 400)

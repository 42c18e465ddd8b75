"""Requests of the Responses API on the native way: as their client wrote them, but for a few rules."""

import json
from typing import Any

import pytest
from pydantic import SecretStr
from rig.corpus import needs_corpus, read_corpus

from addon.dialects.native_request import NativeRequest
from addon.dialects.opaque_reasoning import seal
from addon.dialects.responses import native
from addon.dialects.responses.native_fields import FIELDS
from policies.family import EFFORT, Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

PRICES = Prices(1, 1, 1)
PLAIN = Family("plain", extra=frozenset({EFFORT, "verbosity"}))
SEARCH = {"type": "web_search"}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None}
OWN = "openai-responses-v1"


def target(family: Family = PLAIN, *, listed: bool = True) -> Target:
    provider = Provider("P", "https://p.example/v1", "responses", ())
    cap = 100_000 if listed else None
    model = Model("slug", provider, "upstream-1", family, PRICES, PRICES, cap, False, True, max_searches=5)
    return Target(model, "payg", SecretStr("key-1"))


def send(
    given: dict[str, Any],
    family: Family = PLAIN,
    *,
    cap: int | None = 500,
    streams: bool = False,
    hosted: frozenset[str] = frozenset(),
    listed: bool = True,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the body that is sent, and the names of what is not."""
    asked = NativeRequest({"model": "slug", "input": "hi", **given})
    made = native.request(target(family, listed=listed), asked, cap, streams=streams, hosted_tools=hosted)
    assert made.url == "https://p.example/v1/responses"
    return json.loads(made.content), made.unsent_fields


def test_the_gateway_sets_model_cap_stream_and_store_and_nothing_else():
    given = {"store": True, "stream": True, "max_output_tokens": 9_000, "metadata": {"a": "b"}, "top_p": None}
    body, unsent = send(given, streams=True)
    assert body == {
        "input": "hi",
        "metadata": {"a": "b"},
        "top_p": None,
        "model": "upstream-1",
        "store": False,
        "max_output_tokens": 500,
        "stream": True,
    }
    assert unsent == ()


def test_a_cap_is_never_below_what_the_api_takes():
    assert send({}, cap=3)[0]["max_output_tokens"] == 16
    assert "max_output_tokens" not in send({}, cap=None)[0]


def test_fields_that_are_not_listed_are_named():
    given = {"background": False, "prompt": {"id": "p"}, "conversation": None, "seed": 1}
    body, unsent = send(given)
    assert body.keys() == {"model", "input", "store", "max_output_tokens"}
    assert unsent == ("prompt", "seed")


def test_options_of_a_stream_go_only_with_one():
    options = {"stream_options": {"include_obfuscation": False}}
    assert send(options, streams=True)[0]["stream_options"] == options["stream_options"]
    assert "stream_options" not in send(options)[0]


# --- tools -------------------------------------------------------------------------------------------------------

CLIENTS = [
    FUNCTION,
    {"type": "custom", "name": "patch", "format": {"type": "text"}},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "tool_search", "execution": "client"},
    {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION]},
]


def test_tools_of_the_client_pass():
    assert send({"tools": CLIENTS}) == (send({})[0] | {"tools": CLIENTS}, ())


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search"},
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "s", "server_url": "https://s.example"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "image_generation"},
        {"type": "computer_use_preview"},
        {"type": "x_search"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "shell"},
    ],
)
def test_tools_that_the_provider_runs_are_left_out_and_named(tool: dict[str, Any]):
    body, unsent = send({"tools": [FUNCTION, tool], "tool_choice": "required"})
    assert (body["tools"], body["tool_choice"]) == ([FUNCTION], "required")
    assert unsent == (f"tools.{tool['type']}",)


def test_hosted_tools_inside_others_and_in_items_are_left_out_too():
    space = {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION, SEARCH]}
    item = {"type": "additional_tools", "role": "developer", "tools": [SEARCH, FUNCTION]}
    allowed = frozenset({"web_search"})
    body, unsent = send({"tools": [space], "input": [item]}, hosted=allowed)
    assert body["tools"][0]["tools"] == body["input"][0]["tools"] == [FUNCTION]
    assert unsent == ("tools.web_search",)
    assert "max_tool_calls" not in body


@pytest.mark.parametrize(("asked", "sent"), [(None, 5), (3, 3), (99, 5)])
def test_allowed_searches_get_a_bound(asked: int | None, sent: int):
    body, unsent = send({"tools": [SEARCH], "max_tool_calls": asked}, hosted=frozenset({"web_search"}))
    assert (body["tools"], body["max_tool_calls"], unsent) == ([SEARCH], sent, ())


@pytest.mark.parametrize(
    ("tools", "choice", "sent", "unsent"),
    [
        ([SEARCH], "auto", None, ("tools.web_search",)),
        ([SEARCH], "required", None, ("tools.web_search", "tool_choice")),
        ([SEARCH, FUNCTION], SEARCH, None, ("tools.web_search", "tool_choice")),
        ([SEARCH, FUNCTION], {"type": "function", "name": "f"}, {"type": "function", "name": "f"}, None),
        ([SEARCH, FUNCTION], {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH]}, None, None),
        (
            [SEARCH, FUNCTION],
            {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH, {"type": "function", "name": "f"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            ("tools.web_search", "tool_choice"),
        ),
    ],
)
def test_a_choice_of_a_tool_that_is_not_sent_is_left_out(
    tools: list[Any], choice: Any, sent: Any, unsent: tuple[str, ...] | None
):
    body, names = send({"tools": tools, "tool_choice": choice})
    assert body.get("tool_choice") == sent
    assert unsent is None or names == unsent


# --- reasoning ---------------------------------------------------------------------------------------------------


def reasoning(encrypted: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted, **more}


def test_reasoning_that_was_sealed_here_is_restored_or_left_out():
    own = {"type": "reasoning.encrypted", "data": "theirs", "format": OWN, "id": "rs_0"}
    foreign = {"type": "reasoning.text", "text": "Hm", "signature": "s", "format": "anthropic-claude-v1"}
    message = {"role": "user", "content": "hi"}
    items = [reasoning(seal([foreign, own])), reasoning(seal([foreign])), reasoning("native"), message]
    body, unsent = send({"input": items})
    restored = {"type": "reasoning", "summary": [], "encrypted_content": "theirs"}
    assert body["input"] == [restored, items[2], message]
    assert unsent == ("input.reasoning",)


def test_a_broken_text_of_ours_is_left_out():
    body, unsent = send({"input": [reasoning("tg1.!!!")]})
    assert (body["input"], unsent) == ([], ("input.reasoning",))


def test_reasoning_that_nothing_is_stored_of_is_left_out():
    """Only its text, or what is encrypted, can come back where nothing is kept."""
    raw = reasoning(None, content=[{"type": "reasoning_text", "text": "Hm"}])
    body, unsent = send({"input": [reasoning(None), raw]})
    del raw["id"]
    assert (body["input"], unsent) == ([raw], ("input.reasoning",))


def test_a_client_that_expects_the_provider_to_keep_its_reasoning_gets_it():
    unseen = Family("unseen", extra=PLAIN.extra, reasons_unseen=True)
    sealed = "reasoning.encrypted_content"
    assert send({}, unseen)[0]["include"] == [sealed]
    assert send({"include": ["x"]}, unseen)[0]["include"] == ["x", sealed]
    assert send({"include": [sealed]}, unseen)[0]["include"] == [sealed]
    assert "include" not in send({"store": False}, unseen)[0]
    assert "include" not in send({})[0]


# --- what a model refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "given", "sent", "unsent"),
    [
        (Family("a", drops=frozenset({"temperature"})), {"temperature": 1}, {}, ("temperature",)),
        (Family("a", drops=frozenset({"temperature"})), {"temperature": None}, {}, ()),
        (
            Family("a", clamps={"temperature": (0, 1)}),
            {"temperature": 2},
            {"temperature": 1},
            ("temperature",),
        ),
        (
            Family("a", extra=PLAIN.extra, conflicts={EFFORT: frozenset({"top_p"})}),
            {"top_p": 0.5, "reasoning": {"effort": "low"}},
            {"reasoning": {"effort": "low"}},
            ("top_p",),
        ),
        (
            Family("a", extra=PLAIN.extra, conflicts={EFFORT: frozenset({"top_p"})}),
            {"top_p": 0.5, "reasoning": {"effort": "none"}},
            {"top_p": 0.5, "reasoning": {"effort": "none"}},
            (),
        ),
        (
            Family("a", drops=frozenset({"logprobs"})),
            {"include": ["message.output_text.logprobs"]},
            {"include": []},
            ("include",),
        ),
        (
            Family("no reasoning"),
            {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]},
            {"include": []},
            ("reasoning", "include"),
        ),
        (
            Family("no choice of effort", reasons_unseen=True),
            {"reasoning": {"effort": "low", "summary": "auto"}, "store": False},
            {"reasoning": {"summary": "auto"}},
            ("reasoning.effort",),
        ),
        (Family("a"), {"text": {"verbosity": "low"}}, {"text": {}}, ("text.verbosity",)),
        (
            Family("a", extra=PLAIN.extra, values={EFFORT: {"max": "high"}}),
            {"reasoning": {"effort": "max", "summary": "auto"}},
            {"reasoning": {"effort": "high", "summary": "auto"}},
            ("reasoning.effort",),
        ),
    ],
)
def test_what_the_family_refuses_is_left_out(
    family: Family, given: dict[str, Any], sent: dict[str, Any], unsent: tuple[str, ...]
):
    body, names = send(given, family)
    assert {name: value for name, value in body.items() if name in FIELDS - {"input"}} == sent
    assert names == unsent


def test_a_model_outside_the_catalog_gets_what_its_client_wrote():
    given = {"temperature": 1, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}
    family = Family("a", drops=frozenset({"temperature"}), reasons_unseen=True)
    body, unsent = send(given, family, listed=False)
    assert given.items() <= body.items()
    assert (unsent, "include" in body) == ((), False)


# --- recordings --------------------------------------------------------------------------------------------------

SET = {"model", "store", "stream", "max_output_tokens"}


def with_bare_ids(items: Any, given: Any) -> Any:
    """Return the items that are sent with the ids of reasoning that was shown, which do not go."""
    if not isinstance(items, list):
        return items
    ids = {json.dumps(one.get("content")): one["id"] for one in given if one.get("id") and one.get("content")}
    return [
        {**item, "id": ids[json.dumps(item["content"])]}
        if item.get("type") == "reasoning" and item.get("content") and "id" not in item
        else item
        for item in items
    ]


@needs_corpus
def test_a_recorded_request_goes_as_it_was_written():
    changed = 0
    for record in read_corpus("openai_responses"):
        given = record["request"]
        if not given or record["status"] != 200 or "input" not in given:
            continue
        body, unsent = send(given, streams=record["stream"], listed=False)
        body["input"] = with_bare_ids(body["input"], given["input"])
        kept = {name: value for name, value in body.items() if name not in SET}
        says_nothing = {name for name, value in given.items() if name not in FIELDS and not value}
        wrote = {name: value for name, value in given.items() if name not in SET | says_nothing}
        is_same = kept == wrote
        assert is_same == (not unsent), record["id"]
        changed += not is_same
        names = {name.partition(".")[0] for name in unsent}
        assert names <= {"tools", "tool_choice", "input", *(wrote.keys() - FIELDS)}, record["id"]
        assert {name: wrote[name] for name in kept if name not in names} == {
            name: value for name, value in kept.items() if name not in names
        }, record["id"]
    assert changed > 0

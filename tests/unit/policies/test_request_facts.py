"""The facts of a request that routing uses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.request_facts import MAX_RULE_CHARS, RequestFacts, find_native_rare_kinds, text_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def said(role: str, content: Any = None) -> dict[str, Any]:
    return {"role": role, "content": content}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("messages", "last_user_text"),
    [
        ([said("user", "one")], "one"),
        ([said("user", "one"), said("user", "two"), said("assistant", "three")], "two"),
        ([said("user", "one"), said("user")], ""),
        ([said("system", "one")], ""),
        ([said("user", [text("one"), IMAGE, text("two")])], "one\ntwo"),
        ([said("user", [{"type": "input_text", "text": "one"}, {"type": "other", "text": "two"}])], "one"),
        ([said("user", "x" * (MAX_RULE_CHARS + 1))], "x" * MAX_RULE_CHARS),
        ([said("user", [text("x" * MAX_RULE_CHARS), text("y")])], "x" * MAX_RULE_CHARS),
    ],
)
def test_the_text_is_that_of_the_last_user_message(messages: list[Any], last_user_text: str) -> None:
    assert RequestFacts(None, {"messages": messages}).last_user_text == last_user_text


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, (False, False, False)),
        ({"messages": [said("system", [IMAGE]), said("user", "hi")]}, (True, False, False)),
        ({"tools": [{"type": "function"}]}, (False, True, False)),
        ({"tools": []}, (False, False, False)),
        ({"response_format": {"type": "json_object"}}, (False, False, True)),
        ({"response_format": {"type": "json_schema"}}, (False, False, True)),
        ({"response_format": {"type": "text"}}, (False, False, False)),
    ],
)
def test_images_tools_and_json_are_facts(fields: dict[str, Any], facts: tuple[bool, bool, bool]) -> None:
    found = RequestFacts("m", {"messages": [said("user", "hi")], **fields})
    assert (found.has_images, found.has_tools, found.wants_json) == facts
    assert found.model == "m"


def test_the_prompt_is_estimated_once_when_it_is_asked_for() -> None:
    fields: dict[str, Any] = {"messages": [said("user", "hi")]}
    found = RequestFacts(None, fields)
    fields["messages"].append(said("user", "x" * 10_000))
    first = found.prompt_tokens
    fields["messages"].append(said("user", "x" * 10_000))
    assert found.prompt_tokens == first > 2_000


def test_a_text_without_content_is_empty() -> None:
    assert text_of(None) == text_of("") == text_of([]) == ""


KEPT = {"type": "ephemeral", "ttl": "1h"}
KEPT_USUALLY = {"type": "ephemeral", "ttl": "5m"}


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"messages": [said("user", "hi"), said("assistant")]}, set()),
        ({"messages": [said("user", [text("hi"), IMAGE])]}, {"image_input"}),
        ({"messages": [said("user", [{"type": "input_audio"}])]}, {"audio_input", "cached_audio_input"}),
        (
            {"messages": [said("user", [{"type": "file"}])]},
            {"image_input", "audio_input", "cached_audio_input"},
        ),
        ({"messages": [said("user", [{"type": 5}, {"text": "no type"}])]}, set()),
        ({"messages": [said("user", [text("hi") | {"cache_control": KEPT}])]}, {"cache_write_1h"}),
        ({"messages": [said("user", "hi") | {"cache_control": KEPT}]}, {"cache_write_1h"}),
        ({"messages": [said("user", [text("hi") | {"cache_control": KEPT_USUALLY}])]}, set()),
        (
            {"messages": [said("assistant") | {"tool_calls": [{"cache_control": KEPT}]}]},
            {"cache_write_1h"},
        ),
        ({"messages": [], "cache_control": KEPT}, {"cache_write_1h"}),
        ({"messages": [], "tools": [{"cache_control": KEPT}]}, {"cache_write_1h"}),
        ({"messages": [], "tools": [{"function": {"cache_control": KEPT}}]}, {"cache_write_1h"}),
        ({"messages": [], "tools": [{"function": {"cache_control": {}}}]}, set()),
    ],
)
def test_the_kinds_of_tokens_that_a_prompt_may_have(fields: dict[str, Any], kinds: set[str]) -> None:
    assert RequestFacts(None, fields).rare_kinds == kinds


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ({"messages": [said("user", "hi")], "system": "x", "tools": None}, set()),
        ({"input": "hi"}, set()),
        ({"messages": [], "cache_control": KEPT}, {"cache_write_1h"}),
        ({"messages": [], "system": [text("x") | {"cache_control": KEPT}]}, {"cache_write_1h"}),
        ({"messages": [], "tools": [{"type": "memory_1", "cache_control": KEPT}]}, {"cache_write_1h"}),
        ({"messages": [said("user", [text("x") | {"cache_control": KEPT_USUALLY}])]}, set()),
        (
            {"messages": [said("user", [{"type": "tool_result", "content": [{"type": "image"}]}])]},
            {"image_input"},
        ),
        (
            {"messages": [said("user", [{"type": "document", "source": {"content": [{"cache_control": KEPT}]}}])]},
            {"image_input", "audio_input", "cached_audio_input", "cache_write_1h"},
        ),
        ({"input": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]}, {"image_input"}),
    ],
)  # fmt: skip
def test_the_kinds_of_tokens_that_a_request_of_another_api_may_have(
    body: dict[str, Any], kinds: set[str]
) -> None:
    assert find_native_rare_kinds(body) == kinds


PARTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "input_text", "image_url"]), "text": st.text(max_size=6)}
    ),
    max_size=6,
)


@given(parts=PARTS, max_chars=st.integers(0, 20))
def test_the_first_characters_of_a_text_in_parts_are_those_of_the_whole(
    parts: list[dict[str, str]], max_chars: int
) -> None:
    assert text_of(parts, max_chars) == text_of(parts)[:max_chars]

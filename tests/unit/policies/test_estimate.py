"""Token estimates: everything in a prompt counts, media have rules of their own, and no body makes them fail."""

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.estimate import estimate_completion_tokens, estimate_native_tokens, estimate_prompt_tokens
from policies.family import RESERVED, Estimator
from policies.media import UNSEEN_TOKENS

TEXT_ONLY = Estimator(base_tokens=0, tokens_per_message=0, tools_tokens=0)
FRAMES = Estimator(base_tokens=10, tokens_per_message=3, tools_tokens=200, tokens_per_image=1_000)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["text", "image_url", "image", "input_audio", "file", "document", "video_url", "new"])
parts = st.builds(
    lambda extra, kind: extra | {"type": kind},
    st.dictionaries(
        st.sampled_from(["text", "image_url", "input_audio", "file", "image", "source"]), json_values
    ),
    kinds,
)
calls = st.builds(
    lambda name, arguments, extra: {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        "extra": extra,
    },
    st.text(min_size=1),
    st.none() | st.text(),
    json_values,
)
messages = st.builds(
    lambda role, content, called, extra: extra | {"role": role, "content": content, "tool_calls": called},
    st.text(min_size=1),
    st.none() | st.text() | st.lists(parts, max_size=3),
    st.none() | st.lists(calls, max_size=2),
    st.dictionaries(st.text(), json_values, max_size=2),
)
tools = st.dictionaries(st.text(), json_values, max_size=3).map(lambda tool: tool | {"type": "custom"})
bodies = st.fixed_dictionaries(
    {"messages": st.lists(messages, min_size=1, max_size=4)},
    optional={
        "tools": st.lists(tools, max_size=3),
        "tool_choice": st.just("auto") | st.dictionaries(st.text(), json_values, max_size=2),
        "response_format": st.dictionaries(st.text(), json_values, max_size=2),
        "temperature": st.floats(0, 2),
    },
)


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def with_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [part]}]}


@given(bodies)
def test_a_body_of_any_shape_is_estimated(fields: dict[str, Any]) -> None:
    assert estimate_prompt_tokens(fields, FRAMES) >= FRAMES.base_tokens + 3 * len(fields["messages"])


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(text: str, more: str) -> None:
    short, long = (estimate_prompt_tokens(says(one), FRAMES) for one in (text, text + more))
    assert short <= long


@given(st.lists(messages, min_size=1, max_size=3), st.lists(messages, min_size=1, max_size=3))
def test_two_prompts_in_one_cost_the_same_as_apart_except_for_the_base(first: Any, second: Any) -> None:
    one, other = (estimate_prompt_tokens({"messages": some}, FRAMES) for some in (first, second))
    both = estimate_prompt_tokens({"messages": [*first, *second]}, FRAMES)
    assert both <= one + other - FRAMES.base_tokens <= both + 1


@given(bodies, st.sampled_from(["base_tokens", "tokens_per_message", "tools_tokens", "tokens_per_image"]))
def test_a_larger_coefficient_never_makes_an_estimate_smaller(fields: dict[str, Any], name: str) -> None:
    larger = replace(FRAMES, **{name: getattr(FRAMES, name) + 7})
    assert estimate_prompt_tokens(fields, larger) >= estimate_prompt_tokens(fields, FRAMES)


@given(st.text(), st.integers(1, 40))
def test_text_in_parts_is_text(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    content = [{"type": "text", "text": piece} for piece in pieces]
    whole = estimate_prompt_tokens(says(text), TEXT_ONLY)
    cut = estimate_prompt_tokens({"messages": [{"role": "user", "content": content}]}, TEXT_ONLY)
    assert cut == whole


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("four letters and more", 6.25),
        ("GmbH 2026", 1.5 + 6),
        ("[1,2]\n\t", 1 + 7),
        ("größe", 3 / 4 + 4 / 1.5 + 1),
        ("漢字", 6 / 1.5 + 1),
        ("🎉", 4 / 1.5 + 1),
    ],
)
def test_letters_marks_and_other_bytes_have_their_own_weights(text: str, tokens: float) -> None:
    assert tokens <= estimate_prompt_tokens(says(text), TEXT_ONLY) < tokens + 1


ONLY_MARKS = replace(TEXT_ONLY, letters_per_token=1e9, marks_per_token=0.01, other_bytes_per_token=1e9)


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        ({}, 2),
        ([], 2),
        ({"a": {}}, 2 + 4 + 2),
        ({"a": "b"}, 2 + 4 + 2),
        ({"a": {}, "b": {}}, 2 + 8 + 4),
        ([[], []], 2 + 2 + 4),
        ([["a"]], 2 + 1 + 2 + 1 + 2),
    ],
)
def test_the_marks_of_json_count(value: Any, marks: int) -> None:
    without = estimate_prompt_tokens({"messages": []}, ONLY_MARKS)
    found = estimate_prompt_tokens({"messages": [], "tool_choice": value}, ONLY_MARKS)
    assert found - without == pytest.approx(100 * marks, abs=1)


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("chars", [1_000, 65_535, 65_536, 65_537, 200_000])
def test_long_texts_count_in_full_wherever_they_are_cut(count: int, chars: int) -> None:
    letters = replace(TEXT_ONLY, letters_per_token=1, marks_per_token=1e9)
    without, with_texts = (
        [
            {"messages": [{"role": "", "content": [{"type": "", "text": text}] * count}]},
            {"messages": [], "tools": [{"description": text}] * count},
            {"messages": [], "tool_choice": [text] * count},
        ]
        for text in ("", "x" * chars)
    )
    for shorter, longer in zip(without, with_texts, strict=True):
        found = estimate_prompt_tokens(longer, letters) - estimate_prompt_tokens(shorter, letters)
        assert found == pytest.approx(count * chars, abs=1)


LONG = "a word or two " * 30
WITHOUT: dict[str, Any] = {"messages": [{"role": "assistant", "content": "Yes."}]}


@pytest.mark.parametrize(
    "member",
    [
        {"name": LONG},
        {"reasoning_content": LONG},
        {"tool_call_id": LONG},
        {"refusal": LONG},
        {"reasoning_details": [{"type": "reasoning.text", "text": LONG}]},
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": LONG}}]},
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": LONG}}]},
        {"tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f", "input": LONG}}]},
        {"tool_calls": [{"id": "1", "type": "function", "extra_content": {"google": {"signature": LONG}}}]},
        {"content": [{"type": "thinking", "thinking": LONG}]},
        {"content": [{"type": "unheard of", "elsewhere": {"deep": [LONG]}}]},
    ],
    ids=lambda member: "-".join(member),
)
def test_every_member_of_a_message_counts(member: dict[str, Any]) -> None:
    fields = {"messages": [WITHOUT["messages"][0] | member]}
    assert estimate_prompt_tokens(fields, TEXT_ONLY) > len(LONG) / 4


@pytest.mark.parametrize("name", ["tools", "tool_choice", "response_format"])
def test_fields_next_to_the_messages_count(name: str) -> None:
    value: Any = {"type": "function", "function": {"name": "f", "description": LONG}}
    fields = WITHOUT | {name: [value] if name == "tools" else value}
    assert estimate_prompt_tokens(fields, TEXT_ONLY) > len(LONG) / 4


def test_tools_and_a_response_format_cost_their_overhead_once() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    plain, one, both = (
        estimate_prompt_tokens(WITHOUT | more, replace(TEXT_ONLY, tools_tokens=1_000))
        for more in ({}, {"tools": [tool]}, {"tools": [tool], "response_format": {"type": "json_object"}})
    )
    assert plain < 1_000 <= one < both < 2_000
    only_format = WITHOUT | {"response_format": {"type": "json_object"}}
    assert estimate_prompt_tokens(only_format, replace(TEXT_ONLY, tools_tokens=1_000)) >= 1_000
    assert estimate_prompt_tokens(WITHOUT | {"tools": []}, replace(TEXT_ONLY, tools_tokens=1_000)) == plain


def test_a_tool_call_counts_like_a_message() -> None:
    call = {"id": "", "type": "", "function": {"name": "", "arguments": ""}}
    estimator = replace(TEXT_ONLY, tokens_per_message=100)
    bare, calling = (
        estimate_prompt_tokens({"messages": [{"role": "", "tool_calls": called}]}, estimator)
        for called in ([], [call, call])
    )
    assert (bare, calling) == (100, 300)


def data_url(media_type: str, size_bytes: int) -> str:
    return f"data:{media_type};base64,{base64.b64encode(bytes(size_bytes)).decode()}"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": LONG}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}, "note": {"deep": [LONG]}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", LONG: 1}},
        {"type": "input_audio", "input_audio": {"format": "wav", "data": "AAAA", "transcript": LONG}},
        {"type": "document", "source": {"data": "AAAA"}, "context": LONG},
        {"type": "text", "text": "", LONG: 1},
        {"type": "text", "text": "", "numbers": [1_000] * 200},
    ],
)
def test_fields_of_a_part_next_to_its_data_count(part: dict[str, Any]) -> None:
    bare = {name: {} if name == "source" else value for name, value in part.items() if name == "type"}
    plain = estimate_prompt_tokens(with_part(bare), TEXT_ONLY)
    assert estimate_prompt_tokens(with_part(part), TEXT_ONLY) > plain + len(LONG) / 4


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": data_url("image/png", 2_000_000)}},
        {"type": "image_url", "image_url": "https://example.com/a.png"},
        {"type": "image", "source": {"type": "base64", "data": "A" * 2_000_000}},
        {"type": "input_image", "image_url": data_url("IMAGE/PNG", 2_000_000)},
    ],
)
def test_an_image_of_any_size_costs_the_same(part: dict[str, Any]) -> None:
    assert 777 < estimate_prompt_tokens(with_part(part), replace(TEXT_ONLY, tokens_per_image=777)) <= 777 + 40


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "file", "file": {"file_data": data_url("application/pdf", 300_000)}}, 300_000),
        ({"type": "document", "source": {"data": "A" * 400_000}}, 300_000),
        ({"type": "image_url", "image_url": {"url": data_url("application/pdf", 300_000)}}, 300_000),
        ({"type": "input_audio", "input_audio": {"format": "wav", "data": "A" * 4_000_000}}, 12_000),
        ({"type": "input_audio", "input_audio": {"format": "mp3", "data": "A" * 4_000_000}}, 130_434),
        ({"type": "input_audio", "input_audio": {"format": ["odd"], "data": "A" * 4_000_000}}, 130_434),
        ({"type": "file", "file": {"file_id": "file-1"}}, UNSEEN_TOKENS),
        ({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, UNSEEN_TOKENS),
        ({"type": "input_audio", "input_audio": None}, UNSEEN_TOKENS),
    ],
)
def test_sound_and_files_are_estimated_by_their_size(part: dict[str, Any], tokens: int) -> None:
    assert tokens <= estimate_prompt_tokens(with_part(part), TEXT_ONLY) <= tokens + 50


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_an_answers_estimate_grows_with_its_text_from_zero(chars: int, more: int) -> None:
    estimator = Estimator()
    assert estimate_completion_tokens(0, estimator) == 0
    assert estimate_completion_tokens(chars, estimator) <= estimate_completion_tokens(chars + more, estimator)
    assert estimate_completion_tokens(chars, estimator) * 4 >= chars


@pytest.mark.parametrize(
    "value",
    [
        LONG,
        {"deep": [{"er": LONG}]},
        {LONG: None},
        [1_000] * 200,
        dict.fromkeys(map(str, range(200)), True),
    ],
    ids=["text", "nested", "name", "numbers", "flags"],
)
def test_an_unknown_field_counts(value: Any) -> None:
    plain = estimate_prompt_tokens(WITHOUT, TEXT_ONLY)
    assert estimate_prompt_tokens(WITHOUT | {"unheard_of": value}, TEXT_ONLY) >= plain + len(LONG) // 4


def test_fields_that_the_gateway_sets_do_not_count() -> None:
    ours = dict.fromkeys(RESERVED, LONG)
    assert estimate_prompt_tokens(WITHOUT | ours, TEXT_ONLY) == estimate_prompt_tokens(WITHOUT, TEXT_ONLY)


# --- native bodies -------------------------------------------------------------------------------------------------

PICTURE = "data:image/png;base64," + "A" * 100_000
SHOWN: dict[str, Any] = {
    "of a user": {"role": "user", "content": [{"type": "image", "source": {"data": PICTURE}}]},
    "in a tool's result": {
        "role": "user",
        "content": [{"type": "tool_result", "content": [{"type": "image", "source": {"data": PICTURE}}]}],
    },
    "in a document": {
        "role": "user",
        "content": [
            {
                "type": "document",
                "source": {
                    "type": "content",
                    "content": [{"type": "image", "source": {"data": PICTURE}}],
                },
            }
        ],
    },
    "of a screen": {
        "type": "computer_call_output",
        "output": {"type": "computer_screenshot", "image_url": PICTURE},
    },
    "of code": {"type": "code_interpreter_call", "outputs": [{"type": "image", "url": PICTURE}]},
    "that a model made": {"type": "image_generation_call", "result": PICTURE},
}


@pytest.mark.parametrize("item", SHOWN.values(), ids=SHOWN)
def test_a_picture_is_no_text_wherever_it_is(item: dict[str, Any]) -> None:
    tokens = estimate_native_tokens({"input": [item]}, FRAMES)
    assert FRAMES.tokens_per_image < tokens < FRAMES.tokens_per_image + 100


@pytest.mark.parametrize("text", ["word " * 200, "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 1_000])
def test_a_document_of_text_counts_as_text(text: str) -> None:
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    plain = {"type": "text", "text": text}
    made = [
        estimate_native_tokens({"messages": [{"role": "user", "content": [part]}]}, TEXT_ONLY)
        for part in (plain, document)
    ]
    assert made[0] <= made[1] <= made[0] + 30


@given(st.lists(st.dictionaries(st.sampled_from(["type", "content", "output", "source"]), json_values)))
def test_no_native_body_makes_an_estimate_fail(items: list[Any]) -> None:
    assert estimate_native_tokens({"input": items}, FRAMES) >= FRAMES.base_tokens

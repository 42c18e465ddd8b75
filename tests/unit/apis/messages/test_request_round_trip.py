"""A Messages request that goes through chat to the dialect of Anthropic is the same request there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.anthropic_requests import ADAPTIVE
from rig.messages_requests import MARK, PNG, TOOL, ask, text, translate
from rig.native_anthropic import check_request

from addon.dialects.anthropic.request import to_request
from addon.dialects.opaque_reasoning import seal

WORDS = st.from_regex(r"\w[\w .,!-]{0,6}\w", fullmatch=True)
MARKS = st.sampled_from([{}, {"cache_control": MARK}])
TEXTS = st.builds(lambda said, mark: text(said, **mark), WORDS, MARKS)
PICTURES = st.builds(
    lambda source, mark: {"type": "image", "source": source, **mark},
    st.sampled_from([PNG, {"type": "url", "url": "https://a.b/c.png"}]),
    MARKS,
)
PDF = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
    "title": "x.pdf",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
THINKING = st.builds(
    lambda said, signature: {"type": "thinking", "thinking": said, "signature": signature}, WORDS, WORDS
)
REDACTED = st.builds(lambda data: {"type": "redacted_thinking", "data": data}, WORDS)
USER = st.lists(TEXTS | PICTURES | st.just(PDF), min_size=1, max_size=3)


@st.composite
def exchanges(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate an assistant's turn, and the user's turn after it with the results of its calls."""
    inputs = draw(st.lists(st.dictionaries(WORDS, JSON, max_size=2), max_size=2))
    ids = [f"t{index}" for index in range(len(inputs))]
    calls = [
        {"type": "tool_use", "id": id, "name": "weather", "input": one, **draw(MARKS)}
        for id, one in zip(ids, inputs, strict=True)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": [draw(TEXTS)], **draw(MARKS)} for id in ids
    ]
    said = [draw(TEXTS)] if not calls or draw(st.booleans()) else []
    thoughts = draw(st.lists(THINKING | REDACTED, max_size=2))
    return [
        {"role": "assistant", "content": [*thoughts, *said, *calls]},
        {"role": "user", "content": [*results, *draw(USER)]},
    ]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    turns = [turn for two in draw(st.lists(exchanges(), max_size=3)) for turn in two]
    fields = {
        "system": st.lists(TEXTS, min_size=2, max_size=3),
        "stop_sequences": st.lists(WORDS, min_size=1, max_size=2),
        "metadata": st.builds(lambda user: {"user_id": user}, st.from_regex(r"[a-z]{1,8}", fullmatch=True)),
        "temperature": st.floats(0, 1),
        "stream": st.just(True),
        "top_k": st.integers(1, 9),
        "output_config": st.builds(
            lambda title: {
                "format": {"type": "json_schema", "schema": {"type": "string", "title": title}},
                "effort": "high",
            },
            WORDS,
        ),
    }
    body = ask([{"role": "user", "content": draw(USER)}, *turns])
    body |= draw(st.fixed_dictionaries({}, optional=fields))
    if draw(st.booleans()):
        choices = [
            {"type": "auto", "disable_parallel_tool_use": True},
            {"type": "any"},
            {"type": "tool", "name": "weather"},
            {"type": "none"},
        ]
        body |= {"tools": [TOOL | draw(MARKS)], "tool_choice": draw(st.sampled_from(choices))}
    return body


def expected(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the dialect makes besides: thinking for an effort."""
    return body | ({"thinking": {"type": "adaptive"}} if "output_config" in body else {})


@given(requests())
def test_a_request_keeps_its_meaning(body: dict[str, Any]):
    made = translate(body)
    assert not made.untranslated and made.obstacle is None
    native = to_request(made.body, ADAPTIVE)
    check_request(native)
    assert native == expected(body)


@given(THINKING, WORDS)
def test_sealed_thinking_of_claude_is_its_own_again(block: dict[str, Any], said: str):
    detail = {"type": "reasoning.text", "text": block["thinking"], "signature": block["signature"]}
    sealed = block | {"signature": seal([detail | {"format": "anthropic-claude-v1", "index": 0}])}
    turns = [{"role": "user", "content": said}, {"role": "assistant", "content": [sealed, text(said)]}]
    native = to_request(translate(ask(turns)).body, ADAPTIVE)
    assert native["messages"][1]["content"] == [block, text(said)]

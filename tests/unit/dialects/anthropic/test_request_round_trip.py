"""Any chat request keeps its meaning as a request of Anthropic's Messages API."""

import json

from hypothesis import given
from hypothesis import strategies as st
from rig.anthropic_requests import ADAPTIVE, FORCED, MARK, PNG, call, text
from rig.native_anthropic import chat_request_of, check_request

from addon.dialects.anthropic.request import to_request

WORDS = st.from_regex(r"\w[\w .,!-]{0,6}\w?", fullmatch=True)
MARKS = st.sampled_from([{}, {"cache_control": MARK}])
TEXTS = st.builds(lambda said, mark: {"type": "text", "text": said, **mark}, WORDS, MARKS)
IMAGES = st.builds(
    lambda url: {"type": "image_url", "image_url": {"url": url}}, st.sampled_from([PNG, "https://a.b/c.png"])
)
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "x.pdf"}}
USER = st.builds(
    lambda parts: {"role": "user", "content": parts},
    st.lists(TEXTS | IMAGES | st.just(PDF), min_size=1, max_size=3),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
DETAILS = st.builds(
    lambda said, signature, data: [
        {"type": "reasoning.text", "text": said, "signature": signature, "format": "anthropic-claude-v1"},
        {"type": "reasoning.encrypted", "data": data, "format": "anthropic-claude-v1"},
    ],
    st.text(max_size=5),
    WORDS,
    WORDS,
)


@st.composite
def exchanges(draw):
    """Generate an assistant's message, and the results of its tool calls."""
    message = {"role": "assistant", "content": draw(st.none() | st.lists(TEXTS, min_size=1, max_size=2))}
    arguments = draw(st.lists(st.dictionaries(WORDS, JSON, max_size=2), max_size=2))
    if draw(st.booleans()):
        message["reasoning_details"] = draw(DETAILS)
    if arguments:
        message["tool_calls"] = [call(f"t{i}", json.dumps(one)) for i, one in enumerate(arguments)]
    if message["content"] is None and not arguments:
        message["content"] = [text("said")]
    results = [
        {
            "role": "tool",
            "tool_call_id": f"t{i}",
            "content": draw(st.lists(TEXTS | IMAGES, min_size=1, max_size=2)),
        }
        for i, _ in enumerate(arguments)
    ]
    return [message, *results, draw(USER)]


@st.composite
def requests(draw):
    system = {"role": "system", "content": draw(st.lists(TEXTS, min_size=2, max_size=3))}
    talk = [message for said in draw(st.lists(exchanges(), max_size=3)) for message in said]
    body = {"model": "m", "max_tokens": 9, "messages": [system, draw(USER), *talk]}
    fields = {
        "temperature": st.floats(0, 1),
        "stop": st.lists(WORDS, min_size=1, max_size=2),
        "user": st.from_regex(r"[a-z_-]{1,64}", fullmatch=True),
        "stream": st.just(True),
        "tools": st.just(
            [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
        ),
        "response_format": st.builds(
            lambda name: {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "string", "title": name}},
            },
            WORDS,
        ),
    }
    for name, values in fields.items():
        if draw(st.booleans()):
            body[name] = draw(values)
    if "tools" in body:
        body["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", FORCED]))
        if body["tool_choice"] != "none" and draw(st.booleans()):
            body["parallel_tool_calls"] = False
    return body


@given(requests())
def test_a_chat_request_survives_the_way_there_and_back(body):
    made = to_request(body, ADAPTIVE)
    check_request(made)
    assert chat_request_of(made) == body

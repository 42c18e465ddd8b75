"""What a model said comes back to it as it was: a chat stream, its items, and the chat request of the next turn."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from rig.response_writing import answer, call, chunk

from addon.apis.responses.request import to_chat
from addon.apis.responses.schema import validate

INNER = {"type": "function", "name": "inner", "parameters": {"type": "object"}}
TOOLS = [
    {"type": "function", "name": "plain", "parameters": {"type": "object"}},
    {"type": "custom", "name": "free"},
    {"type": "namespace", "name": "space", "description": "Of space.", "tools": [INNER]},
    {"type": "local_shell"},
]
CLAUDE, GEMINI = "anthropic-claude-v1", "google-gemini-v1"
USER = {"role": "user", "content": "Hi"}

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
ARGUMENTS = {
    "plain": st.dictionaries(WORDS, WORDS, max_size=2),
    "free": st.builds(lambda text: {"input": text}, WORDS),
    "space__inner": st.just({}),
    "local_shell": st.builds(lambda word: {"command": [word], "env": {}}, WORDS),
}
CALLS = st.lists(
    st.sampled_from(sorted(ARGUMENTS)).flatmap(lambda name: st.tuples(st.just(name), ARGUMENTS[name])),
    max_size=3,
)


def pieces(draw: st.DrawFn, text: str) -> Iterator[str]:
    """Cut a text anywhere."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        yield text[start:end]


def spoken(draw: st.DrawFn, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a message: reasoning, text, and the pieces of its calls in turns."""
    details = message.get("reasoning_details")
    if details:
        for part in pieces(draw, details[0]["text"]):
            yield {
                "reasoning_content": part,
                "reasoning_details": [{**details[0], "text": part, "signature": ""}],
            }
        yield {"reasoning_details": [{**details[0], "text": ""}]}
    elif reasoning := message.get("reasoning_content"):
        yield from ({"reasoning_content": part} for part in pieces(draw, reasoning))
    yield from ({"content": part} for part in pieces(draw, message["content"] or ""))
    if "extra_content" in message:
        yield {"extra_content": message["extra_content"]}
    waiting = []
    for index, one in enumerate(message.get("tool_calls", ())):
        begun = call(index, "", one["id"], one["function"]["name"])
        if "extra_content" in one:
            begun["tool_calls"][0]["extra_content"] = one["extra_content"]
        yield begun
        waiting.append([call(index, part) for part in pieces(draw, one["function"]["arguments"])])
    while waiting:
        at = draw(st.integers(0, len(waiting) - 1))
        yield waiting[at].pop(0)
        waiting = [rest for rest in waiting if rest]


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    calls = [
        {
            "id": f"c{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(draw(CALLS))
    ]
    made: dict[str, Any] = {"role": "assistant", "content": draw(WORDS | st.none())}
    assume(made["content"] or calls)
    kind = draw(st.sampled_from(["none", "plain", "claude", "gemini"]))
    if calls:
        made["tool_calls"] = calls
        if kind == "gemini":
            calls[0]["extra_content"] = {"google": {"thought_signature": draw(WORDS)}}
    elif kind == "gemini":
        made["extra_content"] = {"google": {"thought_signature": draw(WORDS)}}
    if kind == "plain":
        made["reasoning_content"] = draw(WORDS)
    if kind == "claude":
        detail = {"type": "reasoning.text", "text": draw(WORDS), "signature": draw(WORDS)}
        made["reasoning_details"] = [{**detail, "format": CLAUDE, "index": 0}]
    return made


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Generate a message, and the response that its stream becomes."""
    message = draw(messages())
    deltas = [chunk(delta) for delta in spoken(draw, message)]
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return message, answer(*deltas, chunk(finish=finish), tools=TOOLS)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with parsed arguments: the text of JSON may differ."""
    calls = [
        {**one, "function": {**one["function"], "arguments": json.loads(one["function"]["arguments"])}}
        for one in message.get("tool_calls", ())
    ]
    return {**message, "tool_calls": calls}


@given(answers())
def test_a_message_comes_back(said: tuple[dict[str, Any], dict[str, Any]]) -> None:
    message, response = said
    items = json.loads(json.dumps(response["output"]))
    outputs = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "done"}
        for item in items
        if "call_id" in item
    ]
    body = {"input": [USER, *items, *outputs], "tools": TOOLS}
    validate(body)
    made = to_chat(body)
    first, second, *results = made.body["messages"]
    assert (first, plain(second)) == (USER, plain(message))
    assert [one["tool_call_id"] for one in results] == [one["id"] for one in message.get("tool_calls", ())]
    assert made.untranslated == () and made.obstacle is None

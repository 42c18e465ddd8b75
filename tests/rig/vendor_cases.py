"""The calls that every model of the catalog gets in the matrix of models and vendors.

A call is a client's body without its model. ``CASES`` has a function for each, which gets the tokens of the model's
context.
"""

from collections.abc import Callable, Mapping
from typing import Any

type Body = dict[str, Any]
type Case = Callable[[int], Body]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
OVER_ANY_MAXIMUM = 10_000_000
SENTENCE = (
    "the quick brown fox jumps over the lazy dog and runs through green woods toward distant quiet hills "
)
"""Plain English, in which a token is a word."""


def said(role: str, content: Any = "Say hello.", **more: Any) -> Body:
    return {"role": role, "content": content, **more}


def tool(name: str = "get_weather", **function: Any) -> Body:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {
        "type": "function",
        "function": {"name": name, "description": "Look.", "parameters": city, **function},
    }


ASKED = [said("user")]
TOOLS = {"messages": ASKED, "tools": [tool(), tool("get_time")]}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
JSON_ASKED = [said("user", "Name a colour, as JSON.")]
CLOSED = {**SCHEMA, "properties": {"city": {"type": "string"}}, "required": ["city"]}


def called(call_id: str, name: str = "get_weather") -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"city": "Bern"}'}}


def result(call_id: str) -> Body:
    return said("tool", "It is sunny.", tool_call_id=call_id)


CALL_ID = "call_1234567890abcdefghijklmn"
LOOP = [
    said("system", "Be brief."),
    said("user", "What is the weather in Bern?"),
    said("assistant", None, tool_calls=[called(CALL_ID), called(f"{CALL_ID}2", "get_time")]),
    result(CALL_ID),
    result(f"{CALL_ID}2"),
]


def body(**fields: Any) -> Case:
    return lambda _window: {"messages": ASKED, **fields}


def near_window(share: float, **fields: Any) -> Case:
    """Return a call whose prompt fills this share of the context, as its vendor counts."""

    def make(window_tokens: int) -> Body:
        words = SENTENCE * (int(window_tokens * share) // len(SENTENCE.split()))
        return {"messages": [said("user", words)], **fields}

    return make


def loop(*more: Body, **fields: Any) -> Case:
    return body(messages=[*LOOP, *more], tools=TOOLS["tools"], **fields)


_CAPS = {
    "no cap, whole": body(),
    "no cap, streamed": body(stream=True),
    "small cap, whole": body(max_tokens=64),
    "small cap, streamed": body(max_completion_tokens=64, stream=True),
    "cap of 5,000, whole": body(max_tokens=5_000),
    "cap above any maximum, whole": body(max_tokens=OVER_ANY_MAXIMUM),
    "cap above any maximum, streamed": body(max_completion_tokens=OVER_ANY_MAXIMUM, stream=True),
}
_TOOLS = {
    "tools, whole": body(**TOOLS),
    "tools, streamed": body(**TOOLS, stream=True),
    "tool choice auto": body(**TOOLS, tool_choice="auto"),
    "tool choice none": body(**TOOLS, tool_choice="none"),
    "tool choice required": body(**TOOLS, tool_choice="required"),
    "tool choice named": body(**TOOLS, tool_choice=NAMED),
    "tool choice required, with effort": body(**TOOLS, tool_choice="required", reasoning_effort="high"),
    "parallel tool calls": body(**TOOLS, parallel_tool_calls=True),
    "no parallel tool calls": body(**TOOLS, parallel_tool_calls=False),
    "tools and effort": body(**TOOLS, reasoning_effort="high"),
    "strict tool": body(tools=[tool(strict=True, parameters=CLOSED)]),
    "strict tool beside another": body(tools=[tool(strict=True, parameters=CLOSED), tool("other")]),
    "tool without parameters": body(tools=[{"type": "function", "function": {"name": "ping"}}]),
    "tool with empty parameters": body(tools=[tool(parameters={})]),
    "tool loop": loop(),
    "tool loop, streamed": loop(stream=True),
    "tool loop, with text": body(
        messages=[*LOOP[:2], LOOP[2] | {"content": "I look."}, *LOOP[3:]], tools=TOOLS["tools"]
    ),
    "tool loop, over": loop(said("assistant", "It is sunny."), said("user", "Thanks.")),
}
_FORMATS = {
    "JSON mode": body(messages=JSON_ASKED, response_format={"type": "json_object"}),
    "JSON mode and tools": body(**TOOLS | {"messages": JSON_ASKED}, response_format={"type": "json_object"}),
    "JSON schema": body(messages=JSON_ASKED, response_format=JSON_SCHEMA),
    "JSON schema, streamed": body(messages=JSON_ASKED, response_format=JSON_SCHEMA, stream=True),
    "text format": body(response_format={"type": "text"}),
}
_PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}
_MESSAGES = {
    "image": body(messages=[said("user", [{"type": "text", "text": "What is it?"}, _PICTURE])]),
    "text parts": body(messages=[said("user", [{"type": "text", "text": "Say hello."}])]),
    "late system message": body(
        messages=[*ASKED, said("assistant", "Hello."), said("system", "Be brief."), said("user", "Again.")]
    ),
    "late system message at the end": body(messages=[*ASKED, said("system", "Be brief.")]),
    "two system messages": body(messages=[said("system", "Be brief."), said("system", "Be kind."), *ASKED]),
    "developer message": body(messages=[said("developer", "Be brief."), *ASKED]),
    "names": body(messages=[said("user", name="ada")]),
    "reasoning sent back": body(
        messages=[*ASKED, said("assistant", "Hello.", reasoning_content="Hm."), said("user", "Again.")]
    ),
}
_FIELDS = {
    **{f"effort {one}": body(reasoning_effort=one) for one in EFFORTS},
    **{f"effort {one}, temperature": body(reasoning_effort=one, temperature=0.5) for one in ("none", "high")},
    "n 1": body(n=1),
    "n 2": body(n=2),
    "one stop": body(stop="###"),
    "six stops": body(stop=["a", "b", "c", "d", "e", "f"]),
    "penalties": body(presence_penalty=0.5, frequency_penalty=0.5),
    "penalties below zero": body(presence_penalty=-1, frequency_penalty=-1),
    "temperature 0": body(temperature=0),
    "temperature 2": body(temperature=2),
    "temperature and top_p": body(temperature=0.7, top_p=0.9),
    "logprobs": body(logprobs=True),
    "top_logprobs 20": body(logprobs=True, top_logprobs=20),
    "logit_bias": body(logit_bias={"1234": -10}),
    "seed": body(seed=42),
    "user": body(user="customer-1"),
    "fields that no one knows": body(foo=1, store=True, metadata={"a": "b"}, service_tier="auto"),
}
_LONG = {
    "half the window": near_window(0.5),
    "near the window, whole": near_window(0.9),
    "near the window, streamed": near_window(0.9, stream=True),
    "near the window, cap above any maximum": near_window(0.9, max_tokens=OVER_ANY_MAXIMUM),
}
_ENDS = [*ASKED, said("assistant", "Hel")]
PASSED_ON: Mapping[str, Case] = {
    "ends with the assistant": body(messages=_ENDS),
    "user after tool": loop(said("user", "And in Rome?")),
    "system after tool": loop(said("system", "Be brief.")),
    "only a system message": body(messages=[said("system", "Say hello.")]),
    "begins with the assistant": body(messages=[said("assistant", "Hello."), *ASKED]),
    "empty assistant": body(messages=[*ASKED, said("assistant", ""), *ASKED]),
    "empty user": body(messages=[said("user", "")]),
    "two users": body(messages=[*ASKED, *ASKED]),
    "unanswered call": body(messages=LOOP[:4], tools=TOOLS["tools"]),
    "tool name with a dot": body(tools=[tool("a.b")]),
    "tool name with a digit first": body(tools=[tool("1a")]),
    "130 tools": body(tools=[tool(f"f{number}") for number in range(130)]),
    "schema without an object at its top": body(tools=[tool(parameters={"anyOf": [CLOSED]})]),
    "JSON mode without the word": body(response_format={"type": "json_object"}),
    "stop of 40 bytes": body(stop="x" * 40),
}
"""Calls whose refusal by some vendors reaches the client: no rule of a family can mend them."""
_SEEDS = {"large seed": body(seed=2**40), "negative seed": body(seed=-1)}
CASES: Mapping[str, Case] = {**_SEEDS, **_CAPS, **_TOOLS, **_FORMATS, **_MESSAGES, **_FIELDS, **_LONG}
LONG: Mapping[str, Case] = _LONG

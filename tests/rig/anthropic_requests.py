"""Requests of Anthropic's Messages API as the gateway makes them, and their parts."""

import json

from addon.dialects.anthropic.request import to_request
from policies.family import Family
from rig.native_anthropic import check_request

EXTRA = frozenset({"thinking", "top_k", "reasoning_effort", "output_config", "service_tier"})
ADAPTIVE = Family("claude", extra=EXTRA)
BUDGETS = Family("claude", extra=EXTRA, effort_budgets={"low": 1024, "high": 4096})
HELLO = [{"role": "user", "content": "Hello"}]
PNG = "data:image/png;base64,aGk="
WEATHER = {"type": "function", "function": {"name": "weather"}}
FORCED = {"type": "function", "function": {"name": "weather"}}
MARK = {"type": "ephemeral"}


def native(family=ADAPTIVE, messages=HELLO, **fields):
    body = {"model": "claude-x", "max_tokens": 4000, "messages": messages, **fields}
    before = json.dumps(body)
    made = to_request(body, family)
    assert json.dumps(body) == before, "the client's body is not written to"
    check_request(made)
    return made


def text(said, **more):
    return {"type": "text", "text": said, **more}


def call(id="t1", arguments="{}", name="weather"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(part):
    return {"messages": [{"role": "user", "content": [part]}]}


def assistant(**message):
    return {"messages": [*HELLO, {"role": "assistant", **message}]}

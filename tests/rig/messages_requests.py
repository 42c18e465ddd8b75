"""Requests of the Messages API as clients send them, and what they become for chat."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from addon.apis.chat.schema import validate as validate_chat
from addon.apis.chat_body import ChatBody
from addon.apis.messages.request import to_chat
from addon.apis.messages.schema import validate

AGENTS = os.environ.get("TOLLGATE_AGENTS", "")
needs_agents = pytest.mark.skipif(not AGENTS, reason="TOLLGATE_AGENTS names no folder of clients' requests")

MARK = {"type": "ephemeral"}
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "input_schema": WEATHER}


def translate(body: dict[str, Any]) -> ChatBody:
    """Return the chat body of a valid body. It is valid, and the client's body is not written to."""
    before = copy.deepcopy(body)
    validate({name: value for name, value in body.items() if value is not None})
    made = to_chat(body)
    validate_chat(made.body)
    assert body == before
    return made


def ask(messages: Any = HELLO, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": messages, **fields}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def tool_use(id: str = "t1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "weather", "input": given}


def result(content: Any = "Rain", id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def user(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


def talk(assistant: Any, *blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a question, the answer of the assistant, and a turn of the user."""
    return [*HELLO, {"role": "assistant", "content": assistant}, *user(*blocks)]


def read_agents() -> list[dict[str, Any]]:
    """Return the recorded requests of clients to this API, each with its path and headers."""
    files = sorted(Path(AGENTS).glob("*.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    return [one for one in found if one["path"].startswith("/v1/messages")]

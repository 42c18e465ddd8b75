"""Anthropic's Messages API in the types of its SDK: recordings, and requests compared with chat requests.

Nothing here comes from the gateway. The SDK's types check requests. This module turns a native request into a chat
request, and into a form that can be compared.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)

from rig.corpus import FOLDER

SAMPLING = ("temperature", "top_p", "top_k")
"""The API accepts these fields for some models; the SDK's types no longer have them."""

_WHOLE = pydantic.TypeAdapter(MessageCreateParamsNonStreaming)
_STREAMED = pydantic.TypeAdapter(MessageCreateParamsStreaming)
_NOT_IN_CHAT = frozenset({"anthropic_version", "context_management"})
_PART_LOSSES = frozenset({"is_error"})  # a tool message has no such field


class NotInChatError(Exception):
    """The chat shape can't express a native request."""


# --- recordings ------------------------------------------------------------------------------------------------


def read_recordings(apis: tuple[str, ...] = ("anthropic_messages",)) -> list[dict[str, Any]]:
    """Return the recorded exchanges of these APIs."""
    files = [file for api in apis for file in sorted(Path(FOLDER).glob(f"*.{api}.jsonl"))]
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert found, f"no recordings of {apis} in {FOLDER}"
    return found


# --- requests --------------------------------------------------------------------------------------------------


def check_request(body: Mapping[str, Any]) -> None:
    """Check a native request with the SDK's types. Unknown fields fail at any depth."""
    known = {name: value for name, value in body.items() if name not in SAMPLING}
    read = (_STREAMED if body.get("stream") else _WHOLE).validate_python(known, strict=True)
    assert _plain(read) == json.loads(json.dumps(known)), "the SDK's types pass over some field"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    assert not isinstance(value, pydantic.BaseModel), "read as a block of an answer"
    return [_plain(inner) for inner in value]  # pydantic reads an Iterable only during iteration


def chat_request_of(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat request with the meaning of a native one. Raise NotInChatError when there is none."""
    if unknown := native.keys() & {"mcp_servers", "container"}:
        raise NotInChatError(f"{', '.join(unknown)}: the provider's own tools")
    chat: dict[str, Any] = {"model": native.get("model", "unnamed"), "messages": _chat_messages(native)}
    same = ("max_tokens", "stream", *SAMPLING, "thinking")
    chat |= {name: native[name] for name in same if name in native}
    if "stop_sequences" in native:
        chat["stop"] = native["stop_sequences"]
    if "user_id" in native.get("metadata", {}):
        chat["user"] = native["metadata"]["user_id"]
    if "tools" in native:
        chat["tools"] = [_chat_tool(tool) for tool in native["tools"]]
    return chat | _chat_choice(native.get("tool_choice")) | _chat_output(native)


def _chat_messages(native: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = []
    if system := native.get("system"):
        messages.append({"role": "system", "content": _chat_content(system)})
    for turn in native["messages"]:
        make = _chat_assistant if turn["role"] == "assistant" else _chat_user
        messages += make(turn["content"])
    return messages


def _chat_content(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_chat_part(block) for block in content]


def _chat_part(block: Mapping[str, Any]) -> dict[str, Any]:
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    source = block.get("source", {})
    if block["type"] == "text":
        return {"type": "text", "text": block["text"], **mark}
    if block["type"] not in ("image", "document") or source["type"] not in ("url", "base64"):
        raise NotInChatError(f"a block of type {block['type']}, with a source of type {source}")
    url = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": url}, **mark}
    name = {"filename": block["title"]} if "title" in block else {}
    return {"type": "file", "file": {"file_data": url, **name}, **mark}


def _chat_user(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    messages = []
    for block in content:
        if block["type"] == "tool_result":
            mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
            said = _chat_content(block.get("content", ""))
            messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": said, **mark})
    rest = [_chat_part(block) for block in content if block["type"] != "tool_result"]
    return [*messages, {"role": "user", "content": rest}] if rest else messages


def _chat_assistant(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in content:
        if block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            call = {"id": block["id"], "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
        elif block["type"] in ("thinking", "redacted_thinking"):
            message.setdefault("reasoning_details", []).append(_chat_detail(block))
        else:
            message["content"] = [*(message["content"] or []), _chat_part(block)]
    return [message]


def _chat_detail(block: Mapping[str, Any]) -> dict[str, Any]:
    if block["type"] == "redacted_thinking":
        return {"type": "reasoning.encrypted", "data": block["data"], "format": "anthropic-claude-v1"}
    said = {"text": block["thinking"], "signature": block["signature"]}
    return {"type": "reasoning.text", **said, "format": "anthropic-claude-v1"}


def _chat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type", "custom") != "custom":
        raise NotInChatError(
            f"a tool of type {tool['type']}, which the provider runs itself or knows by name"
        )
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    function |= {name: tool[name] for name in ("description", "strict") if name in tool}
    mark = {"cache_control": tool["cache_control"]} if "cache_control" in tool else {}
    return {"type": "function", "function": function, **mark}


def _chat_choice(choice: Mapping[str, Any] | None) -> dict[str, Any]:
    if choice is None:
        return {}
    words = {"auto": "auto", "none": "none", "any": "required"}
    named = {"type": "function", "function": {"name": choice.get("name")}}
    asked = {"tool_choice": words.get(choice["type"], named)}
    return asked | ({"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {})


def _chat_output(native: Mapping[str, Any]) -> dict[str, Any]:
    config = native.get("output_config", {})
    wanted = config.get("format") or native.get("output_format")
    chat: dict[str, Any] = {}
    if wanted:
        described = {"name": "answer", "schema": wanted["schema"]}
        chat["response_format"] = {"type": "json_schema", "json_schema": described}
    if "effort" in config:
        # An effort alone would also ask for thinking.
        asks = "thinking" in native
        chat |= (
            {"reasoning_effort": config["effort"]}
            if asks
            else {"output_config": {"effort": config["effort"]}}
        )
    return chat


def meaning_of_request(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return a normal form of a native request: two with the same meaning are equal."""
    meant = {name: value for name, value in native.items() if name not in _NOT_IN_CHAT}
    meant["model"] = native.get("model", "unnamed")
    meant["messages"] = _turns(native["messages"])
    for name, default in (("system", []), ("stop_sequences", []), ("stream", False)):
        meant[name] = native.get(name) or default
    meant["system"] = _meant_blocks(meant["system"])
    meant["tools"] = [{"type": "custom", **tool} for tool in native.get("tools", [])]
    if choice := native.get("tool_choice"):
        meant["tool_choice"] = {"disable_parallel_tool_use": False, **choice}
    if wanted := meant.pop("output_format", None):
        meant["output_config"] = {
            **meant.get("output_config", {}),
            "format": {**wanted, "type": "json_schema"},
        }
    return meant


def _turns(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        if not turns or turns[-1]["role"] != message["role"]:
            turns.append({"role": message["role"], "content": []})
        turns[-1]["content"] += _meant_blocks(message["content"])
    for turn in turns:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return turns


def _meant_blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    meant = [
        {name: value for name, value in block.items() if value is not None and name not in _PART_LOSSES}
        for block in blocks
    ]
    for block in meant:
        if block["type"] == "tool_result":
            block["content"] = _meant_blocks(block.get("content", ""))
    return [block for block in meant if block["type"] != "text" or block["text"].strip()]

"""Amazon Bedrock's Converse API: its shapes, and its requests compared with chat requests.

Nothing here comes from the gateway. The shapes are those of the service model of botocore 1.44.5.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rig.corpus import read_corpus

TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
DOCUMENT_NAME = re.compile(r"[A-Za-z0-9()\[\] -]{1,200}")

type Shape = Any
"""A type, a pattern, a list of one shape, or an object: its members, with ``!`` after those that are required.

``Union`` has exactly one of its members.
"""


class Union(dict[str, Shape]):
    """An object with exactly one of these members."""


ANY: Shape = object
CACHE_POINT = {"type!": re.compile("default"), "ttl": re.compile("5m|1h")}
SOURCE = Union({"bytes": str})
IMAGE = {"format!": re.compile("png|jpeg|gif|webp"), "source!": SOURCE}
DOCUMENT = {
    "format!": re.compile("pdf|csv|docx?|xlsx?|html|txt|md"),
    "name!": DOCUMENT_NAME,
    "source!": SOURCE,
}
RESULT = Union({"json": dict, "text": str, "image": IMAGE, "document": DOCUMENT})
BLOCK = Union(
    {
        "text": str,
        "image": IMAGE,
        "document": DOCUMENT,
        "toolUse": {"toolUseId!": TOOL_USE_ID, "name!": re.compile("[a-zA-Z0-9_-]{1,64}"), "input!": dict},
        "toolResult": {
            "toolUseId!": TOOL_USE_ID,
            "content!": [RESULT],
            "status": re.compile("success|error"),
        },
        "cachePoint": CACHE_POINT,
        "reasoningContent": Union(
            {"reasoningText": {"text!": str, "signature": str}, "redactedContent": str}
        ),
    }
)
TOOL = Union(
    {
        "toolSpec": {
            "name!": re.compile("[a-zA-Z0-9_-]{1,64}"),
            "description": re.compile(".+", re.DOTALL),
            "inputSchema!": Union({"json": dict}),
            "strict": bool,
        },
        "cachePoint": CACHE_POINT,
    }
)
REQUEST = {
    "messages": [{"role!": re.compile("user|assistant"), "content!": [BLOCK]}],
    "system": [Union({"text": re.compile(".+", re.DOTALL), "cachePoint": CACHE_POINT})],
    "inferenceConfig": {
        "maxTokens": int,
        "temperature": (int, float),
        "topP": (int, float),
        "stopSequences": [str],
    },
    "toolConfig": {"tools!": [TOOL], "toolChoice": Union({"auto": {}, "any": {}, "tool": {"name!": str}})},
    "additionalModelRequestFields": dict,
    "outputConfig": {
        "textFormat": {
            "type!": re.compile("json_schema"),
            "structure!": Union({"jsonSchema": {"schema!": str, "name": str}}),
        }
    },
}


def check_request(body: Mapping[str, Any]) -> None:
    """Check a native request. Unknown members fail at any depth, except in values that the API leaves open."""
    _check(body, REQUEST, "request")


def _check(value: Any, shape: Shape, place: str) -> None:
    if isinstance(shape, re.Pattern):
        assert isinstance(value, str) and shape.fullmatch(value), f"{place}: {value!r}"
    elif isinstance(shape, list):
        assert isinstance(value, list), place
        for index, element in enumerate(value):
            _check(element, shape[0], f"{place}[{index}]")
    elif isinstance(shape, dict):
        assert isinstance(value, dict), place
        members = {name.removesuffix("!"): inner for name, inner in shape.items()}
        assert value.keys() <= members.keys(), f"{place}: {value.keys() - members.keys()}"
        assert {name[:-1] for name in shape if name.endswith("!")} <= value.keys(), place
        assert not isinstance(shape, Union) or len(value) == 1, place
        for name, inner in value.items():
            _check(inner, members[name], f"{place}.{name}")
    else:
        assert isinstance(value, shape), place


class NotInChatError(Exception):
    """The chat shape can't express a native request."""


def recordings() -> list[dict[str, Any]]:
    """Return the recorded exchanges of Converse, whole and streamed."""
    return read_corpus("bedrock_converse", "bedrock_converse_stream")


def chat_request_of(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat request with the meaning of a native one. Raise NotInChatError when there is none."""
    if unknown := native.keys() & {"guardrailConfig", "performanceConfig"}:
        raise NotInChatError(f"{', '.join(sorted(unknown))}: of Bedrock alone")
    messages: list[dict[str, Any]] = []
    if system := native.get("system"):
        messages.append({"role": "system", "content": _parts(system)})
    for turn in native["messages"]:
        messages += (_assistant if turn["role"] == "assistant" else _user)(turn["content"])
    chat: dict[str, Any] = {"model": "m", "messages": messages}
    config = native.get("inferenceConfig", {})
    names = {
        "maxTokens": "max_tokens",
        "temperature": "temperature",
        "topP": "top_p",
        "stopSequences": "stop",
    }
    chat |= {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    chat |= native.get("additionalModelRequestFields", {})
    tools = native.get("toolConfig", {})
    if tools:
        chat["tools"] = [_tool(tool) for tool in tools["tools"]]
    match tools.get("toolChoice", {}):
        case {"tool": named}:
            chat["tool_choice"] = {"type": "function", "function": {"name": named["name"]}}
        case {"any": _}:
            chat["tool_choice"] = "required"
        case {"auto": _}:
            chat["tool_choice"] = "auto"
    if wanted := native.get("outputConfig", {}).get("textFormat"):
        described = wanted["structure"]["jsonSchema"]
        schema = {"name": described["name"], "schema": json.loads(described["schema"])}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat


def _parts(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case {"text": text}:
                parts.append({"type": "text", "text": text})
            case {"image": {"format": form, "source": {"bytes": data}}}:
                url = f"data:image/{form};base64,{data}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
            case {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}:
                url = f"data:application/pdf;base64,{data}"
                parts.append({"type": "file", "file": {"file_data": url, "filename": name}})
            case {"cachePoint": _}:
                parts[-1]["cache_control"] = {"type": "ephemeral"}
            case _:
                raise NotInChatError(f"a block of {', '.join(block)}")
    return parts


def _user(blocks: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    rest = []
    for block in blocks:
        if (result := block.get("toolResult")) is None:
            rest.append(block)
        else:
            yield {"role": "tool", "tool_call_id": result["toolUseId"], "content": _parts(result["content"])}
    if rest:
        yield {"role": "user", "content": _parts(rest)}


def _assistant(blocks: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in blocks:
        if used := block.get("toolUse"):
            function = {"name": used["name"], "arguments": json.dumps(used["input"])}
            call = {"id": used["toolUseId"], "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
        else:
            message["content"] = [*(message["content"] or []), *_parts([block])]
    yield message


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if (spec := tool.get("toolSpec")) is None:
        raise NotInChatError("a tool that the provider runs itself")
    function = {"name": spec["name"], "parameters": spec["inputSchema"]["json"]}
    function |= {name: spec[name] for name in ("description", "strict") if name in spec}
    return {"type": "function", "function": function}


def meaning_of_request(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return a normal form of a native request: two with the same meaning are equal."""
    meant = {name: value for name, value in native.items() if value}
    turns: list[dict[str, Any]] = []
    for message in native["messages"]:
        if not turns or turns[-1]["role"] != message["role"]:
            turns.append({"role": message["role"], "content": []})
        turns[-1]["content"] += [_meant(block) for block in message["content"]]
    for turn in turns:
        turn["content"] = [block for block in turn["content"] if block.get("text", "x").strip()]
        turn["content"].sort(key=lambda block: "toolResult" not in block)
    if turns[-1]["role"] == "assistant" and "text" in (last := turns[-1]["content"][-1]):
        turns[-1]["content"][-1] = {"text": last["text"].rstrip()}
    meant["messages"] = turns
    config = {name: value for name, value in native.get("inferenceConfig", {}).items() if value != []}
    meant |= {"inferenceConfig": {"maxTokens": 4096} | config}
    tools = dict(native.get("toolConfig", {}))
    if tools.get("toolChoice", {}).keys() == {"auto"}:
        del tools["toolChoice"]
    if tools:
        meant["toolConfig"] = tools
    return meant


def _meant(block: Mapping[str, Any]) -> dict[str, Any]:
    if result := block.get("toolResult"):
        return {"toolResult": {name: result[name] for name in ("toolUseId", "content")}}
    return dict(block)

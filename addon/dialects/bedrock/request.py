"""A sanitized chat body becomes the body of Amazon Bedrock's Converse API. Pure.

Converse has the turns and blocks of Anthropic's Messages API under other names. So the chat body becomes a body of that
API first, and then each member gets its name in Converse. Source: Amazon Bedrock, API reference, "Converse"; the
service model of botocore 1.44.5; recorded traffic.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.dialects.anthropic.parts import Block, refuse
from addon.dialects.anthropic.request import to_request as to_messages_api
from addon.text.json_encode import encode_json
from policies.family import Family
from policies.large_text import LargeText, whole_text

INFERENCE_NAMES: Final = MappingProxyType(
    {
        "max_tokens": "maxTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "stop_sequences": "stopSequences",
    }
)
_READ: Final = frozenset(
    {
        *("model", "messages", "system", "stream", "tools", "tool_choice", "metadata", "output_config"),
        *INFERENCE_NAMES,
    }
)
"""Members of the Messages API that have a place of their own in Converse, or none. The others are the model's own."""
_EFFORT: Final = "reasoning_effort"
_TOOL_BLOCKS: Final = frozenset({"tool_use", "tool_result"})
# Source: Amazon Bedrock, API reference, "DocumentBlock": letters, digits, single spaces, hyphens and brackets.
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MAX_NAME_CHARS: Final = 200


def to_request(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the native body. Raises Refusal ``validation_failed``, naming the field that Converse can't express.

    Fields of ``family.extra`` that are not chat fields go to ``additionalModelRequestFields`` unchanged. An effort does
    so too, unless the family has ``thinking``, which it becomes.
    """
    _check_sources(body["messages"])
    thinks = "thinking" in family.extra
    asked = {name: value for name, value in body.items() if thinks or name != _EFFORT}
    asked["messages"] = [_with_decoded_reasoning(message) for message in body["messages"]]
    made = to_messages_api(asked, family)
    native: dict[str, Any] = {"messages": [_turn(turn) for turn in made["messages"]]}
    if system := made.get("system"):
        native["system"] = _blocks([{"type": "text", "text": system}] if isinstance(system, str) else system)
    native["inferenceConfig"] = {
        theirs: made[ours] for ours, theirs in INFERENCE_NAMES.items() if ours in made
    }
    native |= _tools(made)
    own = {name: value for name, value in made.items() if name not in _READ}
    output = dict(made.get("output_config", {}))
    if wanted := output.pop("format", None):
        native["outputConfig"] = {"textFormat": _text_format(wanted["schema"])}
    if output:
        own["output_config"] = output
    if not thinks and _EFFORT in family.extra and _EFFORT in body:
        own[_EFFORT] = body[_EFFORT]
    return native | ({"additionalModelRequestFields": own} if own else {})


def _check_sources(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse pictures and files that are not sent with the request: Converse reads no URL."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for at, part in enumerate(content if isinstance(content, list) else ()):
            for holder, name in (("image_url", "url"), ("file", "file_data")):
                held = part.get(holder)
                source = held.get(name) if isinstance(held, dict) else None
                if isinstance(source, str) and source[:5].lower() != "data:":
                    refuse(f"messages.{index}.content.{at}.{holder}.{name}", "It must be a base64 data URL.")


def _with_decoded_reasoning(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose sealed reasoning is no long text: Converse wants it in base64."""
    details = message.get("reasoning_details")
    return message if details is None else {**message, "reasoning_details": _decoded(details)}


def _turn(turn: Block) -> Block:
    return {"role": turn["role"], "content": _blocks(turn["content"])}


def _blocks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks under their names in Converse, each followed by its cache point."""
    made = []
    for block in blocks:
        made.append(_block(block))
        made += _cache_point(block)
    return made


def _cache_point(holder: Mapping[str, Any]) -> list[Block]:
    mark = holder.get("cache_control")
    if mark is None:
        return []
    ttl = mark.get("ttl") if isinstance(mark, dict) else None
    return [{"cachePoint": {"type": "default"} | ({"ttl": ttl} if ttl else {})}]


def _block(block: Block) -> Block:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "image":
            return {"image": _media(block["source"])}
        case "document":
            return {"document": {**_media(block["source"]), "name": _document_name(block.get("title"))}}
        case "tool_use":
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case "tool_result":
            return {
                "toolResult": {
                    "toolUseId": block["tool_use_id"],
                    "content": [_block(one) for one in block.get("content", ())],
                }
            }
        case "thinking":
            said = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": said}}
        case "redacted_thinking":
            sealed = base64.b64encode(block["data"].encode("utf-8", "surrogatepass")).decode()
            return {"reasoningContent": {"redactedContent": sealed}}
    raise ValueError(f"no block of Converse for {block['type']}")


def _media(source: Mapping[str, str]) -> dict[str, Any]:
    return {"format": source["media_type"].rpartition("/")[2], "source": {"bytes": source["data"]}}


def _document_name(title: str | None) -> str:
    """Return the name of a document, which Converse requires, without the characters that it refuses."""
    name = _NOT_IN_NAME.sub(" ", whole_text(title or "")).strip()
    return name[:_MAX_NAME_CHARS].strip() or "document"


def _tools(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``toolConfig``.

    Converse has no choice ``none``. Without tools the model can call none, but Converse requires the tools of a
    conversation that has calls. It can't keep a model from parallel calls either.
    """
    choice = made.get("tool_choice", {})
    if not made.get("tools"):
        return {}
    if choice.get("type") == "none":
        if any(block["type"] in _TOOL_BLOCKS for turn in made["messages"] for block in turn["content"]):
            refuse("tool_choice", "The model does not support 'none' in a conversation with tool calls.")
        return {}
    config: dict[str, Any] = {"tools": [spec for tool in made["tools"] for spec in _tool(tool)]}
    match choice.get("type"):
        case "any":
            config["toolChoice"] = {"any": {}}
        case "tool":
            config["toolChoice"] = {"tool": {"name": choice["name"]}}
        case "auto":
            config["toolChoice"] = {"auto": {}}
    return {"toolConfig": config}


def _tool(tool: Block) -> list[Block]:
    spec: Block = {"name": tool["name"], "inputSchema": {"json": tool["input_schema"]}}
    if tool.get("description"):
        spec["description"] = tool["description"]
    if tool.get("strict"):
        spec["strict"] = True
    return [{"toolSpec": spec}, *_cache_point(tool)]


def _text_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    text = encode_json(_decoded(schema)).decode()
    return {"type": "json_schema", "structure": {"jsonSchema": {"schema": text, "name": "answer"}}}


def _decoded(value: Any) -> Any:
    """Return a JSON value without long texts that are still encoded: the dialect encodes it in another way."""
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    return whole_text(value) if isinstance(value, LargeText) else value

"""Requests of Gemini's native API as chat requests, and their meaning, in the types of the official SDK.

Nothing here is shared with ``addon/``.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

type Native = Mapping[str, Any]

ELIDED = re.compile(r"[A-Za-z0-9+/=_-]*<elided \d+ base64 chars>[A-Za-z0-9+/=_-]*")
CONFIG = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "candidateCount": "n",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "stopSequences": "stop",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
    "thinkingConfig": "thinking_config",
}
MODES = {"AUTO": "auto", "NONE": "none"}


class GenerateContentRequest(BaseModel):
    """The body of generateContent. The SDK has no type for it, only for its parts; these forbid unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", val_json_bytes="base64")

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    generation_config: types.GenerationConfig | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    cached_content: str | None = None


def check(native: Native) -> None:
    """Raise unless the SDK's types accept ``native`` with the names of the REST API and without other keys."""
    accepted = GenerateContentRequest.model_validate_json(json.dumps(native))
    read_back = accepted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert keys(read_back) == keys(native)


def keys(value: Any) -> Any:
    """Return the keys of all objects, without their values."""
    if isinstance(value, Mapping):
        return {name: keys(member) for name, member in value.items()}
    return [keys(member) for member in value] if isinstance(value, list) else None


# --- as a chat request -----------------------------------------------------------------------------------------


def rest_names(value: Any) -> Any:
    """Return a recorded request with the names of the API, which also accepts snake_case and an object as an array.

    Put some base64 where it was cut out of a recording, and remove nulls.
    """
    if isinstance(value, Mapping):
        return {_rest_name(name): rest_names(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [rest_names(member) for member in value]
    return ELIDED.sub("AAAA", value) if isinstance(value, str) else value


def _rest_name(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail) if head else name


def chat_request_of(native: Native) -> dict[str, Any]:
    """Return the chat request with the same meaning; ``native`` has the names of the API.

    A call or a result without an id gets one by its position, because each chat call has one.
    """
    chat: dict[str, Any] = {"messages": _messages(native)}
    config = native.get("generationConfig") or {}
    chat |= {ours: config[theirs] for theirs, ours in CONFIG.items() if theirs in config}
    if response_format := _response_format(config):
        chat["response_format"] = response_format
    if tools := [tool for given in _array(native.get("tools")) for tool in _tools(given)]:
        chat["tools"] = tools
    if calling := (native.get("toolConfig") or {}).get("functionCallingConfig"):
        chat["tool_choice"] = _tool_choice(calling)
    if safety := _safety(native):
        chat["safety_settings"] = safety
    return chat | ({"cached_content": native["cachedContent"]} if "cachedContent" in native else {})


def _safety(native: Native) -> list[dict[str, Any]]:
    """Return the settings without those that write an enumeration as a number, which the SDK's types don't know."""
    return [one for one in native.get("safetySettings") or () if isinstance(one["category"], str)]


def _array(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _messages(native: Native) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if system := _array((native.get("systemInstruction") or {}).get("parts")):
        messages.append({"role": "system", "content": [_part(part) for part in system]})
    open_calls: list[tuple[str, str]] = []
    for content in _array(native["contents"]):
        parts = _array(content["parts"])
        if content.get("role") == "model":
            messages.append(_assistant(parts, open_calls))
            continue
        others = [part for part in parts if "functionResponse" not in part]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += [_tool_message(response, open_calls) for response in responses]
        if others:
            role = content.get("role", "user")
            messages.append({"role": role, "content": [_part(part) for part in others]})
    return messages


def _assistant(parts: list[dict[str, Any]], open_calls: list[tuple[str, str]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    thoughts = [part["text"] for part in parts if part.get("thought")]
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    said = [part for part in parts if "functionCall" not in part and not part.get("thought")]
    if said:
        message["content"] = [_part(part) for part in said]
    for part in said:
        message |= _signed(part)
    calls = []
    for part in parts:
        if call := part.get("functionCall"):
            call_id = call.get("id") or f"unnamed-{len(open_calls)}"
            open_calls.append((call["name"], call_id))
            function = {"name": call["name"], "arguments": json.dumps(call.get("args", {}))}
            calls.append({"id": call_id, "type": "function", "function": function} | _signed(part))
    return message | {"tool_calls": calls} if calls else message


def _signed(part: Native) -> dict[str, Any]:
    signature = part.get("thoughtSignature")
    return {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}


def _tool_message(response: Native, open_calls: list[tuple[str, str]]) -> dict[str, Any]:
    given = response.get("id")
    match = next(one for one in open_calls if one[0] == response["name"] and given in (None, one[1]))
    open_calls.remove(match)
    result = response["response"]
    text = result["result"] if set(result) == {"result"} else None
    # A text that is a JSON object would be read as an object.
    plain = isinstance(text, str) and not text.lstrip().startswith("{")
    return {"role": "tool", "tool_call_id": match[1], "content": text if plain else json.dumps(result)}


def _part(part: Native) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if blob := part.get("inlineData"):
        kind, _, subtype = blob["mimeType"].partition("/")
        if kind == "audio":
            return {"type": "input_audio", "input_audio": {"data": blob["data"], "format": subtype}}
        url = f"data:{blob['mimeType']};base64,{blob['data']}"
        if kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"file_data": url}}
    return {"type": "image_url", "image_url": {"url": part["fileData"]["fileUri"]}}


def _tools(given: Native) -> list[dict[str, Any]]:
    declared = _array(given.get("functionDeclarations"))
    others = [{"type": name} for name in given if name != "functionDeclarations"]
    return [{"type": "function", "function": _function(one)} for one in declared] + others


def _function(declaration: Native) -> dict[str, Any]:
    made = {name: declaration[name] for name in ("name", "description") if name in declaration}
    if schema := declaration.get("parametersJsonSchema", declaration.get("parameters")):
        made["parameters"] = json_schema(schema)
    return made


def _response_format(config: Native) -> dict[str, Any] | None:
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    if schema is not None:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": json_schema(schema)}}
    return {"type": "json_object"} if config.get("responseMimeType") == "application/json" else None


def json_schema(schema: Any) -> Any:
    """Return a schema of Gemini, with types in capitals, as JSON schema."""
    if isinstance(schema, Mapping):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else json_schema(value)
            for name, value in schema.items()
        }
    return [json_schema(one) for one in schema] if isinstance(schema, list) else schema


def _tool_choice(calling: Native) -> Any:
    mode, allowed = calling["mode"].upper(), calling.get("allowedFunctionNames", [])
    if mode == "ANY":
        one = {"type": "function", "function": {"name": allowed[0]}} if len(allowed) == 1 else None
        return one or "required"
    return MODES[mode]


# --- its meaning -----------------------------------------------------------------------------------------------


def meaning(native: Native) -> dict[str, Any]:
    """Return a normal form of a request; ``native`` has the names of the API.

    It leaves out ids, which are optional, the placeholder for a signature, and the name of the model.
    """
    config = {name: value for name, value in (native.get("generationConfig") or {}).items() if value != []}
    formatted = _response_format(config)
    for name in ("responseSchema", "responseJsonSchema", "responseMimeType", "responseModalities"):
        config.pop(name, None)
    calling = (native.get("toolConfig") or {}).get("functionCallingConfig")
    tools = [tool for given in _array(native.get("tools")) for tool in _tools(given)]
    return {
        "contents": _merged(_array(native["contents"])),
        "system": [_part(part) for part in _array((native.get("systemInstruction") or {}).get("parts"))],
        "config": config,
        "format": formatted,
        "tools": tools,
        "tool_choice": _tool_choice(calling) if calling else None,
        "safety": _safety(native),
        "cached": native.get("cachedContent"),
    }


def _merged(contents: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    merged: list[tuple[str, list[Any]]] = []
    for content in contents:
        role = content.get("role", "user")
        parts = [_meaning(part) for part in _array(content["parts"])]
        parts = [part for part in parts if part != {"text": ""}] or parts
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(parts)
        else:
            merged.append((role, parts))
    return merged


def _meaning(part: dict[str, Any]) -> dict[str, Any]:
    made = {name: value for name, value in part.items() if value is not False}
    for name in ("functionCall", "functionResponse"):
        if name in made:
            made[name] = {"args": {}} | {key: made[name][key] for key in made[name] if key != "id"}
    if signature := made.get("thoughtSignature"):
        decoded = base64.b64decode(signature.replace("-", "+").replace("_", "/") + "==")
        made["thoughtSignature"] = decoded
        if decoded == b"skip_thought_signature_validator":
            del made["thoughtSignature"]
    return made

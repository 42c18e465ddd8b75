"""Chat messages become the input items of the Responses API. Pure.

Each message is an item; a tool call and a tool's result are items of their own, and so is reasoning. Items have no ids:
the API takes them without, and looks up items with an id among those that it stored. Source: OpenAI, API reference,
"Create a model response" (input); "Reasoning models", "Keeping reasoning items in context"; recorded traffic.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn

from policies.refusal import Refusal

FORMAT: Final = "openai-responses-v1"
"""The ``reasoning_details`` format of encrypted reasoning. Source: OpenRouter, "Reasoning Tokens"."""

type Item = dict[str, Any]

_ROLES: Final = ("system", "developer", "user")


def refuse(field: str, reason: str) -> NoReturn:
    """Raise the Refusal ``validation_failed`` that names ``field``, a path such as ``messages.0.content.1``."""
    raise Refusal("validation_failed", f"{field}: {reason}", field)


def to_items(messages: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the input items. Raises Refusal for a message that the API can't express."""
    items: list[Item] = []
    custom_calls: set[str] = set()
    for index, message in enumerate(messages):
        place, role = f"messages.{index}", message["role"]
        if role in _ROLES:
            items.append({"role": role, "content": _content(message, f"{place}.content", _INPUT_PARTS)})
        elif role == "assistant":
            items += _assistant_items(message, place, custom_calls)
        elif role == "tool":
            items.append(_output(message, place, custom_calls))
        else:
            refuse(
                f"{place}.role", "The model supports the roles system, developer, user, assistant and tool."
            )
    return items


def _assistant_items(message: Mapping[str, Any], place: str, custom_calls: set[str]) -> list[Item]:
    """Return what the model said: reasoning, which something must follow, then text, then calls."""
    content = _content(message, f"{place}.content", _OUTPUT_PARTS)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        said = (
            [{"type": "output_text", "text": content}]
            if isinstance(content, str) and content
            else content or []
        )
        content = [*said, {"type": "refusal", "refusal": refusal}]
    calls = [
        _call(call, f"{place}.tool_calls.{at}", custom_calls)
        for at, call in enumerate(message.get("tool_calls") or ())
    ]
    items = [{"role": "assistant", "content": content}] if content or not calls else []
    reasoning = _reasoning_items(message.get("reasoning_details"), f"{place}.reasoning_details")
    return [*(reasoning if content or calls else ()), *items, *calls]


def _reasoning_items(details: object, field: str) -> list[Item]:
    """Return the encrypted reasoning of this API. That of other models means nothing to it."""
    if details is None:
        return []
    if not isinstance(details, list) or not all(isinstance(detail, dict) for detail in details):
        refuse(field, "Input should be an array of objects.")
    sealed = [
        detail["data"]
        for detail in details
        if detail.get("type") == "reasoning.encrypted"
        and detail.get("format") == FORMAT
        and isinstance(detail.get("data"), str)
        and detail["data"]
    ]
    return [{"type": "reasoning", "summary": [], "encrypted_content": data} for data in sealed]


def _call(call: Mapping[str, Any], place: str, custom_calls: set[str]) -> Item:
    if call["type"] == "function":
        function = call["function"]
        named = {"call_id": call["id"], "name": function["name"]}
        return {"type": "function_call", **named, "arguments": function.get("arguments") or "{}"}
    if call["type"] != "custom":
        refuse(f"{place}.type", "The model supports calls of functions and of custom tools.")
    custom = call.get("custom")
    name, text = _string(custom, "name", f"{place}.custom"), _string(custom, "input", f"{place}.custom")
    custom_calls.add(call["id"])
    return {"type": "custom_tool_call", "call_id": call["id"], "name": name, "input": text}


def _output(message: Mapping[str, Any], place: str, custom_calls: set[str]) -> Item:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        refuse(f"{place}.tool_call_id", "A tool message needs the id of the call that it answers.")
    kind = "custom_tool_call_output" if call_id in custom_calls else "function_call_output"
    output = _content(message, f"{place}.content", _INPUT_PARTS)
    if isinstance(output, list) and len(output) == 1 and output[0]["type"] == "input_text":
        output = output[0]["text"]  # Not every server takes parts here.
    return {"type": kind, "call_id": call_id, "output": output}


def _content(
    message: Mapping[str, Any], field: str, kinds: Mapping[str, Callable[..., Item]]
) -> str | list[Item]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for index, part in enumerate(content):
        if (make := kinds.get(part["type"])) is None:
            taken = ", ".join(kinds)
            refuse(f"{field}.{index}", f"The model accepts only parts of these types here: {taken}.")
        parts.append(make(part, f"{field}.{index}"))
    return parts


def _input_text(part: Mapping[str, Any], place: str) -> Item:
    return {"type": "input_text", "text": _string(part, part["type"], place)}


def _output_text(part: Mapping[str, Any], place: str) -> Item:
    return {"type": "output_text", "text": _string(part, "text", place)}


def _refusal(part: Mapping[str, Any], place: str) -> Item:
    return {"type": "refusal", "refusal": _string(part, "refusal", place)}


def _image(part: Mapping[str, Any], place: str) -> Item:
    image = part.get("image_url")
    url = image if isinstance(image, str) else _string(image, "url", f"{place}.image_url")
    detail = image.get("detail") if isinstance(image, Mapping) else None
    return {"type": "input_image", "image_url": url, "detail": detail or "auto"}


def _file(part: Mapping[str, Any], place: str) -> Item:
    file = part.get("file")
    if isinstance(file, Mapping) and isinstance(file_id := file.get("file_id"), str):
        return {"type": "input_file", "file_id": file_id}
    data = _string(file, "file_data", f"{place}.file")
    if data[:4].lower() == "http":
        return {"type": "input_file", "file_url": data}
    name = file.get("filename") if isinstance(file, Mapping) else None
    return {"type": "input_file", "file_data": data, "filename": name or _UNNAMED}


def _string(holder: object, name: str, place: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    if not isinstance(value, str):
        refuse(f"{place}.{name}", "Input should be a string.")
    return value


_UNNAMED: Final = "file"
_INPUT_PARTS: Final[Mapping[str, Callable[..., Item]]] = MappingProxyType(
    {"text": _input_text, "refusal": _input_text, "image_url": _image, "file": _file}
)
_OUTPUT_PARTS: Final[Mapping[str, Callable[..., Item]]] = MappingProxyType(
    {"text": _output_text, "refusal": _refusal}
)

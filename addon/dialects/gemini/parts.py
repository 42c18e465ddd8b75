"""The parts of one candidate become members of a chat message. A part of another kind is passed on. Pure.

Source: Gemini API reference, "Part"; recorded traffic; for pictures OpenRouter, "Image generation".
"""

from typing import Any

from addon.text.json_encode import encode_json


def read_parts(parts: object, call_prefix: str, first_call: int) -> dict[str, Any]:
    """Return the members that ``parts`` add: content, reasoning_content, tool_calls, images, extra_content.

    Calls are numbered from ``first_call`` on. A call without an id gets ``call_prefix`` and its number. Raises
    ValueError for anything but parts.
    """
    added: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    google: dict[str, Any] = {}
    for part in objects(parts):
        text = part.get("text")
        if isinstance(text, str):
            if text:
                name = "reasoning_content" if part.get("thought") else "content"
                added[name] = added.get(name, "") + text
        elif "functionCall" in part:
            number = first_call + len(calls)
            calls.append(_call(part, f"{call_prefix}{number}", number))
            continue
        elif (picture := _picture(part)) is not None:
            added.setdefault("images", []).append(picture)
        else:
            google.setdefault("parts", []).append(part)
            continue
        if signature := part.get("thoughtSignature"):
            google["thought_signature"] = signature
    if calls:
        added["tool_calls"] = calls
    if google:
        added["extra_content"] = {"google": google}
    return added


def objects(given: object) -> list[dict[str, Any]]:
    """Return an array of objects as it is. Raises ValueError for anything else."""
    if isinstance(given, list):
        for one in given:
            if not isinstance(one, dict):
                break
        else:
            return given
    raise ValueError("not an array of objects")


def _call(part: dict[str, Any], made_id: str, number: int) -> dict[str, Any]:
    """Return one call, with its signature where Google's own compatible endpoint puts it."""
    function = part["functionCall"]
    if not isinstance(function, dict) or not isinstance(name := function.get("name"), str):
        raise ValueError("a call has no function")
    arguments = function.get("args")
    if arguments is not None and not isinstance(arguments, dict):
        raise ValueError("arguments are not an object")
    call = {
        "index": number,
        "id": given if (given := function.get("id")) and isinstance(given, str) else made_id,
        "type": "function",
        "function": {"name": name, "arguments": encode_json(arguments or {}).decode()},
    }
    if signature := part.get("thoughtSignature"):
        call["extra_content"] = {"google": {"thought_signature": signature}}
    return call


def _picture(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return a picture of the answer, or None. A picture of the model's thoughts is not part of the answer."""
    blob = part.get("inlineData")
    if not isinstance(blob, dict) or part.get("thought"):
        return None
    mime_type, encoded = blob.get("mimeType"), blob.get("data")
    if not isinstance(encoded, str) or not isinstance(mime_type, str) or not mime_type.startswith("image/"):
        return None
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{encoded}"}}

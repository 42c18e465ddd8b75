"""A chat conversation becomes Gemini's contents. No message is left out, and none is invented. Pure.

Source: Gemini API reference, "Content", "FunctionResponse"; Google, "Thought signatures"; recorded traffic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from addon.text.json_decode import decode_object
from policies.large_text import whole_text
from policies.refusal import Refusal

# Base64 of "skip_thought_signature_validator", for calls that another model made. Source: Google, "Thought signatures",
# FAQ. A recording shows that gemini-2.0-flash accepts it too.
FOREIGN_SIGNATURE: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

_ROLES: Final = {"user": "user", "assistant": "model", "tool": "user"}
_SYSTEM: Final = ("system", "developer")
# Source: Google, "Image understanding", "Video understanding", "Audio understanding", "Document understanding".
_MIME_TYPES: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "gif": "image/gif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/mov",
}

# Source: Google, "Function calling", "Multimodal function responses".
_RESULT_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})

_OWN_API: Final = "googleapis.com"

type Part = dict[str, Any]


@dataclass(slots=True)
class Conversation:
    """``contents`` alternate between the roles user and model. ``system`` has the parts of ``systemInstruction``."""

    contents: list[dict[str, Any]] = field(default_factory=list)
    system: list[Part] = field(default_factory=list)


def conversation(
    messages: Sequence[Mapping[str, Any]], checks_signatures: bool, result_media: bool = False
) -> Conversation:
    """Return the conversation for Gemini. ``checks_signatures``: the model refuses calls without a signature.

    ``result_media``: the model takes pictures and files inside of a tool's result. Else they follow it.

    Raises Refusal ``validation_failed``, naming the field, for a message that Gemini can't express.
    """
    made = Conversation()
    names: dict[str, str] = {}  # the function of each call so far, by the call's id
    for index, message in enumerate(messages):
        at, role = f"messages.{index}", message["role"]
        if role in _SYSTEM:
            made.system += _content(message, at, text_only=True)
            continue
        if role == "tool":
            parts = _result(message, names, at, result_media)
        elif role == "assistant":
            names |= {call["id"]: call["function"]["name"] for call in _calls(message, at)}
            parts = _assistant(message, at, checks_signatures)
        elif role in _ROLES:
            parts = _content(message, at)
        else:
            raise refusal(f"{at}.role", "Gemini supports system, developer, user, assistant and tool")
        _add(made.contents, _ROLES[role], parts or [{"text": ""}])
    if not made.contents:
        raise refusal("messages", "Gemini needs a message that is not a system message")
    return made


def _add(contents: list[dict[str, Any]], role: str, parts: list[Part]) -> None:
    """Add a message. Messages of one side in a row are one content, because Gemini's roles alternate.

    The results of tools come first in it: they answer the calls right before.
    """
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"] += parts
    else:
        contents.append({"role": role, "parts": parts})
    if role == "user":
        contents[-1]["parts"].sort(key=lambda part: "functionResponse" not in part)


# --- messages of the model -------------------------------------------------------------------------------------


def _assistant(message: Mapping[str, Any], at: str, checks_signatures: bool) -> list[Part]:
    thoughts: list[Part] = []
    if isinstance(reasoning := message.get("reasoning_content"), str) and reasoning:
        thoughts.append({"text": reasoning, "thought": True})
    content = _content(message, at)
    if signature := _signature(message):
        content = content or [{"text": ""}]
        content[-1]["thoughtSignature"] = signature
    calls = [_call(call, f"{at}.tool_calls.{index}") for index, call in enumerate(_calls(message, at))]
    if calls and checks_signatures:
        # Of several calls at once, Gemini signs only the first.
        calls[0].setdefault("thoughtSignature", FOREIGN_SIGNATURE)
    return thoughts + content + calls


def _calls(message: Mapping[str, Any], at: str) -> Sequence[Mapping[str, Any]]:
    calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
    for index, call in enumerate(calls):
        if call.get("type") != "function":
            raise refusal(f"{at}.tool_calls.{index}.type", "Gemini supports only calls of functions")
    return calls


def _call(call: Mapping[str, Any], at: str) -> Part:
    function = call["function"]
    arguments = _object(whole_text(function.get("arguments") or "{}"))
    if arguments is None:
        raise refusal(f"{at}.function.arguments", "Gemini takes a JSON object only")
    made: Part = {"functionCall": {"name": function["name"], "args": arguments}}
    if call["id"]:
        made["functionCall"]["id"] = call["id"]
    if signature := _signature(call):
        made["thoughtSignature"] = signature
    return made


def _signature(thing: Mapping[str, Any]) -> str | None:
    """Return a signature from the place where Google's own compatible endpoint puts it."""
    found: Any = thing
    for name in ("extra_content", "google", "thought_signature"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) and found else None


def _result(message: Mapping[str, Any], names: Mapping[Any, str], at: str, result_media: bool) -> list[Part]:
    """Return the result of a tool, and the parts that follow it: pictures and files that it can't hold."""
    call_id = message.get("tool_call_id")
    if call_id not in names:
        raise refusal(f"{at}.tool_call_id", "no earlier message of the assistant has a call with this id")
    parts = _content(message, at)
    text = "".join(part["text"] for part in parts if "text" in part)
    response = _object(text)
    made: Part = {"name": names[call_id], "response": {"result": text} if response is None else response}
    inside: list[Part] = []
    after: list[Part] = []
    for part in parts:
        if "text" not in part:
            (inside if result_media and _fits_result(part) else after).append(part)
    made |= {"parts": inside} if inside else {}
    made |= {"id": call_id} if call_id else {}
    return [{"functionResponse": made}, *after]


def _fits_result(part: Part) -> bool:
    """Return whether a result can hold a picture or file: its bytes, of certain types, and no address."""
    return part.get("inlineData", {}).get("mimeType") in _RESULT_TYPES


def _object(text: str) -> dict[str, Any] | None:
    """Return ``text`` parsed as a JSON object, or None."""
    try:
        return decode_object(text.encode())
    except Refusal:
        return None


# --- parts -----------------------------------------------------------------------------------------------------


def _content(message: Mapping[str, Any], at: str, *, text_only: bool = False) -> list[Part]:
    content = message.get("content")
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"text": content}]
    parts = [_part(part, f"{at}.content.{index}") for index, part in enumerate(content)]
    for index, part in enumerate(parts):
        if text_only and "text" not in part:
            raise refusal(f"{at}.content.{index}", f"Gemini takes only text from the role {message['role']}")
    return parts


def _part(part: Mapping[str, Any], at: str) -> Part:
    kind = part["type"]
    if kind in ("text", "refusal"):
        return {"text": _text(part, kind, at)}
    if kind == "image_url":
        return _media(_text(part.get(kind), "url", f"{at}.{kind}"), f"{at}.{kind}.url")
    if kind == "file":
        return _media(_text(part.get(kind), "file_data", f"{at}.{kind}"), f"{at}.{kind}.file_data")
    if kind == "input_audio":
        sound, where = part.get(kind), f"{at}.{kind}"
        mime_type = f"audio/{_text(sound, 'format', where)}"
        return {"inlineData": {"mimeType": mime_type, "data": _text(sound, "data", where)}}
    raise refusal(at, "Gemini takes parts of type text, image_url, input_audio and file")


def _text(thing: Any, name: str, at: str) -> str:
    value = thing.get(name) if isinstance(thing, Mapping) else None
    if not isinstance(value, str):
        raise refusal(f"{at}.{name}", "must be a string")
    return value


def _media(url: str, at: str) -> Part:
    """Return the part of a data URL's bytes, or of an address that Gemini fetches.

    A ``gs://`` address is refused, and one of Google's own API: Gemini would read it with the rights of the gateway's
    own account.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "data":
        head, comma, encoded = rest.partition(",")
        mime_type, *parameters = head.split(";")
        if not comma or "/" not in mime_type or parameters[-1:] != ["base64"]:
            raise refusal(at, "a data URL must say its media type and be base64")
        return {"inlineData": {"mimeType": mime_type, "data": encoded}}
    if scheme not in ("http", "https"):
        raise refusal(at, "must be a data URL or an http(s) URL")
    host, extension = _host_and_extension(url, at)
    if host == _OWN_API or host.endswith(f".{_OWN_API}"):
        raise refusal(at, "must not be an address of Google's own API")
    named = {"fileUri": url}
    if mime_type := _MIME_TYPES.get(extension, ""):
        named["mimeType"] = mime_type
    return {"fileData": named}


def _host_and_extension(url: str, at: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        raise refusal(at, "is not a URL") from None
    if not host:
        raise refusal(at, "is not a URL")
    return host, parts.path.rpartition(".")[2].lower()


def refusal(field_name: str, why: str) -> Refusal:
    """Return the refusal of a value that Gemini can't express. ``field_name`` is a dotted path in the body."""
    return Refusal("validation_failed", f"{field_name}: {why}.", field_name)

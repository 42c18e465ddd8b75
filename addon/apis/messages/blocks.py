"""Content blocks become parts of chat messages. Pure.

A block that means nothing to another provider is left out and named. One without which the question would be another
is an obstacle. Source: Anthropic, API reference, "Create a Message" (content); the types of its Python SDK 2.12.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat_body import Losses
from policies.large_text import prefixed

type Block = Mapping[str, Any]
type Part = dict[str, Any]

CARRIED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "text": frozenset({"text"}),
        "image": frozenset({"source"}),
        "document": frozenset({"source", "title", "context"}),
        "search_result": frozenset({"source", "title", "content"}),
        "tool_use": frozenset({"id", "name", "input"}),
        "tool_result": frozenset({"tool_use_id", "content", "is_error"}),
        "thinking": frozenset({"thinking", "signature"}),
        "redacted_thinking": frozenset({"data"}),
    }
)
"""The members of each block that a chat message carries, besides ``type`` and ``cache_control``."""

DEFAULT_FILENAME: Final = "document.pdf"
"""The name of a document without a title. OpenAI wants one."""

_MARK: Final = "cache_control"
_COMMON: Final = frozenset({"type", _MARK})
# What an answer says of a call of the client's own tools.
_DIRECT: Final = {"type": "direct"}
_NO_FILES: Final = "The model takes only what is sent with the request: base64, text or a URL."


def make_parts(blocks: Sequence[Block], place: str, losses: Losses) -> list[Part]:
    """Return the parts of ``blocks``; ``place`` is the path of their array in the request."""
    return [
        part for index, block in enumerate(blocks) for part in make_part(block, f"{place}.{index}", losses)
    ]


def make_part(block: Block, place: str, losses: Losses) -> list[Part]:
    """Return the parts of one block of a user or of a tool's result, often one."""
    make = _MAKERS.get(block["type"])
    if make is None:
        losses.refuse(place, f"The model takes blocks of these types here: {', '.join(_MAKERS)}.")
        return []
    note_uncarried(block, losses)
    parts = make(block, place, losses)
    return [*parts[:-1], with_mark(parts[-1], block)] if parts else []


def note_uncarried(block: Block, losses: Losses) -> None:
    """Note the members of a block of a known type that a chat message has no place for."""
    for name in block.keys() - CARRIED[block["type"]] - _COMMON:
        value = block[name]
        if value is not None and value != _DIRECT and value != {"enabled": False}:
            losses.drop(f"messages.{name}")


def with_mark(part: Part, source: Mapping[str, Any]) -> Part:
    """Return ``part`` with the cache breakpoint of ``source``, if it has one."""
    mark = source.get(_MARK)
    return part if mark is None else {**part, _MARK: mark}


def make_content(parts: list[Part]) -> str | list[Part]:
    """Return parts as the content of a message: one plain text as a string, which every provider takes."""
    if not parts:
        return ""
    is_plain = len(parts) == 1 and parts[0].keys() == {"type", "text"}
    return parts[0]["text"] if is_plain else parts


def join_texts(parts: list[Part]) -> str | list[Part]:
    """Return the texts of an assistant as one string, if none has a mark and none is long."""
    if all(part.keys() == {"type", "text"} and type(part["text"]) is str for part in parts):
        return "".join([part["text"] for part in parts])
    return make_content(parts)


def text_part(text: str) -> Part:
    """Return a part of text."""
    return {"type": "text", "text": text}


def _text(block: Block, _place: str, _losses: Losses) -> list[Part]:
    return [text_part(block["text"])]


def _image(block: Block, place: str, losses: Losses) -> list[Part]:
    url = _url(block["source"])
    if url is None:
        losses.refuse(f"{place}.source", _NO_FILES)
        return []
    return [{"type": "image_url", "image_url": {"url": url}}]


def _document(block: Block, place: str, losses: Losses) -> list[Part]:
    source = block["source"]
    match source["type"]:
        case "text":
            return [*_heading(block, "title", "context"), text_part(source["data"])]
        case "content":
            return [*_heading(block, "title", "context"), *_nested(source["content"], place, losses)]
    url = _url(source)
    if url is None:
        losses.refuse(f"{place}.source", _NO_FILES)
        return []
    named = {"filename": block.get("title") or DEFAULT_FILENAME, "file_data": url}
    return [*_heading(block, "context"), {"type": "file", "file": named}]


def _nested(content: object, place: str, losses: Losses) -> list[Part]:
    if isinstance(content, str):
        return [text_part(content)]
    return make_parts(content, f"{place}.source.content", losses) if isinstance(content, list) else []


def _search_result(block: Block, place: str, losses: Losses) -> list[Part]:
    return [*_heading(block, "title", "source"), *make_parts(block["content"], f"{place}.content", losses)]


def _heading(block: Block, *names: str) -> list[Part]:
    """Return what a block says about its content, as a text before it."""
    lines = [value for name in names if isinstance(value := block.get(name), str) and value]
    return [text_part("\n".join(lines))] if lines else []


def _url(source: Mapping[str, Any]) -> str | None:
    """Return the address of a picture or document, or a data URL; None for one that is stored elsewhere."""
    match source["type"]:
        case "url":
            url: str = source["url"]
            return url
        case "base64":
            return prefixed(f"data:{source['media_type']};base64,", source["data"])
    return None


_MAKERS: Final[Mapping[str, Callable[[Block, str, Losses], list[Part]]]] = MappingProxyType(
    {"text": _text, "image": _image, "document": _document, "search_result": _search_result}
)

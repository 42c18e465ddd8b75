"""The content of items becomes the content of chat messages. Pure.

A part that is no text and has no word in the chat shape stays as it is: the provider's dialect refuses it by name.
Source: OpenAI, "Create a model response" (input), "Create chat completion" (messages).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat_body import Losses

type Part = dict[str, Any]

CARRIED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "input_text": frozenset({"text"}),
        "output_text": frozenset({"text", "annotations", "logprobs"}),
        "refusal": frozenset({"refusal"}),
        "input_image": frozenset({"image_url", "file_id", "detail"}),
        "input_file": frozenset({"file_data", "file_url", "file_id", "filename", "detail"}),
        "input_audio": frozenset({"input_audio"}),
    }
)
"""The members of each part that a chat message carries, or that say nothing to a model."""

DEFAULT_FILENAME: Final = "document.pdf"
"""The name of a file without one. OpenAI wants one with its bytes."""

_BREAKPOINT: Final = "prompt_cache_breakpoint"
_COMMON: Final = frozenset({"type", _BREAKPOINT})


def make_content(content: str | Sequence[Mapping[str, Any]], place: str, losses: Losses) -> str | list[Part]:
    """Return the content of a message; ``place`` is its path in the request."""
    return content if isinstance(content, str) else join_parts(make_parts(content, place, losses))


def make_parts(content: Sequence[Mapping[str, Any]], place: str, losses: Losses) -> list[Part]:
    """Return the parts of a chat message."""
    return [
        part for index, given in enumerate(content) for part in _make_part(given, f"{place}.{index}", losses)
    ]


def join_parts(parts: list[Part]) -> str | list[Part]:
    """Return parts as content: one plain text as a string, which every provider takes."""
    if not parts:
        return ""
    is_plain = len(parts) == 1 and parts[0].keys() == {"type", "text"}
    return parts[0]["text"] if is_plain else parts


def _make_part(given: Mapping[str, Any], place: str, losses: Losses) -> list[Part]:
    kind = given["type"]
    if (make := _MAKERS.get(kind)) is None:
        return [dict(given)]
    for name, value in given.items():
        if value is not None and name not in CARRIED[kind] and name not in _COMMON:
            losses.drop(f"input.content.{name}")
    parts = make(given, place, losses)
    if parts and given.get(_BREAKPOINT) is not None:
        # Where the provider marks the end of what it is to cache, this is its mark.
        parts[-1]["cache_control"] = {"type": "ephemeral"}
    return parts


def _text(given: Mapping[str, Any], _place: str, _losses: Losses) -> list[Part]:
    return [{"type": "text", "text": given["text"]}]


def _refusal(given: Mapping[str, Any], _place: str, _losses: Losses) -> list[Part]:
    return [{"type": "refusal", "refusal": given["refusal"]}]


def _image(given: Mapping[str, Any], place: str, losses: Losses) -> list[Part]:
    if (url := given.get("image_url")) is None:
        losses.refuse(f"{place}.file_id", "The model takes only a picture that is sent with the request.")
        return []
    image = {"url": url} | ({} if given.get("detail") is None else {"detail": given["detail"]})
    return [{"type": "image_url", "image_url": image}]


def _file(given: Mapping[str, Any], _place: str, losses: Losses) -> list[Part]:
    if given.get("detail") is not None:
        losses.drop("input.content.detail")
    sent = given.get("file_data") or given.get("file_url")
    if sent is None:
        return [{"type": "file", "file": {"file_id": given.get("file_id")}}]
    # The dialects of providers that fetch a file take its address in the place of its bytes.
    return [
        {"type": "file", "file": {"filename": given.get("filename") or DEFAULT_FILENAME, "file_data": sent}}
    ]


def _audio(given: Mapping[str, Any], _place: str, _losses: Losses) -> list[Part]:
    return [{"type": "input_audio", "input_audio": given["input_audio"]}]


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], str, Losses], list[Part]]]] = MappingProxyType(
    {
        "input_text": _text,
        "output_text": _text,
        "refusal": _refusal,
        "input_image": _image,
        "input_file": _file,
        "input_audio": _audio,
    }
)

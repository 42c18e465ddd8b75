"""The content of chat messages becomes blocks of Anthropic's Messages API. Pure.

Source: Anthropic, API reference, "Messages" (content); OpenAI, API reference, "Create chat completion" (content
parts); the API's 400s "text content blocks must be non-empty" and "must contain non-whitespace text".
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from policies.refusal import Refusal

type Block = dict[str, Any]

# A data URL up to its base64.
_DATA_URL: Final = re.compile(
    r"data:([\w.+-]{1,100}/[\w.+-]{1,100})(?:;[\w=.+-]{1,100}){0,8};base64,", re.IGNORECASE
)
_IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SYNONYMS: Final = MappingProxyType({"image/jpg": "image/jpeg"})


def refuse(field: str, reason: str) -> NoReturn:
    """Raise the Refusal ``validation_failed`` that names ``field``, a path such as ``messages.0.content.1``."""
    raise Refusal("validation_failed", f"{field}: {reason}", field)


def user_blocks(content: object, field: str) -> list[Block]:
    """Return the blocks of a user's or a tool's ``content``; ``field`` is its path in the request.

    Blank text is left out, because the API refuses it. Raises Refusal for a part that has no block in the API.
    """
    return _blocks(content, field, _USER_PARTS)


def text_blocks(content: object, field: str) -> list[Block]:
    """Return the blocks of the ``content`` of the system or the assistant, which is only text; see ``user_blocks``."""
    return _blocks(content, field, _TEXT_PARTS)


def with_cache_control(block: Block, source: Mapping[str, Any]) -> Block:
    """Return ``block`` with the cache breakpoint of ``source``, if it has one."""
    mark = source.get("cache_control")
    return block if mark is None else {**block, "cache_control": mark}


def _blocks(content: object, field: str, kinds: Mapping[str, Callable[..., Block]]) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    parts: list[dict[str, Any]] = content if isinstance(content, list) else []
    found = []
    for index, part in enumerate(parts):
        place = f"{field}.{index}"
        if (make := kinds.get(part["type"])) is None:
            refuse(place, f"The model accepts only parts of these types here: {', '.join(kinds)}.")
        block = make(part, place)
        if block["type"] != "text" or block["text"].strip():
            found.append(with_cache_control(block, part))
    return found


def _text(part: Mapping[str, Any], place: str) -> Block:
    return {"type": "text", "text": _string(part, part["type"], place)}


def _image(part: Mapping[str, Any], place: str) -> Block:
    url = _string(part.get("image_url"), "url", f"{place}.image_url")
    found = _DATA_URL.match(url)
    if found is None:
        return {"type": "image", "source": _url_source(url, f"{place}.image_url.url")}
    media_type = found[1].lower()
    media_type = _SYNONYMS.get(media_type, media_type)
    if media_type not in _IMAGE_TYPES:
        refuse(f"{place}.image_url.url", f"An image must be one of {', '.join(_IMAGE_TYPES)}.")
    return {"type": "image", "source": _base64_source(media_type, url[found.end() :])}


def _file(part: Mapping[str, Any], place: str) -> Block:
    file = part.get("file")
    if isinstance(file, dict) and file.get("file_data") is None:
        refuse(f"{place}.file", "A file must be sent with the request, in file_data.")
    url = _string(file, "file_data", f"{place}.file")
    found = _DATA_URL.match(url)
    block: Block = {"type": "document"}
    if found is None:
        block["source"] = _url_source(url, f"{place}.file.file_data")
    elif found[1].lower() == "application/pdf":
        block["source"] = _base64_source("application/pdf", url[found.end() :])
    else:
        refuse(f"{place}.file.file_data", "A file must be a PDF.")
    title = file.get("filename") if isinstance(file, dict) else None
    return {**block, "title": title} if isinstance(title, str) and title else block


def _base64_source(media_type: str, text: str) -> dict[str, str]:
    return {"type": "base64", "media_type": media_type, "data": text}


def _url_source(url: str, field: str) -> dict[str, str]:
    if not url.lower().startswith("https://"):
        refuse(field, "It must be an https URL or a base64 data URL.")
    return {"type": "url", "url": url}


def _string(holder: object, name: str, place: str) -> str:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, str):
        refuse(f"{place}.{name}", "Input should be a string.")
    return value


_TEXT_PARTS: Final[Mapping[str, Callable[..., Block]]] = MappingProxyType({"text": _text, "refusal": _text})
_USER_PARTS: Final[Mapping[str, Callable[..., Block]]] = MappingProxyType(
    {"text": _text, "image_url": _image, "file": _file}
)

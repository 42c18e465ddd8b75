"""Reasoning of one provider as one opaque text, for APIs that have no place for ``reasoning_details``. Pure.

A client sends the text back as it got it, with the next turn. It is not secret, and no one trusts it: what comes back
is bounded, and checked against a schema, as the same details in a chat request would be.
"""

import binascii
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from policies.large_text import first_chars

PREFIX: Final = "tg1."
"""The beginning of each text of ours. The number is that of the form."""
MAX_CHARS: Final = 1 << 20
"""The longest text, in characters."""
MAX_DETAILS: Final = 1_024

_MAX_NAME_CHARS: Final = 256


class _Detail(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One of ``reasoning_details``. Source: OpenRouter, "Reasoning Tokens", "reasoning_details array structure"."""

    kind: Literal["reasoning.text", "reasoning.summary", "reasoning.encrypted"] = field(name="type")
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    format: Annotated[str, Meta(max_length=_MAX_NAME_CHARS)] | None = None
    id: Annotated[str, Meta(max_length=_MAX_NAME_CHARS)] | None = None
    index: Annotated[int, Meta(ge=0, lt=1 << 53)] | None = None


_NAMES: Final = frozenset(one.encode_name for one in msgspec.structs.fields(_Detail))
_decode: Final = msgspec.json.Decoder(Annotated[list[_Detail], Meta(max_length=MAX_DETAILS)]).decode


def seal(details: Iterable[object]) -> str:
    """Return ``details`` as one text. None at all are a text, too.

    A detail that ``unseal`` would not take is left out. Where the rest is too long, the text is empty: it is no text of
    ours, so the next turn goes on without this reasoning.
    """
    kept = [detail for one in details if (detail := _checked(one)) is not None]
    encoded = msgspec.json.encode(kept)
    text = PREFIX + urlsafe_b64encode(encoded).decode().rstrip("=")
    return text if len(text) <= MAX_CHARS and len(kept) <= MAX_DETAILS else ""


def is_sealed(text: str) -> bool:
    """Return whether ``text`` says that it is one of ours."""
    return text.startswith(PREFIX)


def unseal(text: str) -> list[dict[str, Any]] | None:
    """Return the details in a text of ``seal``, None for any other text: foreign, too long, changed or cut."""
    text = first_chars(text, MAX_CHARS + 1)
    if not is_sealed(text) or len(text) > MAX_CHARS:
        return None
    encoded = text.removeprefix(PREFIX)
    try:
        decoded = b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        found: list[dict[str, Any]] = msgspec.to_builtins(_decode(decoded))
    except (binascii.Error, ValueError):
        return None
    return found


def without_shown_text(details: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Return details without the text that their client is shown beside them; see ``with_shown_text``."""
    texts = [detail for detail in details if detail.get("text")]
    first = next((detail for detail in details if detail.get("type") == "reasoning.text"), None)
    if len(texts) != 1 or texts[0]["text"] != text or texts[0] is not first:
        return [*details]
    return [
        {name: value for name, value in detail.items() if detail is not texts[0] or name != "text"}
        for detail in details
    ]


def with_shown_text(details: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return details with the text that came back beside them, where none of them repeats it."""
    if not text or any("text" in detail for detail in details):
        return details
    at = next((at for at, detail in enumerate(details) if detail["type"] == "reasoning.text"), None)
    if at is None:
        return details
    return [*details[:at], {**details[at], "text": text}, *details[at + 1 :]]


def _checked(detail: object) -> _Detail | None:
    """Return a detail without members that have no place in the schema, or no value; None where it has no kind."""
    if not isinstance(detail, Mapping):
        return None
    known = {name: _sendable(value) for name, value in detail.items() if name in _NAMES}
    try:
        return msgspec.convert(known, _Detail)
    except msgspec.ValidationError:
        return None


def _sendable(value: object) -> object:
    """Return a text without halves of surrogate pairs, which JSON in UTF-8 can't carry; other values as they are."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

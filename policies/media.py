"""What is not text in a prompt: images, sounds and files, with the size of their data."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from policies.large_text import LargeText

# An image of any size has a fixed number of tokens. Sound has 32 tokens a second for Gemini, the most of any
# vendor (ai.google.dev, "Audio understanding"). One second has at least 8,000 bytes uncompressed (8 kHz, 8 bits), and
# 750 in the densest encoding (Opus, 6 kbit/s). A file's unpacked text and the pictures of its pages have at most one
# token for each byte of the file.
IMAGES: Final = frozenset(
    {"image_url", "input_image", "image", "computer_screenshot", "image_generation_call"}
)
SOUNDS: Final = frozenset({"input_audio", "audio", "audio_url"})
FILES: Final = frozenset(
    {"file", "input_file", "document", "document_url", "video_url", "input_video", "video"}
)
MEDIA: Final = IMAGES | SOUNDS | FILES
# The fields of a media part that have its data, or the place of its data. All other fields are text, which the model
# may read.
_PAYLOADS: Final = frozenset(
    {
        *("data", "url", "image_url", "audio_url", "video_url", "document_url", "file_data", "file_url"),
        *("file_id", "result"),
    }
)
_SOUND_BYTES_PER_TOKEN: Final[Mapping[str, int]] = MappingProxyType({"wav": 250, "pcm16": 250})
_DENSEST_SOUND_BYTES_PER_TOKEN: Final = 23
UNSEEN_TOKENS: Final = 5_000
"""The least that a sound or a file counts. Behind a URL or an id its size is unknown."""


def is_media(part: Mapping[str, object]) -> bool:
    """Return whether a content part is an image, a sound or a file."""
    kind = part.get("type")
    return isinstance(kind, str) and kind in MEDIA


def is_image(part: Mapping[str, object]) -> bool:
    """Return whether a content part is an image."""
    kind = part.get("type")
    return kind in IMAGES and not _is_other_file(part.get(str(kind)))


def has_text_source(part: Mapping[str, object]) -> bool:
    """Return whether a document is no file, but text, or parts of a prompt."""
    source = part.get("source")
    return isinstance(source, dict) and source.get("type") in ("text", "content")


def count_media_tokens(part: Mapping[str, object], payload_bytes: int) -> int:
    """Return the most tokens of a sound or a file that has this much data."""
    each = _bytes_per_token(part) if part.get("type") in SOUNDS else 1
    return max(UNSEEN_TOKENS, payload_bytes // each)


def split_payload(members: Mapping[str, object]) -> tuple[int, dict[str, object]]:
    """Return the most bytes that the data of an image, sound or file has, as base64, and the other fields."""
    decoded_bytes = 0
    other_fields: dict[str, object] = {}
    for name, value in members.items():
        if name in _PAYLOADS and isinstance(value, str):
            rest_chars = value.rest.counts.chars if isinstance(value, LargeText) else 0
            decoded_bytes += (len(value) + rest_chars) * 3 // 4
        elif isinstance(value, dict):
            inner_bytes, inner = split_payload(value)
            decoded_bytes += inner_bytes
            other_fields |= {name: inner} if inner else {}
        else:
            other_fields[name] = value
    return decoded_bytes, other_fields


def _is_other_file(image: object) -> bool:
    """Return whether an image part has another file, such as a PDF, which some vendors accept there."""
    url = image.get("url") if isinstance(image, dict) else image
    return isinstance(url, str) and (start := url[:11].lower()).startswith("data:") and start != "data:image/"


def _bytes_per_token(part: Mapping[str, object]) -> int:
    sound = part.get("input_audio")
    coding = sound.get("format") if isinstance(sound, dict) else None
    return _SOUND_BYTES_PER_TOKEN.get(str(coding), _DENSEST_SOUND_BYTES_PER_TOKEN)

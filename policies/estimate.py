"""Estimates of token counts. The estimate of a prompt is nearly always an upper bound, that of an answer is an average.

A prompt is estimated before it is sent, so that money can be held for it. Everything in it counts, of any kind. The
coefficients of each family were measured on recorded traffic: docs/decisions/prompt-estimates-are-calibrated.md.
"""

import math
import string
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from policies.family import MESSAGE_FIELDS, RESERVED, Estimator, Family
from policies.large_text import LargeText, TextCounts

# A token has several letters of a word and the space before it, but hardly more than one digit or mark. Capitals count
# as marks: they are rare in words, and where they are not (hashes, base64), two characters make a token.
_LETTERS: Final = (string.ascii_lowercase + " ").encode()
_ASCII: Final = bytes(range(128))

# An image of any size has a fixed number of tokens. Sound has 32 tokens a second for Gemini, the most of any
# vendor (ai.google.dev, "Audio understanding"). One second has at least 8,000 bytes uncompressed (8 kHz, 8 bits), and
# 750 in the densest encoding (Opus, 6 kbit/s). A file's unpacked text and the pictures of its pages have at most one
# token for each byte of the file.
IMAGES: Final = frozenset({"image_url", "input_image", "image"})
SOUNDS: Final = frozenset({"input_audio", "audio", "audio_url"})
FILES: Final = frozenset(
    {"file", "input_file", "document", "document_url", "video_url", "input_video", "video"}
)
# The field names of messages, parts and tool calls, in the contract and in the vendors' additions to it.
_NAMES: Final = frozenset(
    {
        *MESSAGE_FIELDS,
        *(
            "id",
            "type",
            "function",
            "arguments",
            "custom",
            "input",
            "text",
            "thinking",
            "signature",
            "refusal",
        ),
        *("reasoning", "reasoning_content", "reasoning_details", "cache_control", "extra_content"),
    }
)
_MEDIA: Final = IMAGES | SOUNDS | FILES
# The fields of a media part that have its data, or the place of its data. All other fields are text, which the model
# may read.
_PAYLOADS: Final = frozenset(
    {"data", "url", "image_url", "audio_url", "video_url", "document_url", "file_data", "file_url", "file_id"}
)
_SOUND_BYTES_PER_TOKEN: Final[Mapping[str, int]] = MappingProxyType({"wav": 250, "pcm16": 250})
_DENSEST_SOUND_BYTES_PER_TOKEN: Final = 23
_COUNTED_AT_ONCE_CHARS: Final = 1 << 16
UNSEEN_TOKENS: Final = 5_000
"""The least that a sound or a file counts. Behind a URL or an id its size is unknown."""


def estimate_prompt_tokens(fields: Mapping[str, object], estimator: Estimator) -> int:
    """Return an estimate of a validated request body, nearly always at least the provider's count.

    ``fields`` are all fields that are sent, except those that the gateway sets itself. All of them count, also unknown
    ones. A response format counts as a tool.
    """
    tally = _Tally()
    for name, value in fields.items():
        if name == "messages":
            tally.add_messages(value if isinstance(value, list) else [])
        elif name == "tools":
            for tool in value if isinstance(value, list) else []:
                tally.has_tools = True
                tally.add(tool)
        elif name not in RESERVED and value is not None:
            tally.has_tools = tally.has_tools or name == "response_format"
            tally.add(value)
    return tally.tokens(estimator)


def is_image(part: Mapping[str, object]) -> bool:
    """Return whether a content part is an image."""
    kind = part.get("type")
    return kind in IMAGES and not _is_other_file(part.get(str(kind)))


def estimate_completion_tokens(chars: int, estimator: Estimator) -> int:
    """Return the average number of tokens in ``chars`` characters of text, reasoning and arguments of an answer."""
    return math.ceil(chars / estimator.completion_chars_per_token)


def estimate_unseen_tokens(family: Family, seconds: float) -> int:
    """Return the tokens that a model may have reasoned in ``seconds`` without showing any of it."""
    return math.ceil(family.tokens_per_s * max(seconds, 0)) if family.reasons_unseen else 0


def count_text(text: str) -> TextCounts:
    """Return the bytes of ``text`` by kind."""
    raw = text.encode("utf-8", "surrogatepass")
    other_bytes = 0 if text.isascii() else len(raw.translate(None, _ASCII))
    not_letters = len(raw.translate(None, _LETTERS))
    return TextCounts(len(raw) - not_letters, not_letters - other_bytes, other_bytes, len(text))


class _Tally(Struct):
    """The contents of a prompt: counts of its texts, and the number of other things that cost tokens."""

    counts: list[TextCounts] = []
    marks: int = 0
    messages: int = 0
    has_tools: bool = False
    images: int = 0
    media_tokens: int = 0
    texts: list[str] = []
    waiting_chars: int = 0

    def tokens(self, estimator: Estimator) -> int:
        letters, marks, other_bytes = 0, self.marks, 0
        for counts in (*self.counts, count_text("".join(self.texts))):
            letters += counts.letters
            marks += counts.marks
            other_bytes += counts.other_bytes
        return math.ceil(
            estimator.base_tokens
            + self.messages * estimator.tokens_per_message
            + letters / estimator.letters_per_token
            + marks / estimator.marks_per_token
            + other_bytes / estimator.other_bytes_per_token
            + (estimator.tools_tokens if self.has_tools else 0)
            + self.images * estimator.tokens_per_image
            + self.media_tokens
        )

    def add(self, value: object) -> None:
        """Count a text as it is, and any other value as JSON."""
        if value is None:
            return
        if isinstance(value, str):
            self._add_texts([value])
            return
        texts, marks = _json_texts(value)
        self.marks += marks
        self._add_texts(texts)

    def _add_texts(self, texts: list[str]) -> None:
        """Add texts that are counted later. Many short texts are counted faster as one."""
        self.counts += [text.rest.counts for text in texts if isinstance(text, LargeText)]
        chars = sum(map(len, texts))
        if self.waiting_chars + chars <= _COUNTED_AT_ONCE_CHARS:
            self.texts += texts
            self.waiting_chars += chars
            return
        for text in texts:
            self.texts.append(text)
            self.waiting_chars += len(text)
            if self.waiting_chars > _COUNTED_AT_ONCE_CHARS:
                self._count_texts()

    def _count_texts(self) -> None:
        """Count the texts that were added."""
        self.counts.append(count_text("".join(self.texts)))
        self.texts.clear()
        self.waiting_chars = 0

    def add_messages(self, messages: list[Mapping[str, object]]) -> None:
        self.messages += len(messages)
        plain = [m for m in messages if not isinstance(m.get("content"), list) and "tool_calls" not in m]
        self.add_members(plain)
        if len(plain) < len(messages):
            for message in messages:
                if isinstance(message.get("content"), list) or "tool_calls" in message:
                    self._add_structured(message)

    def _add_structured(self, message: Mapping[str, object]) -> None:
        """Count a message with content parts or tool calls."""
        for name, value in message.items():
            if name == "content" and isinstance(value, list):
                for part in value:
                    self.add_part(part)
            elif name == "tool_calls" and isinstance(value, list):
                for call in value:
                    self.add_call(call)
            else:
                self.add_members([{name: value}])

    def add_members(self, objects: Iterable[Mapping[str, object]]) -> None:
        """Count values, and their names unless the API defines them. ``tokens_per_message`` has the names of the API.

        A call counts all plain messages of a request, so its loop calls nothing for a usual member.
        """
        for members in objects:
            for name, value in members.items():
                if name not in _NAMES:
                    self._add_texts([name])
                if type(value) is str:
                    self.texts.append(value)
                    self.waiting_chars += len(value)
                else:
                    self.add(value)
            if self.waiting_chars > _COUNTED_AT_ONCE_CHARS:
                self._count_texts()

    def add_call(self, call: Mapping[str, object]) -> None:
        """Count a tool call that an assistant made, like a message."""
        self.messages += 1
        for name, value in call.items():
            members = value if isinstance(value, dict) else {}
            self.add_members([{name: None if members else value}, members])

    def add_part(self, part: Mapping[str, object]) -> None:
        kind = part.get("type")
        other_fields = {name: value for name, value in part.items() if name != "type"}
        if kind not in _MEDIA:
            self.add_members([other_fields])
            return
        payload_bytes, other_fields = _split_payload(other_fields)
        if is_image(part):
            self.images += 1
        elif kind in SOUNDS:
            self.media_tokens += max(UNSEEN_TOKENS, payload_bytes // _bytes_per_token(part))
        else:
            self.media_tokens += max(UNSEEN_TOKENS, payload_bytes)
        if other_fields:
            self.add(other_fields)


def _json_texts(value: object) -> tuple[list[str], int]:
    """Return the texts of a JSON value, with names and numbers, and the number of marks around them."""
    texts: list[str] = []
    marks, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
            marks += 2
        elif isinstance(item, dict):
            texts.extend(item)
            waiting.extend(item.values())
            marks += 2 + 4 * len(item)
        elif isinstance(item, list):
            waiting.extend(item)
            marks += 2 + len(item)
        else:
            texts.append(str(item).lower())
    return texts, marks


def _split_payload(members: Mapping[str, object]) -> tuple[int, dict[str, object]]:
    """Return the most bytes that the data of an image, sound or file has, as base64, and the other fields."""
    decoded_bytes = 0
    other_fields: dict[str, object] = {}
    for name, value in members.items():
        if name in _PAYLOADS and isinstance(value, str):
            rest_chars = value.rest.counts.chars if isinstance(value, LargeText) else 0
            decoded_bytes += (len(value) + rest_chars) * 3 // 4
        elif isinstance(value, dict):
            inner_bytes, inner = _split_payload(value)
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

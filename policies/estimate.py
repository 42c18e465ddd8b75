"""Estimates of token counts. The estimate of a prompt is nearly always an upper bound, that of an answer is an average.

A prompt is estimated before it is sent, so that money can be held for it. Everything in it counts, of any kind. The
coefficients of each family were measured on recorded traffic: docs/decisions/prompt-estimates-are-calibrated.md.
"""

import math
import string
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from policies.family import MESSAGE_FIELDS, RESERVED, Estimator, Family
from policies.large_text import LargeText, TextCounts
from policies.media import count_media_tokens, has_text_source, is_image, is_media, split_payload

# A token has several letters of a word and the space before it, but hardly more than one digit or mark. Capitals count
# as marks: they are rare in words, and where they are not (hashes, base64), two characters make a token.
_LETTERS: Final = (string.ascii_lowercase + " ").encode()
_ASCII: Final = bytes(range(128))

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
_COUNTED_AT_ONCE_CHARS: Final = 1 << 16
_ITEMS: Final = frozenset({"messages", "input"})
_PART_HOLDERS: Final = frozenset({"content", "output", "outputs", "source"})
_TOOL_LIKE: Final = frozenset({"tools", "text", "output_config"})
_NATIVE_SETTINGS: Final = RESERVED | {"max_output_tokens", "include", "store", "metadata", "client_metadata"}


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


def estimate_native_tokens(body: Mapping[str, object], estimator: Estimator) -> int:
    """As ``estimate_prompt_tokens``, for the body of another API than chat.

    Its ``messages`` or ``input`` are a list of messages and other items, or of texts or tokens to embed. What a tool
    returned may have media in it.
    """
    tally = _Tally()
    for name, value in body.items():
        if name in _ITEMS and isinstance(value, list):
            tally.add_items(value)
        elif name not in _NATIVE_SETTINGS and value is not None:
            tally.has_tools = tally.has_tools or name in _TOOL_LIKE
            tally.add(value)
    return tally.tokens(estimator)


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
    media_tokens: int = 0  # and those that a client has counted itself
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

    def add_items(self, items: list[Any]) -> None:
        """Count messages and items of another API than chat, each like a message; of ids of tokens, each is one."""
        for item in items:
            if type(item) is int:
                self.media_tokens += 1
            elif type(item) is list:
                self.add_items(item)
            else:
                self.messages += 1
                self._add_native_part(item)

    def _add_native_part(self, part: object) -> None:
        """Count an item or a part of one. Both may hold further parts, one or a list."""
        if not isinstance(part, dict):
            self.add(part)
        elif (is_media(part) and not has_text_source(part)) or part.keys().isdisjoint(_PART_HOLDERS):
            self.add_part(part)
        else:
            for name, value in part.items():
                if name in _PART_HOLDERS and isinstance(value, dict | list):
                    for inner in value if isinstance(value, list) else (value,):
                        self._add_native_part(inner)
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
        other_fields = {name: value for name, value in part.items() if name != "type"}
        if not is_media(part):
            self.add_members([other_fields])
            return
        payload_bytes, other_fields = split_payload(other_fields)
        if is_image(part):
            self.images += 1
        else:
            self.media_tokens += count_media_tokens(part, payload_bytes)
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

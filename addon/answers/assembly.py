"""A whole answer, put together from the chunks of a stream in the contract's shape. Pure.

Text is joined, members that are numbered are joined by their number, and of everything else the last value counts, as
for a client that adds the chunks up. Source: OpenAI's Python SDK, ``lib/streaming/_deltas.py``.
"""

from typing import Any, Final

from addon.text.json_encode import encode_json

_LABELS: Final = frozenset({"role", "type", "format", "id", "channel"})
"""Texts that name a thing. Some providers repeat them in each delta."""
_NODE_BYTES: Final = 64
"""Counted for each value, beside its text: more than it takes as JSON."""
_MAX_PIECES: Final = 1_024


class _Text:
    """A text in pieces."""

    __slots__ = ("pieces",)

    def __init__(self, piece: str) -> None:
        self.pieces = [piece]

    def add(self, piece: str) -> None:
        if len(self.pieces) == _MAX_PIECES:
            self.pieces = ["".join(self.pieces)]
        self.pieces.append(piece)


class _Items:
    """A list whose items may be numbered. An item with a known number joins the one that has it."""

    __slots__ = ("by_number", "items")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.by_number: dict[int, dict[str, Any]] = {}


class Assembly:
    """The part of a whole answer that has come. ``bytes`` is about what it takes as JSON, seldom less."""

    def __init__(self) -> None:
        self.bytes = 0
        self._members: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        """Add the next chunk. Each of its choices has a number and a delta."""
        for key, value in chunk.items():
            if key == "choices":
                for choice in value:
                    self._add_choice(choice)
            elif value is not None and value != (known := self._members.get(key)):
                self.bytes += (
                    len(encode_json(value)) + len(key) - (0 if known is None else len(encode_json(known)))
                )
                self._members[key] = value

    def answer(self) -> dict[str, Any]:
        """Return the chat completion."""
        choices = [_plain(self._choices[number]) for number in sorted(self._choices)]
        for choice in choices:
            for call in choice["message"].get("tool_calls", ()):
                call.pop("index", None)  # A whole message's calls are numbered by their place.
        return {**self._members, "object": "chat.completion", "choices": choices}

    def _add_choice(self, choice: dict[str, Any]) -> None:
        number = choice["index"]
        if (known := self._choices.get(number)) is None:
            self.bytes += 2 * _NODE_BYTES
            message = {"role": "assistant", "content": None}
            known = {"index": number, "message": message, "logprobs": None, "finish_reason": None}
            self._choices[number] = known
        self._join_members(known["message"], choice["delta"])
        for key, value in choice.items():
            if value is not None and key not in ("index", "delta", "message"):
                is_text = isinstance(value, str)
                known[key] = self._kept(value) if is_text else self._joined(key, known.get(key), value)

    def _join_members(self, known: dict[str, Any], given: dict[str, Any]) -> None:
        for key, value in given.items():
            if value is not None:
                known[key] = self._joined(key, known.get(key), value)

    def _joined(self, key: str, known: Any, given: Any) -> Any:
        """Return the value of a member that had a value, or None."""
        if isinstance(given, str):
            if key in _LABELS:
                return known if known == given else self._kept(given)
            if not isinstance(known, _Text):
                return _Text(self._kept(given))
            if given:
                self.bytes += _size(given)
                known.add(given)
            return known
        if isinstance(given, dict):
            members = known if isinstance(known, dict) else {}
            self.bytes += 0 if members is known else _NODE_BYTES
            self._join_members(members, given)
            return members
        if isinstance(given, list):
            items = known if isinstance(known, _Items) else _Items()
            for item in given:
                self._add_item(items, item)
            return items
        self.bytes += 0 if known is not None else _NODE_BYTES
        return given

    def _add_item(self, items: _Items, item: Any) -> None:
        number = item.get("index") if isinstance(item, dict) else None
        if isinstance(number, int) and (numbered := items.by_number.get(number)) is not None:
            self._join_members(numbered, item)
            return
        added = self._joined("", None, item)
        items.items.append(added)
        if isinstance(number, int):
            items.by_number[number] = added

    def _kept(self, text: str) -> str:
        self.bytes += _NODE_BYTES + _size(text)
        return text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _plain(node: Any) -> Any:
    """Return a joined value as JSON has it."""
    if isinstance(node, _Text):
        return "".join(node.pieces)
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, _Items):
        return [_plain(item) for item in node.items]
    return node

"""The chunks of one stream as its client gets them: one of them bears the usage, and none lacks a choice. Pure.

Clients read ``chunk.choices[0]`` of every chunk, and some add up every ``usage`` that they see. So the usage is merged
into the last chunk that has a choice; a client that asked for ``include_usage`` gets it in a chunk of its own, as from
OpenAI. The last chunk with a choice is held until the usage is known; ``StreamFrames.release`` ends the wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from addon.answers.text_length import shows_nothing
from addon.text.json_edits import apply_edits, member_edit, members, value_edit
from addon.text.json_encode import json_text

MAX_BESIDE_BYTES = 65_536
MAX_BESIDE_MEMBERS = 64
"""Of events without a choice, kept for the next chunk that has one."""

_OWN = frozenset({"id", "object", "created", "model", "choices", "usage"})
_OF_TEXT = frozenset({"index", "delta", "logprobs"})


def frame(payload: bytes) -> bytes:
    """Return ``payload``, which is one line, as an event of a stream."""
    return b"data: " + payload + b"\n\n"


class StreamFrames:
    """One stream of chunks on its way out. ``separate_usage``: the client asked for ``include_usage``.

    ``head`` is what every chunk bears, for those that are made here.
    """

    def __init__(self, *, separate_usage: bool) -> None:
        self.head: dict[str, Any] = {}
        self.finished: set[int] = set()
        """The choices whose ``finish_reason`` was read."""
        self._open: set[int] = set()
        self._separate_usage = separate_usage
        self._usage: bytes | None = None  # the latest, as its provider wrote it
        self._usage_chunk: bytes | None = None  # the provider's own chunk without a choice that bears it
        self._usage_sent = False
        self._is_late = False
        self._beside: dict[str, bytes] = {}
        self._held: bytes | None = None

    @property
    def began(self) -> bool:
        """A choice was seen."""
        return bool(self.finished or self._open)

    @property
    def complete(self) -> bool:
        """Every choice that was seen has its ``finish_reason``."""
        return bool(self.finished) and not self._open

    @property
    def holds(self) -> bool:
        """A chunk waits for the usage."""
        return self._held is not None

    def chunk(self, payload: bytes, choices: Sequence[Any], *, bears_usage: bool) -> bytes:
        """Return what is sent at a chunk that has ``choices``. ``payload`` is its JSON, on one line."""
        sent = self._unheld()  # Another chunk has a choice, so it was not the last.
        counts_up = self._usage is not None
        if bears_usage:
            payload = self._without_usage(payload)
        payload = self._joined(payload)
        self._note_ends(choices)
        if self._separate_usage or self._usage_sent or not self.complete:
            return sent + frame(payload)
        if bears_usage and not counts_up:
            return sent + self._with_usage(payload)
        return sent + (frame(payload) if self._is_late else self._hold(payload, choices))

    def aside(self, payload: bytes, event: Mapping[str, Any]) -> bytes:
        """Return what is sent at an event without a choice: nothing of its own, a neighbour takes it in."""
        bears_usage, has_choices = (
            isinstance(event.get("usage"), dict),
            isinstance(event.get("choices"), list),
        )
        if bears_usage:
            self._learn(payload)
            self._usage_chunk = payload if has_choices else None
        if has_choices and not (bears_usage and self._separate_usage):
            self._add_beside(payload)
        return self._unheld(with_usage=True) if bears_usage else b""

    def release(self) -> bytes:
        """Return what is held for a usage that does not come in time, which will not be sent then."""
        self._is_late = True
        return self._unheld()

    def last(self) -> bytes:
        """Return what is left to be sent, now that the answer is complete."""
        if self._held is not None:
            return self._unheld(with_usage=True)
        if self._usage is None or self._usage_sent or self._is_late:
            return b""
        if self._separate_usage:
            return self._with_usage(self._usage_chunk or json_text({**self.head, "choices": []}))
        silent = {"index": 0, "delta": {}, "finish_reason": None}
        return self._with_usage(json_text({**self.head, "choices": [silent]}))

    def _note_ends(self, choices: Sequence[Any]) -> None:
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            index = choice.get("index", 0)
            if choice.get("finish_reason") is not None:
                self.finished.add(index)
                self._open.discard(index)
            elif index not in self.finished:
                self._open.add(index)

    # The chunk that is held.

    def _hold(self, payload: bytes, choices: Sequence[Any]) -> bytes:
        """Hold the end of the last open choice; its text goes ahead in a chunk of its own."""
        told = [choice for choice in choices if isinstance(choice, dict)]
        if all(shows_nothing(choice["delta"]) for choice in told):
            self._held = payload
            return b""
        ends = [_without_text(choice) for choice in told if choice.get("finish_reason") is not None]
        if not ends:
            return frame(payload)
        self._held = json_text({**self.head, "choices": ends})
        texts = json_text([_without_end(choice) for choice in told])
        return frame(apply_edits(payload, [value_edit(payload, "choices", texts)]))

    def _unheld(self, *, with_usage: bool = False) -> bytes:
        held, self._held = self._held, None
        if held is None:
            return b""
        held = self._joined(held)
        return self._with_usage(held) if with_usage else frame(held)

    # Members that move from one chunk to another, as the bytes that their provider wrote.

    def _learn(self, payload: bytes) -> None:
        usage = next(one for one in reversed([*members(payload, 0)]) if one.key == "usage")
        text = payload[usage.start : usage.end]
        if self._usage is None or text.strip(b"{} ") != b"":
            self._usage = text

    def _without_usage(self, payload: bytes) -> bytes:
        self._learn(payload)
        self._usage_chunk = None
        return apply_edits(payload, [value_edit(payload, "usage", b"null")])

    def _with_usage(self, payload: bytes) -> bytes:
        """Return ``payload`` as an event, with the usage where there is any."""
        if self._usage is None:
            return frame(payload)
        self._usage_sent = True
        return frame(apply_edits(payload, [member_edit(payload, "usage", self._usage)]))

    def _add_beside(self, payload: bytes) -> None:
        others = {one.key: payload[one.start : one.end] for one in members(payload, 0) if one.key not in _OWN}
        if len(payload) <= MAX_BESIDE_BYTES and len(others) + len(self._beside) <= MAX_BESIDE_MEMBERS:
            self._beside |= others

    def _joined(self, payload: bytes) -> bytes:
        """Return ``payload`` with the members of events without a choice that it lacks."""
        if not self._beside:
            return payload
        known = {one.key for one in members(payload, 0)}
        lacking = {key: value for key, value in self._beside.items() if key not in known}
        self._beside = {}
        return apply_edits(payload, [member_edit(payload, key, value) for key, value in lacking.items()])


def _without_text(choice: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in choice.items() if key not in _OF_TEXT}
    return {"index": choice.get("index", 0), "delta": {}, **rest}


def _without_end(choice: Mapping[str, Any]) -> dict[str, Any]:
    text = {key: value for key, value in choice.items() if key in _OF_TEXT}
    return {**text, "finish_reason": None}

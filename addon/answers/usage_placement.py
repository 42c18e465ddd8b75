"""The chunks of one stream as its client gets them: each has a choice, and one carries the usage. Pure.

Clients read ``chunk.choices[0]`` of every chunk, and some add up every ``usage`` that they see. So the usage is merged
into the last chunk that has a choice. A client that asked for ``include_usage`` gets it in a chunk of its own, as from
OpenAI. The last chunk with a choice waits until the usage is known; ``flush_pending`` ends the wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from addon.answers.answer_length import shows_nothing
from addon.answers.sse import frame
from addon.text.json_edits import Member, apply_edits, member_edit, members, value_edit
from addon.text.json_encode import encode_json

MAX_EXTRA_BYTES = 65_536
"""The largest event without a choice whose members are kept."""
MAX_EXTRA_MEMBERS = 64
"""How many members of events without a choice are kept for the next chunk that has one."""

_OWN_MEMBERS = frozenset({"id", "object", "created", "model", "choices", "usage"})
_TEXT_MEMBERS = frozenset({"index", "delta", "logprobs"})


class UsagePlacement:
    """One stream of chunks on its way to the client.

    ``separate_usage``: the client asked for ``include_usage``. ``head`` has the members that every chunk carries, for
    the chunks that are made here.
    """

    def __init__(self, *, separate_usage: bool) -> None:
        self.head: dict[str, Any] = {}
        self.finished_choices: set[int] = set()
        """The indexes of the choices whose ``finish_reason`` was read."""
        self._open_choices: set[int] = set()
        self._separate_usage = separate_usage
        self._usage: bytes | None = None  # the latest, as its provider wrote it
        self._usage_chunk: bytes | None = None  # the provider's own chunk with the usage and no choice
        self._usage_sent = False
        self._is_late = False
        self._extra_members: dict[str, bytes] = {}
        self._held: bytes | None = None
        self.has_pending = False
        """A chunk waits for the usage."""

    @property
    def has_begun(self) -> bool:
        """Whether a choice was seen."""
        return bool(self.finished_choices or self._open_choices)

    @property
    def has_extra_members(self) -> bool:
        """Whether members of an event wait for the next chunk."""
        return bool(self._extra_members)

    @property
    def is_complete(self) -> bool:
        """Whether every choice that was seen has its ``finish_reason``."""
        return bool(self.finished_choices) and not self._open_choices

    def add_chunk(self, payload: bytes, choices: Sequence[Any], *, has_usage: bool) -> bytes:
        """Add a chunk that has ``choices``; return what is sent now. ``payload`` is its JSON, on one line."""
        # Another chunk has a choice, so the held one was not the last.
        sent = self._send_held() if self.has_pending else b""
        counts_up = self._usage is not None
        if has_usage:
            payload = self._without_usage(payload)
        if self._extra_members:
            payload = self._with_extra_members(payload)
        self._note_ends(choices)
        if self._separate_usage or self._usage_sent or not self.is_complete:
            return sent + frame(payload)
        if has_usage and not counts_up:
            return sent + self._with_usage(payload)
        return sent + (frame(payload) if self._is_late else self._hold_end(payload, choices))

    def keep_usage(self, usage: bytes) -> None:
        """Keep the usage of a chunk that has a choice, as its provider wrote it."""
        if self._usage is None or usage.strip(b"{} ") != b"":
            self._usage = usage
        self._usage_chunk = None

    def add_event(self, payload: bytes, event: Mapping[str, Any]) -> bytes:
        """Add an event without a choice; return what is sent now. Its members go into a chunk that has a choice."""
        has_usage = isinstance(event.get("usage"), dict)
        has_choices = isinstance(event.get("choices"), list)
        found = members(payload, 0) if has_usage or has_choices else []
        if has_usage:
            self.keep_usage(_last_text(payload, [one for one in found if one.key == "usage"]))
            self._usage_chunk = payload if has_choices else None
        if has_choices and not (has_usage and self._separate_usage):
            self._keep_extra_members(payload, found)
        return self._send_held(with_usage=True) if has_usage else b""

    def flush_pending(self) -> bytes:
        """Return the chunk that waits for a usage that is late. The usage is not sent after that."""
        self._is_late = True
        return self._send_held()

    def finish(self) -> bytes:
        """Return what is left to send when the answer is complete."""
        if self._held is not None:
            return self._send_held(with_usage=True)
        if self._usage is None or self._usage_sent or self._is_late:
            return b""
        if self._separate_usage:
            return self._with_usage(self._usage_chunk or encode_json({**self.head, "choices": []}))
        silent = {"index": 0, "delta": {}, "finish_reason": None}
        return self._with_usage(encode_json({**self.head, "choices": [silent]}))

    def _note_ends(self, choices: Sequence[Any]) -> None:
        for choice in choices:
            index = choice.get("index", 0)
            if choice.get("finish_reason") is not None:
                self.finished_choices.add(index)
                self._open_choices.discard(index)
            elif index not in self.finished_choices:
                self._open_choices.add(index)

    # The chunk that is held.

    def _hold_end(self, payload: bytes, choices: Sequence[Any]) -> bytes:
        """Hold the end of the last open choice. Return its text in a chunk of its own."""
        if all(map(shows_nothing, [choice["delta"] for choice in choices])):
            self._hold(payload)
            return b""
        ends = [_without_text(choice) for choice in choices if choice.get("finish_reason") is not None]
        if not ends:
            return frame(payload)
        self._hold(encode_json({**self.head, "choices": ends}))
        texts = encode_json([_without_end(choice) for choice in choices])
        return frame(apply_edits(payload, [value_edit(payload, "choices", texts)]))

    def _hold(self, payload: bytes) -> None:
        self._held, self.has_pending = payload, True

    def _send_held(self, *, with_usage: bool = False) -> bytes:
        if self._held is None:
            return b""
        held, self._held, self.has_pending = self._held, None, False
        if self._extra_members:
            held = self._with_extra_members(held)
        return self._with_usage(held) if with_usage else frame(held)

    # Members that move from one chunk to another, as the bytes that their provider wrote.

    def _without_usage(self, payload: bytes) -> bytes:
        self.keep_usage(_last_text(payload, members(payload, 0, "usage")))
        return apply_edits(payload, [value_edit(payload, "usage", b"null")])

    def _with_usage(self, payload: bytes) -> bytes:
        """Return ``payload`` as an event, with the usage if there is any."""
        if self._usage is None:
            return frame(payload)
        self._usage_sent = True
        return frame(apply_edits(payload, [member_edit(payload, "usage", self._usage)]))

    def _keep_extra_members(self, payload: bytes, found: Sequence[Member]) -> None:
        extra = {one.key: payload[one.start : one.end] for one in found if one.key not in _OWN_MEMBERS}
        fits = len(extra) + len(self._extra_members) <= MAX_EXTRA_MEMBERS
        if len(payload) <= MAX_EXTRA_BYTES and fits:
            self._extra_members |= extra

    def _with_extra_members(self, payload: bytes) -> bytes:
        """Return ``payload`` with the kept members that it does not have."""
        known = {one.key for one in members(payload, 0)}
        lacking = {key: value for key, value in self._extra_members.items() if key not in known}
        self._extra_members = {}
        return apply_edits(payload, [member_edit(payload, key, value) for key, value in lacking.items()])


def _last_text(payload: bytes, found: Sequence[Member]) -> bytes:
    return payload[found[-1].start : found[-1].end]


def _without_text(choice: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in choice.items() if key not in _TEXT_MEMBERS}
    return {"index": choice.get("index", 0), "delta": {}, **rest}


def _without_end(choice: Mapping[str, Any]) -> dict[str, Any]:
    text = {key: value for key, value in choice.items() if key in _TEXT_MEMBERS}
    return {**text, "finish_reason": None}

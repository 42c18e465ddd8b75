"""A fast path for chunks that differ only in their text. Pure.

The chunks of one stream differ in their text and in little else. The first one is read whole. A later chunk with the
same bytes around its text is the same JSON with another string in it. So it says the same about model, usage, errors
and ends, and only its text is read.

OpenAI pads its chunks: ``obfuscation`` has random letters, so that the size of a packet does not show its text. These
letters may differ too. So may the numbers of a usage: some servers count in each chunk.
"""

import json
import re
from collections.abc import Callable, Sequence

import msgspec

from addon.answers.normalize.reasoning import ADDED_KEY, added_place
from addon.text.json_edits import Edit, apply_edits, members

_TEXT_MEMBER = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)":[ ]?"(?!")')
TEXT = re.compile(rb'((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
"""A JSON string from after its opening quote up to its closing one."""
MAX_MISSES = 8
"""After so many chunks in a row that fit no template, none is made: the provider pads its chunks."""
_PADDED = b'"obfuscation"'
_PADDING = re.compile(rb'[A-Za-z0-9]*+(?=")')
_DIGITS = b"0123456789"
_KEY, _COUNT = rb'"[A-Za-z_]++":[ ]?', rb"(?:0|[1-9][0-9]{0,15}+|null)"
_COUNTS = rb"\{(?:%b%b(?:,[ ]?%b%b)*+)?+\}"
_INNER_COUNTS = rb"(?:%b|%b)" % (_COUNT, _COUNTS % (_KEY, _COUNT, _KEY, _COUNT))
_USAGE = re.compile(_COUNTS % (_KEY, _INNER_COUNTS, _KEY, _INNER_COUNTS))
_TWIN_MEMBER = re.compile(rb'"(?:text|summary)":[ ]?"')


class Filled(msgspec.Struct, frozen=True, gc=False):
    """Events that fit a template: what is relayed for them, the length of all they show, and where they end.

    ``usage`` is that of the last one, as its provider wrote it; empty if it has none.
    """

    relayed: bytes
    chars: int
    end: int
    usage: bytes = b""


class Template(msgspec.Struct, frozen=True, gc=False):
    """One chunk without its text and its slot: the bytes before, between and after them, as they come and go.

    | field | meaning |
    |---|---|
    | ``other_chars`` | the length of all that it shows except its text |
    | ``has_slot`` | it has padding, which goes as it comes, or a usage, for which null goes |
    | ``skeleton`` | the usage without its digits; empty for padding |
    | ``twin`` | the bytes up to the same text once more; empty if it comes only once |
    | ``relayed_twin`` | the same, in what goes |
    | ``has_text`` | if not, all up to the slot, or to the end, is in ``before`` |
    """

    before: bytes
    between: bytes
    after: bytes
    relayed_before: bytes
    relayed_between: bytes
    relayed_after: bytes
    other_chars: int
    has_slot: bool = False
    skeleton: bytes = b""
    twin: bytes = b""
    relayed_twin: bytes = b""
    has_text: bool = True

    def fill(
        self, events: bytes, start: int, max_bytes: int, is_clear: Callable[[str], bool] | None
    ) -> Filled:
        """Return the events of ``events`` from ``start`` on that fit the template, with their own texts.

        An event of more than ``max_bytes``, or with a text that is not ``is_clear``, does not fit.
        """
        if not (self.has_text or self.has_slot):
            return self._repeat(events, start, max_bytes)
        relayed: list[bytes] = []
        usage, chars, at = b"", 0, start
        while events.startswith(self.before, at) and (found := self._match(events, at)):
            shown, slot, end = found
            try:
                text = _decoded(shown) if b"\\" in shown else shown.decode()
            except ValueError:  # The text is not UTF-8.
                break
            if end - at > max_bytes or (is_clear and not is_clear(text)):
                break
            relayed += (self.relayed_before, shown)
            if self.relayed_twin:
                relayed += (self.relayed_twin, shown)
            if self.skeleton:
                usage, slot = slot, b"null"
            relayed += (self.relayed_between, slot, self.relayed_after)
            chars, at = chars + self.other_chars + len(text), end
        return Filled(b"".join(relayed), chars, at, usage)

    def _match(self, events: bytes, at: int) -> tuple[bytes, bytes, int] | None:
        """Return the text of the event at ``at``, what is in its slot, and its end, or None when it does not fit.

        The event begins with ``before``.
        """
        shown, slot, end, between = b"", b"", at + len(self.before), self.between
        if self.has_text:
            if (found := TEXT.match(events, end)) is None:
                return None
            shown, end = found[1], found.end(1)
            if self.relayed_twin and not shown:
                return None
            between = self.twin + shown + between if self.twin else between
        if not events.startswith(between, end):
            return None
        end += len(between)
        if self.has_slot:
            filling = _USAGE.match(events, end) if self.skeleton else _PADDING.match(events, end)
            if filling is None:
                return None
            slot, end = filling[0], filling.end()
            if self.skeleton and slot.translate(None, _DIGITS) != self.skeleton:
                return None
        return (shown, slot, end + len(self.after)) if events.startswith(self.after, end) else None

    def _repeat(self, events: bytes, start: int, max_bytes: int) -> Filled:
        at, size = start, len(self.before)
        while size <= max_bytes and events.startswith(self.before, at):
            at += size
        return Filled(self.relayed_before * ((at - start) // size), 0, at)


def make_template(
    event: bytes,
    at: int,
    payload: bytes,
    edits: Sequence[Edit],
    text_chars: int,
    *,
    usage: Edit | None = None,
    has_twin: bool = False,
) -> Template | None:
    """Return the template of an event that was read whole, or None when it can have none.

    ``payload`` is in the event from byte ``at`` on. ``edits`` are the ones that were made to it, except ``usage``, the
    one that puts null in the place of its usage. ``text_chars`` is the length of all that the event shows. With
    ``has_twin``, it shows one text twice.
    """
    member = _TEXT_MEMBER.search(payload)
    found = TEXT.match(payload, member.end()) if member else None
    if found is None and not text_chars and usage is None:
        whole = b"data: " + apply_edits(payload, edits) + b"\n\n"
        return Template(event, b"", b"", whole, b"", b"", other_chars=0, has_text=False)
    if found is None and has_twin:
        return None if usage else _make_with_added(event, at, payload, edits, text_chars)
    text = _text_place(payload, found, usage, has_twin=has_twin)
    if text is None or (found is None and text_chars):
        return None
    start, end, again, last = text
    slot = _usage_place(payload, usage, last) if usage else _padding_place(payload, last)
    if usage and slot is None:
        return None
    variable = [(start, end), (again, last), *([slot] if slot else [])]
    other_chars = text_chars - (len(_decoded(found[1])) if found else 0)
    if other_chars < 0 or _overlap(edits, variable):
        return None
    slot_start, slot_end = slot or (len(payload), len(payload))
    return Template(
        before=event[: at + start],
        between=event[at + last : at + slot_start],
        after=event[at + slot_end :],
        relayed_before=b"data: " + _edited(payload, 0, start, edits),
        relayed_between=_edited(payload, last, slot_start, edits),
        relayed_after=_edited(payload, slot_end, len(payload), edits) + b"\n\n",
        other_chars=other_chars,
        has_slot=slot is not None,
        skeleton=payload[slot_start:slot_end].translate(None, _DIGITS) if usage else b"",
        twin=event[at + end : at + again],
        relayed_twin=_edited(payload, end, again, edits),
        has_text=found is not None,
    )


def _make_with_added(
    event: bytes, at: int, payload: bytes, edits: Sequence[Edit], text_chars: int
) -> Template | None:
    """Return the template of an event whose text comes once, in its only detail, and goes twice."""
    detail, place = added_place(payload)
    found = TEXT.fullmatch(payload, detail.start + 1, detail.end)
    others = [edit for edit in edits if edit[:2] != (place, place)]
    if found is None or len(others) != len(edits) - 1 or _padding_place(payload, place):
        return None
    start, end = found.span(1)
    other_chars = text_chars - len(_decoded(found[1]))
    if other_chars < 0 or _overlap(others, [(start, end)]):
        return None
    return Template(
        before=event[: at + start],
        between=event[at + end :],
        after=b"",
        relayed_before=b"data: " + _edited(payload, 0, start, others),
        relayed_between=b'"' + _edited(payload, place, len(payload), others) + b"\n\n",
        relayed_after=b"",
        other_chars=other_chars,
        relayed_twin=_edited(payload, end, place, others) + ADDED_KEY + b'"',
    )


def _text_place(
    payload: bytes, found: re.Match[bytes] | None, usage: Edit | None, *, has_twin: bool
) -> tuple[int, int, int, int] | None:
    """Return where the text starts and ends, and the same of its repetition: its own end if there is none.

    Without text it is the start of the usage.
    """
    if found is None:
        return (usage[0],) * 4 if usage else None
    start, end = found.span(1)
    if not has_twin:
        return start, end, end, end
    member = _TWIN_MEMBER.search(payload, end)
    twin = TEXT.match(payload, member.end()) if member else None
    return (start, end, *twin.span(1)) if twin and twin[1] == found[1] else None


def _usage_place(payload: bytes, usage: Edit, start: int) -> tuple[int, int] | None:
    """Return the start and the end of the usage if it is the only one, after ``start``, and has nothing but counts."""
    counts = _USAGE.fullmatch(payload, *usage[:2])
    is_only = len(members(payload, payload.index(b"{"), "usage")) == 1
    return counts.span() if counts and is_only and counts.start() >= start else None


def _padding_place(payload: bytes, start: int) -> tuple[int, int] | None:
    """Return the start and the end of the padding inside its quotes, if there is one after byte ``start``."""
    if payload.find(_PADDED, start) < 0:
        return None
    found = members(payload, payload.index(b"{"), "obfuscation")
    if len(found) != 1 or found[0].start < start or payload[found[0].start : found[0].start + 1] != b'"':
        return None
    padding = _PADDING.match(payload, found[0].start + 1)
    return padding.span() if padding and padding.end() == found[0].end - 1 else None


def _overlap(edits: Sequence[Edit], places: Sequence[tuple[int, int]]) -> bool:
    return any(begin < place[1] and place[0] < end for begin, end, _ in edits for place in places)


def _edited(payload: bytes, start: int, end: int, edits: Sequence[Edit]) -> bytes:
    """Return the bytes from ``start`` to ``end`` with the edits that are made to them."""
    inside = [
        (first - start, last - start, new) for first, last, new in edits if start <= first and last <= end
    ]
    return apply_edits(payload[start:end], inside)


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))

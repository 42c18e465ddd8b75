"""The trace of a call, as W3C Trace Context defines it (https://www.w3.org/TR/trace-context-2/). Pure."""

import re
from hashlib import blake2b
from typing import Self

from msgspec import Struct

MAX_STATE_CHARS = 2_048
MAX_STATE_MEMBERS = 32

_PARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_KNOWN_FLAGS = 0b11
"""``sampled`` and ``random-trace-id``. A sender must clear the others, because it does not know their meaning."""


class TraceContext(Struct, frozen=True):
    """The trace that a client's request belongs to.

    ``parent_span_id`` is the client's span, ``flags`` are those of version 00, and ``state`` is the value of
    ``tracestate``, empty where it can't be sent on.
    """

    trace_id: str
    parent_span_id: str
    flags: int
    state: str = ""

    @classmethod
    def parse(cls, traceparent: str, tracestate: str = "") -> Self | None:
        """Return the trace of two header values, None where ``traceparent`` is malformed.

        A later version may have more fields after the four that are known here.
        """
        found = _PARENT.fullmatch(traceparent)
        if not found or (found[1] == "00" and found[5]):
            return None
        return cls(found[2], found[3], int(found[4], 16) & _KNOWN_FLAGS, _sendable_state(tracestate))

    def sent_fields(self, span_id: str) -> bytes:
        """Return the lines of the head of a request whose parent is ``span_id``."""
        state = f"tracestate: {self.state}\r\n" if self.state else ""
        return f"traceparent: 00-{self.trace_id}-{span_id}-{self.flags:02x}\r\n{state}".encode("ascii")


def make_span_id(call_id: str, attempt: int) -> str:
    """Return the span id of an attempt, from 1, of a call: the same one whenever it is asked for."""
    return blake2b(f"{call_id} {attempt}".encode(), digest_size=8).hexdigest()


def _sendable_state(tracestate: str) -> str:
    """Return the value, or nothing where it is malformed or too large. It is never changed or cut."""
    members = tracestate.split(",", MAX_STATE_MEMBERS)
    is_small = len(tracestate) <= MAX_STATE_CHARS and len(members) <= MAX_STATE_MEMBERS
    given = [member.strip(" \t") for member in members]
    is_valid = is_small and any(given) and all(not member or _MEMBER.fullmatch(member) for member in given)
    return tracestate if is_valid else ""

"""``Exchange``: what is known of one call, from its head to its ledger row.

It is frozen. ``advance`` returns the next one and refuses every move that ``MOVES`` does not list, so a call that
was never approved can't be dispatched, no attempt can be that nothing is held for, and a call that is settled can't be
settled again. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, Self

from policies.model import Attempt, Key, Route, Usage, Workspace
from policies.spend import Hold

UsageSource = Literal["provider", "estimated", "none"]


class Stage(Enum):
    """Where a call stands. The comment says what is known from there on."""

    RECEIVED = "received"  # a request head, nothing believed yet
    IDENTIFIED = "identified"  # workspace and key
    ADMITTED = "admitted"  # the rate limiter let it in
    ROUTED = "routed"  # the body is valid, and there is a route
    HELD = "held"  # every limit was checked, and the money is set aside
    DISPATCHED = "dispatched"  # an attempt may be sent upstream
    ANSWERED = "answered"  # an upstream answer, or its failure, is final
    SETTLED = "settled"  # the ledger row is made
    REFUSED = "refused"  # the gateway said no; nothing was sent upstream
    ABANDONED = "abandoned"  # the client left before anything was sent upstream


CLIENT_CLOSED_REQUEST = 499
"""The status of a call whose client left before its answer was whole, as nginx has it."""
CLIENT_DISCONNECTED = "client_disconnected"
"""The error code of a call whose client left before it ended."""
INTERRUPTED = "interrupted"
"""The error code of a call that the gateway did not, or could not, wait for: it stopped, or was killed."""

_OUT = frozenset({Stage.REFUSED, Stage.ABANDONED})

MOVES: Mapping[Stage, frozenset[Stage]] = MappingProxyType(
    {
        Stage.RECEIVED: _OUT | {Stage.IDENTIFIED},
        Stage.IDENTIFIED: _OUT | {Stage.ADMITTED},
        Stage.ADMITTED: _OUT | {Stage.ROUTED},
        Stage.ROUTED: _OUT | {Stage.HELD},
        Stage.HELD: _OUT | {Stage.DISPATCHED},
        # A second dispatch is the next attempt of the same call, once the hold is of that.
        Stage.DISPATCHED: frozenset({Stage.DISPATCHED, Stage.ANSWERED}),
        Stage.ANSWERED: frozenset({Stage.SETTLED}),
        Stage.SETTLED: frozenset(),
        Stage.REFUSED: frozenset(),
        Stage.ABANDONED: frozenset(),
    }
)


class IllegalMoveError(RuntimeError):
    """A programming error: the call can't go from where it stands to where it was sent."""


@dataclass(frozen=True)
class Exchange:
    """One call. ``started_s`` and ``first_byte_s`` are readings of one monotonic clock.

    ``attempts`` counts those that were made. ``next_hold`` was placed for an attempt that was not dispatched yet, and
    becomes ``hold``, that of the last one which was.
    ``answered_by`` counts from 1: the attempt whose failure is the client's answer, where it is not the last one.
    """

    id: str
    created_at: datetime
    started_s: float
    stage: Stage = Stage.RECEIVED
    workspace: Workspace | None = None
    key: Key | None = None
    requested_model: str | None = None
    end_user: str | None = None
    stream: bool = False
    route: Route | None = None
    hold: Hold | None = None
    next_hold: Hold | None = None
    attempts: int = 0
    answered_by: int | None = None
    status: int | None = None
    error_code: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    usage_source: UsageSource = "none"
    wholesale_nanousd: int = 0
    retail_nanousd: int = 0
    first_byte_s: float | None = None

    def advance(self, stage: Stage, **changes: Any) -> Self:
        """Return the same call one stage on.

        Raises ``IllegalMoveError`` for a move that ``MOVES`` does not list. ``dispatch`` alone leads to ``DISPATCHED``.
        """
        if stage not in MOVES[self.stage]:
            raise IllegalMoveError(f"call {self.id}: {self.stage.value} → {stage.value}")
        if stage is Stage.DISPATCHED:
            raise IllegalMoveError(f"call {self.id}: only an attempt that is held is dispatched")
        return self._with({"stage": stage, **changes})

    def held(self, hold: Hold) -> Self:
        """Return the same call with ``hold`` placed for its next attempt, in place of what was held for one before."""
        if self.stage is Stage.ROUTED:
            return self.advance(Stage.HELD, next_hold=hold)
        if self.stage not in (Stage.HELD, Stage.DISPATCHED):
            raise IllegalMoveError(f"call {self.id}: nothing can be held at {self.stage.value}")
        return self.note(next_hold=hold)

    def dispatch(self) -> Self:
        """Return the same call with its next attempt on its way. Raises ``IllegalMoveError`` where it has no hold."""
        if self.next_hold is None or Stage.DISPATCHED not in MOVES[self.stage]:
            raise IllegalMoveError(f"call {self.id}: nothing is held for its next attempt")
        made = {"attempts": self.attempts + 1, "hold": self.next_hold, "next_hold": None}
        return self._with({"stage": Stage.DISPATCHED, **made})

    def skip(self) -> Self:
        """Return the same call with its next attempt counted as made, though nothing of it is ever sent."""
        return self._with({"attempts": self.attempts + 1, "next_hold": None})

    def note(self, **changes: Any) -> Self:
        """Return the same call at the same stage, knowing more."""
        return self._with(changes)

    def _with(self, changes: Mapping[str, Any]) -> Self:
        """As ``dataclasses.replace``, in a tenth of its time: a call moves on some nine times."""
        if not changes.keys() <= _FIELDS:
            raise TypeError(f"an exchange has no {sorted(changes.keys() - _FIELDS)}")
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(changes)
        return made

    @property
    def caller(self) -> tuple[Workspace, Key]:
        """Who calls. Raises ``IllegalMoveError`` before the call is ``IDENTIFIED``."""
        if self.workspace is None or self.key is None:
            raise IllegalMoveError(f"call {self.id}: no caller at {self.stage.value}")
        return self.workspace, self.key

    @property
    def routed(self) -> Route:
        """The route. Raises ``IllegalMoveError`` before the call is ``ROUTED``."""
        if self.route is None:
            raise IllegalMoveError(f"call {self.id}: no route at {self.stage.value}")
        return self.route

    @property
    def attempt(self) -> Attempt:
        """The attempt that is being made, or that answered. Raises as ``routed``."""
        return self.routed.attempts[(self.answered_by or max(self.attempts, 1)) - 1]

    @property
    def next_attempt(self) -> Attempt:
        """The attempt that is to be made next. Raises as ``routed``, and IndexError where the route has no other."""
        return self.routed.attempts[self.attempts]

    @property
    def has_next_attempt(self) -> bool:
        """Whether another attempt may follow those that were made."""
        return self.route is not None and self.attempts < len(self.route.attempts)

    def with_next_attempt(self, attempt: Attempt) -> Self:
        """Return the same call with ``attempt`` in place of the next one: the same, but for its secret."""
        if self.route is None or attempt is self.next_attempt:
            return self
        attempts = list(self.route.attempts)
        attempts[self.attempts] = attempt
        return self.note(route=replace(self.route, attempts=tuple(attempts)))

    @property
    def was_served_by_fallback(self) -> bool:
        """Whether what the client got, or the beginning of it, came from an attempt that stood in for another."""
        return self.first_byte_s is not None and self.attempt.is_fallback

    @property
    def was_sent_upstream(self) -> bool:
        """Whether this call owes the ledger a row."""
        return self.stage in (Stage.DISPATCHED, Stage.ANSWERED, Stage.SETTLED)

    def interrupted_row(self) -> dict[str, Any]:
        """The row that this call leaves behind, should its process end in the next attempt. Nothing of it is billed."""
        interrupted = self.note(
            attempts=self.attempts + 1, status=CLIENT_CLOSED_REQUEST, error_code=INTERRUPTED
        )
        return interrupted.ledger_row(self.started_s)

    def ledger_row(self, now_s: float) -> dict[str, Any]:
        """The row of the ``usage`` table (columns: docs/ledger.md); ``now_s`` is a reading of ``started_s``'s clock."""
        attempt, (workspace, key) = self.attempt, self.caller
        return {
            "id": self.id,
            "created_at": self.created_at.astimezone(UTC).isoformat(timespec="milliseconds"),
            "workspace": workspace.id,
            "key_id": key.id,
            "requested_model": self.requested_model,
            "model_slug": attempt.model.slug,
            "provider": attempt.model.provider.name,
            "upstream_model_id": attempt.model.upstream_model_id,
            "mode": attempt.mode,
            "fallback": int(self.was_served_by_fallback),
            "attempts": self.attempts,
            "stream": int(self.stream),
            "status": self.status,
            "error_code": self.error_code,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.usage.prompt_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "total_tokens": self.usage.total_tokens,
            "cached_tokens": self.usage.cached_tokens,
            "reasoning_tokens": self.usage.reasoning_tokens,
            "usage_source": self.usage_source,
            "wholesale_nanousd": self.wholesale_nanousd,
            "retail_nanousd": self.retail_nanousd,
            "first_byte_ms": _ms(self.started_s, self.first_byte_s),
            "duration_ms": _ms(self.started_s, now_s),
            "end_user": self.end_user,
            "cache_write_tokens": self.usage.cache_write_tokens,
        }


_FIELDS = frozenset(field.name for field in fields(Exchange))


def _ms(start_s: float, end_s: float | None) -> int | None:
    return None if end_s is None else round((end_s - start_s) * 1000)

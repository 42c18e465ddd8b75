"""``Exchange``: all that the ledger row of one call needs, and the stage of the call. Pure.

It is frozen. ``advance`` returns the next one, and raises for every move that ``MOVES`` does not list. So a call can't
be dispatched without approval, no attempt can be dispatched without a hold, and no call can be settled twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, Self

from policies.model import Key, Route, Target, Usage, Workspace
from policies.spend import Hold

UsageSource = Literal["provider", "estimated", "none"]


class Stage(Enum):
    """The stage of a call. The comment says what is known from this stage on."""

    RECEIVED = "received"  # a request head, not checked yet
    IDENTIFIED = "identified"  # workspace and key
    ADMITTED = "admitted"  # the rate limiter has let it in
    ROUTED = "routed"  # the body is valid, and there is a route
    HELD = "held"  # every limit was checked, and the money is held
    DISPATCHED = "dispatched"  # an attempt may be sent upstream
    ANSWERED = "answered"  # an upstream answer, or its failure, is final
    SETTLED = "settled"  # the ledger row is made
    REFUSED = "refused"  # the gateway refused it; nothing was sent upstream
    ABANDONED = "abandoned"  # the client left before anything was sent upstream


CLIENT_CLOSED_REQUEST = 499
"""The status of a call whose client left before its answer was whole, as in nginx."""
CLIENT_DISCONNECTED = "client_disconnected"
"""The error code of a call whose client left before it ended."""
INTERRUPTED = "interrupted"
"""The error code of a call that the gateway did not wait for: it stopped, or was killed."""

_OUT = frozenset({Stage.REFUSED, Stage.ABANDONED})

MOVES: Mapping[Stage, frozenset[Stage]] = MappingProxyType(
    {
        Stage.RECEIVED: _OUT | {Stage.IDENTIFIED},
        Stage.IDENTIFIED: _OUT | {Stage.ADMITTED},
        Stage.ADMITTED: _OUT | {Stage.ROUTED},
        Stage.ROUTED: _OUT | {Stage.HELD},
        Stage.HELD: _OUT | {Stage.DISPATCHED},
        # A second dispatch is the next attempt of the same call, after the hold has moved to it.
        Stage.DISPATCHED: frozenset({Stage.DISPATCHED, Stage.ANSWERED}),
        Stage.ANSWERED: frozenset({Stage.SETTLED}),
        Stage.SETTLED: frozenset(),
        Stage.REFUSED: frozenset(),
        Stage.ABANDONED: frozenset(),
    }
)


class IllegalMoveError(RuntimeError):
    """A programming error: the call can't move from its stage to the other one."""


@dataclass(frozen=True)
class Exchange:
    """One call.

    | field | is |
    |---|---|
    | ``started_s``, ``first_byte_s`` | readings of one monotonic clock |
    | ``attempts`` | the number of attempts that were made |
    | ``hold`` | the hold of the last attempt that was dispatched |
    | ``next_hold`` | the hold of an attempt that is not dispatched yet; it becomes ``hold`` |
    | ``answered_by`` | the attempt, from 1, whose failure is the client's answer, where it is not the last one |
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
        """Return the same call at the next ``stage``.

        Raises ``IllegalMoveError`` for a move that ``MOVES`` does not list. Only ``dispatch`` leads to ``DISPATCHED``.
        """
        if stage not in MOVES[self.stage]:
            raise IllegalMoveError(f"call {self.id}: {self.stage.value} → {stage.value}")
        if stage is Stage.DISPATCHED:
            raise IllegalMoveError(f"call {self.id}: only an attempt with a hold can be dispatched")
        return self._with({"stage": stage, **changes})

    def with_hold(self, hold: Hold) -> Self:
        """Return the same call with ``hold`` for its next attempt. It replaces the hold of an earlier attempt."""
        if self.stage is Stage.ROUTED:
            return self.advance(Stage.HELD, next_hold=hold)
        if self.stage not in (Stage.HELD, Stage.DISPATCHED):
            raise IllegalMoveError(f"call {self.id}: nothing can be held at {self.stage.value}")
        return self.with_fields(next_hold=hold)

    def dispatch(self) -> Self:
        """Return the same call with its next attempt dispatched. Raises ``IllegalMoveError`` where it has no hold."""
        if self.next_hold is None or Stage.DISPATCHED not in MOVES[self.stage]:
            raise IllegalMoveError(f"call {self.id}: nothing is held for its next attempt")
        made = {"attempts": self.attempts + 1, "hold": self.next_hold, "next_hold": None}
        return self._with({"stage": Stage.DISPATCHED, **made})

    def skip_attempt(self) -> Self:
        """Return the same call with its next attempt counted as made. It is never sent."""
        return self._with({"attempts": self.attempts + 1, "next_hold": None})

    def with_fields(self, **changes: Any) -> Self:
        """Return the same call at the same stage, with other fields changed."""
        return self._with(changes)

    def _with(self, changes: Mapping[str, Any]) -> Self:
        """As ``dataclasses.replace``, ten times as fast. A call changes some nine times."""
        if not changes.keys() <= _FIELDS:
            raise TypeError(f"an exchange has no {sorted(changes.keys() - _FIELDS)}")
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(changes)
        return made

    @property
    def caller(self) -> tuple[Workspace, Key]:
        """The workspace and the key of the call. Raises ``IllegalMoveError`` before it is ``IDENTIFIED``."""
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
    def target(self) -> Target:
        """The target of the attempt that is made now, or of the one that answered. Raises as ``routed``."""
        return self.routed.targets[(self.answered_by or max(self.attempts, 1)) - 1]

    @property
    def next_target(self) -> Target:
        """The target of the next attempt. Raises as ``routed``, and IndexError where the route has no other."""
        return self.routed.targets[self.attempts]

    @property
    def has_next_attempt(self) -> bool:
        """Whether another attempt may follow those that were made."""
        return self.route is not None and self.attempts < len(self.route.targets)

    def with_next_target(self, target: Target) -> Self:
        """Return the same call with ``target`` as the next one. It may differ only in its secret."""
        if self.route is None or target is self.next_target:
            return self
        targets = list(self.route.targets)
        targets[self.attempts] = target
        return self.with_fields(route=replace(self.route, targets=tuple(targets)))

    @property
    def was_served_by_fallback(self) -> bool:
        """Whether the answer that the client got, or its beginning, came from a fallback."""
        return self.first_byte_s is not None and self.target.is_fallback

    @property
    def was_sent_upstream(self) -> bool:
        """Whether this call owes the ledger a row."""
        return self.stage in (Stage.DISPATCHED, Stage.ANSWERED, Stage.SETTLED)

    def interrupted_row(self) -> dict[str, Any]:
        """Return the ledger row of the call if its process ends during the next attempt. It costs nothing."""
        interrupted = self.with_fields(
            attempts=self.attempts + 1, status=CLIENT_CLOSED_REQUEST, error_code=INTERRUPTED
        )
        return interrupted.ledger_row(self.started_s)

    def ledger_row(self, now_s: float) -> dict[str, Any]:
        """Return the row of the ``usage`` table (docs/ledger.md). ``now_s`` is of the same clock as ``started_s``."""
        target, (workspace, key) = self.target, self.caller
        return {
            "id": self.id,
            "created_at": self.created_at.astimezone(UTC).isoformat(timespec="milliseconds"),
            "workspace": workspace.id,
            "key_id": key.id,
            "requested_model": self.requested_model,
            "model_slug": target.model.slug,
            "provider": target.model.provider.name,
            "upstream_model_id": target.model.upstream_model_id,
            "mode": target.mode,
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

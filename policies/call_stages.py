"""The stages of a call, and the legal moves between them. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal


class Stage(StrEnum):
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


type UnsentEnd = Literal[Stage.REFUSED, Stage.ABANDONED]
"""The end of a call that was never sent upstream."""

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

"""The faults of a network: ranges and probabilities, and the faults that each connection draws from them."""

from dataclasses import dataclass
from random import Random

type Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Faults:
    """Ranges (drawn evenly) and probabilities of faults. A fault hits a connection once, after ``after_bytes``."""

    latency_s: Range = (0.0005, 0.0005)
    """The latency one way, drawn for each direction of a connection. Each piece adds up to a tenth of it."""
    piece_bytes: tuple[int, int] = (65_536, 65_536)
    buffer_bytes: tuple[int, int] = (65_536, 65_536)
    """The bytes of a direction before its sender must wait: on their way, and unread by the receiver."""
    after_bytes: tuple[int, int] = (0, 4_000)
    refused: float = 0.0
    slow_connect: float = 0.0
    slow_connect_s: Range = (1.0, 30.0)
    reset: float = 0.0
    stalled: float = 0.0
    stall_s: Range = (1.0, 30.0)
    half_closed: float = 0.0
    """The probability that one direction ends early, as if its sender had ended it."""


CALM = Faults()


@dataclass(slots=True)
class DirectionFaults:
    """The faults of one direction of a connection. A fault whose place is None does not happen."""

    latency_s: float
    piece_bytes: tuple[int, int]
    buffer_bytes: int
    reset_at: int | None = None
    end_at: int | None = None
    stall_at: int | None = None
    stall_s: float = 0.0


@dataclass(slots=True)
class ConnectionFaults:
    """The faults of one connection."""

    is_refused: bool
    connect_s: float
    forth: DirectionFaults
    back: DirectionFaults


def draw_faults(faults: Faults, random: Random) -> ConnectionFaults:
    """Draw the faults of a connection. The number of draws is always the same, so no fault shifts the others."""
    forth, back = _draw_direction(faults, random), _draw_direction(faults, random)
    is_refused, is_slow = random.random() < faults.refused, random.random() < faults.slow_connect
    slow_s = random.uniform(*faults.slow_connect_s)
    hit = {name: random.random() < getattr(faults, name) for name in ("reset", "stalled", "half_closed")}
    places = {name: random.randint(*faults.after_bytes) for name in hit}
    sides = {name: (forth, back)[random.getrandbits(1)] for name in hit}
    stall_s = random.uniform(*faults.stall_s)
    if hit["reset"]:
        sides["reset"].reset_at = places["reset"]
    if hit["half_closed"]:
        sides["half_closed"].end_at = places["half_closed"]
    if hit["stalled"]:
        sides["stalled"].stall_at, sides["stalled"].stall_s = places["stalled"], stall_s
    return ConnectionFaults(is_refused, slow_s if is_slow else forth.latency_s, forth, back)


def _draw_direction(faults: Faults, random: Random) -> DirectionFaults:
    return DirectionFaults(
        random.uniform(*faults.latency_s), faults.piece_bytes, random.randint(*faults.buffer_bytes)
    )

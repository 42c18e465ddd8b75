"""How unkind a link is: ranges and probabilities, from which each connection draws its own fate."""

from dataclasses import dataclass
from random import Random

type Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Faults:
    """Ranges are drawn evenly. Probabilities are of one connection; it is hit once, after so many bytes."""

    latency_s: Range = (0.0005, 0.0005)
    """One way, drawn for each direction of a connection, and again a tenth of it for each piece."""
    piece_bytes: tuple[int, int] = (65_536, 65_536)
    buffer_bytes: tuple[int, int] = (65_536, 65_536)
    """What a direction takes before its sender must wait: on the way, and unread by the receiving program."""
    after_bytes: tuple[int, int] = (0, 4_000)
    refused: float = 0.0
    slow_connect: float = 0.0
    slow_connect_s: Range = (1.0, 30.0)
    reset: float = 0.0
    stalled: float = 0.0
    stall_s: Range = (1.0, 30.0)
    half_closed: float = 0.0
    """One direction ends early, as if its sender had ended it."""


CALM = Faults()


@dataclass(slots=True)
class DirectionFate:
    """What one direction of a connection meets; where a fault's place is None, it is spared that."""

    latency_s: float
    piece_bytes: tuple[int, int]
    buffer_bytes: int
    reset_at: int | None = None
    end_at: int | None = None
    stall_at: int | None = None
    stall_s: float = 0.0


@dataclass(slots=True)
class Fate:
    """What a connection meets."""

    is_refused: bool
    connect_s: float
    forth: DirectionFate
    back: DirectionFate


def draw_fate(faults: Faults, random: Random) -> Fate:
    """Draw it. How much is drawn depends on nothing drawn before, so that one fault does not shift all others."""
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
    return Fate(is_refused, slow_s if is_slow else forth.latency_s, forth, back)


def _draw_direction(faults: Faults, random: Random) -> DirectionFate:
    return DirectionFate(
        random.uniform(*faults.latency_s), faults.piece_bytes, random.randint(*faults.buffer_bytes)
    )

"""``VendorSums``: what the lines of one group say together, and how far their costs are from our prices. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from addon.reconcile.export_line import KINDS, ExportLine, Tokens
from addon.reconcile.ledger_call import ModelPrices

PICOUSD_PER_NANOUSD: Final = 1_000


class PricePiece(NamedTuple):
    """By how much a part of the cost is above our price for the same tokens. ``is_tier`` names why."""

    excess_nanousd: int
    rounding_nanousd: int
    is_tier: bool


@dataclass(slots=True)
class VendorSums:
    """The lines of one group. Counts are taken from lines with a cost where these have some, else from the others."""

    lines: list[ExportLine] = field(default_factory=list)

    def add(self, line: ExportLine) -> None:
        """Add one line."""
        self.lines.append(line)

    @property
    def costs(self) -> list[ExportLine]:
        """The lines with a cost, but for tools."""
        return [line for line in self.lines if line.cost_nanousd is not None and not line.is_tool]

    @property
    def tools_nanousd(self) -> int:
        """The cost of searches and the like."""
        return sum(line.cost_nanousd or 0 for line in self.lines if line.is_tool)

    @property
    def has_cost(self) -> bool:
        """Whether any line has a cost."""
        return any(line.cost_nanousd is not None for line in self.lines)

    @property
    def cost_nanousd(self) -> int:
        """The cost of all lines."""
        return sum(line.cost_nanousd or 0 for line in self.lines)

    @property
    def rounding_nanousd(self) -> int:
        """By how much the vendor may have rounded, all in all."""
        return sum(line.rounding_nanousd for line in self.lines if line.cost_nanousd is not None)

    @property
    def requests(self) -> int | None:
        """The calls that the vendor counted, None where it counts none."""
        counted = [line.requests for line in self.lines if line.requests is not None]
        return sum(counted) if counted else None

    @property
    def tokens(self) -> Tokens | None:
        """The tokens that the vendor counted, None where it counts none."""
        counted = [line.tokens for line in self._counting if line.tokens is not None]
        return _sum(counted) if counted else None

    @property
    def splits_input(self) -> bool:
        """Whether the counts say which input was cached."""
        return all(line.splits_input for line in self._counting)

    @property
    def _counting(self) -> list[ExportLine]:
        of_costs = [line for line in self.lines if line.cost_nanousd is not None and line.tokens is not None]
        return of_costs or [line for line in self.lines if line.tokens is not None]

    def tier_cost_nanousd(self) -> int:
        """Return the cost of lines of a tier that is not the normal one."""
        return sum(line.cost_nanousd or 0 for line in self.costs if line.tier)


def compute_nanousd(tokens: Tokens, prices: Tokens) -> int:
    """Return the cost of tokens, rounded half up."""
    picousd = sum(count * price for count, price in zip(tokens, prices, strict=True))
    return (2 * picousd + PICOUSD_PER_NANOUSD) // (2 * PICOUSD_PER_NANOUSD)


def find_price_pieces(sums: VendorSums, prices: ModelPrices, ours: Tokens | None = None) -> list[PricePiece]:
    """Return by how much each part of the cost differs from our prices, for the tokens that the vendor counted.

    Where its costs come without counts, they are joined with lines that have counts, or else with ``ours``.
    """
    tiered = {kind for line in sums.lines if line.tier for kind in _kinds_of(line)}
    stated = [line for line in sums.costs if line.tokens is not None]
    pieces = [_piece([line], line.tokens or Tokens(), prices, tiered) for line in stated]
    bare = [line for line in sums.costs if line.tokens is None]
    if not bare:
        return pieces
    counts = [line for line in sums.lines if line.cost_nanousd is None and line.tokens is not None]
    return pieces + [
        _piece(costs, tokens, prices, tiered) for costs, tokens in _join(bare, [] if stated else counts, ours)
    ]


def find_whole_piece(sums: VendorSums, tokens: Tokens, prices: ModelPrices) -> PricePiece:
    """Return by how much the whole cost differs from our prices for ``tokens``."""
    tiered = {kind for line in sums.lines if line.tier for kind in _kinds_of(line)}
    return _piece(sums.costs, tokens, prices, tiered)


def _join(
    costs: Sequence[ExportLine], counts: Sequence[ExportLine], ours: Tokens | None
) -> Iterator[tuple[Sequence[ExportLine], Tokens]]:
    """Yield costs with the tokens that they are for: by tier and kind where both have these, else by kind, else all."""
    if any(line.kind is None for line in costs):
        yield costs, ours or _sum(line.tokens or Tokens() for line in counts)
        return
    by_tier = not ours and {line.tier for line in costs} == {line.tier for line in counts}
    counted: Counter[tuple[str | None, str]] = Counter()
    for tier, tokens in [(None, ours)] if ours else [(line.tier, line.tokens or Tokens()) for line in counts]:
        for kind, count in zip(KINDS, tokens, strict=True):
            counted[tier if by_tier else None, kind] += count
    charged: dict[tuple[str | None, str], list[ExportLine]] = {
        place: [] for place, count in counted.items() if count
    }
    for line in costs:
        charged.setdefault((line.tier if by_tier else None, str(line.kind)), []).append(line)
    for (tier, kind), lines in charged.items():
        tokens = Tokens.of_kind(kind, counted[tier, kind])
        yield lines, tokens


def _piece(
    lines: Sequence[ExportLine], tokens: Tokens, prices: ModelPrices, tiered: Iterable[str]
) -> PricePiece:
    cost = sum(line.cost_nanousd or 0 for line in lines)
    excess = cost - compute_nanousd(tokens, prices.base)
    rounding = sum(line.rounding_nanousd for line in lines) + 1
    kinds = {kind for kind, count in zip(KINDS, tokens, strict=True) if count}
    is_tier = any(line.tier for line in lines) or bool(kinds & set(tiered))
    if abs(excess) > rounding and not is_tier:
        is_tier = any(abs(cost - compute_nanousd(tokens, other)) <= rounding for other in prices.others)
    return PricePiece(excess, rounding, is_tier)


def _kinds_of(line: ExportLine) -> set[str]:
    if line.kind or line.tokens is None:
        return {line.kind} if line.kind else set()
    return {kind for kind, count in zip(KINDS, line.tokens, strict=True) if count}


def _sum(tokens: Iterable[Tokens]) -> Tokens:
    total = Tokens()
    for one in tokens:
        total = total.plus(one)
    return total

"""``compare``: a vendor's exports and the calls of the ledger, by day and model, with all differences named. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from addon.reconcile.causes import CAUSES, END_OF_DAY, OUTSIDE, ROUNDING, explain_group, is_valued, value_of
from addon.reconcile.export_line import Export, ExportError, Tokens
from addon.reconcile.ledger_call import CallSums, LedgerCall, ModelPrices
from addon.reconcile.model_names import ModelNames
from addon.reconcile.plan import Plan
from addon.reconcile.vendor_sums import PICOUSD_PER_NANOUSD, VendorSums

MAX_GROUPS: Final = 200_000
MAX_CALL_MS: Final = 3_600_000
"""How long a call can be that ends on the day after."""

type Place = tuple[str, str, str]
"""The day, our name for the model, and the vendor's key where it is not one of the gateway's."""


@dataclass(frozen=True, slots=True)
class Group:
    """What the vendor and the ledger say about one day, model and key. ``causes`` sum to the difference.

    ``is_valued`` is false where the vendor has tokens without a cost, for which no price is known.
    """

    day: str
    model: str
    key: str
    export_nanousd: int
    ledger_nanousd: int
    export_tokens: Tokens | None
    ledger_tokens: Tokens
    export_calls: int | None
    ledger_calls: int
    causes: Mapping[str, int]
    is_valued: bool

    @property
    def difference_nanousd(self) -> int:
        """How much more the vendor has."""
        return self.export_nanousd - self.ledger_nanousd


@dataclass(frozen=True, slots=True)
class Comparison:
    """All groups, by day, model and key."""

    groups: Sequence[Group]

    def sum_causes(self) -> dict[str, tuple[int, int]]:
        """Return for each cause its amount and the number of groups that have it."""
        found: dict[str, tuple[int, int]] = {}
        for cause in CAUSES:
            amounts = [group.causes[cause] for group in self.groups if cause in group.causes]
            if amounts:
                found[cause] = sum(amounts), len(amounts)
        return found

    @property
    def unsettled_nanousd(self) -> int:
        """The sizes of all causes but rounding. Of ends of days only the sum counts. The tolerance is for it."""
        sizes = [
            abs(amount)
            for group in self.groups
            for cause, amount in group.causes.items()
            if cause not in (ROUNDING, END_OF_DAY)
        ]
        return sum(sizes) + abs(self.sum_causes().get(END_OF_DAY, (0, 0))[0])


def compare(
    exports: Sequence[Export],
    calls: Iterable[LedgerCall],
    plan: Plan,
    prices: Mapping[str, ModelPrices],
    places: Mapping[str, str],
    aliases: Mapping[str, str],
) -> Comparison:
    """Return the comparison. Raises ``ExportError`` for too many groups.

    ``calls`` also has those that began up to ``MAX_CALL_MS`` before. ``prices`` are by slug; ``places`` has the slug of
    each ``upstream_model_id`` of the catalog.
    """
    ours = _sum_calls(calls, plan, prices)
    names = ModelNames({model for _, model, _ in ours} | set(places), aliases)
    theirs = _sum_lines(exports, plan, names)
    largest = _find_largest(ours)
    groups = [
        _make_group(
            place,
            theirs.get(place, VendorSums()),
            ours.get(place, CallSums()),
            _prices_of(ours.get(place), place[1], prices, places),
            largest.get(place[1], 0),
        )
        for place in sorted(
            {*theirs, *(place for place, sums in ours.items() if sums.calls or sums.cost_nanousd)}
        )
    ]
    return Comparison(groups)


def _sum_calls(
    calls: Iterable[LedgerCall], plan: Plan, prices: Mapping[str, ModelPrices]
) -> dict[Place, CallSums]:
    found: dict[Place, CallSums] = {}
    for call in calls:
        began = datetime.fromisoformat(call.created_at)
        day = plan.day_of(began)
        ended = plan.day_of(began + timedelta(milliseconds=min(call.duration_ms, MAX_CALL_MS)))
        model = call.upstream_model_id if plan.by_model else ""
        if plan.has_day(day):
            sums, priced = _group_of(found, (day, model, "")), prices.get(call.model_slug)
            sums.add(call, priced)
            if plan.tools_apart and model and call.searches and priced:
                _set_apart(sums, _group_of(found, (day, "", "")), call, priced)
            sums.crossing_nanousd += call.wholesale_nanousd if ended != day else 0
        if ended != day and plan.has_day(ended):
            _group_of(found, (ended, model, "")).arriving_nanousd += call.wholesale_nanousd
    return found


def _set_apart(sums: CallSums, tools: CallSums, call: LedgerCall, prices: ModelPrices) -> None:
    """Move the cost of a call's searches to the group of what has no model."""
    cost = (call.searches or 0) * prices.search_picousd // PICOUSD_PER_NANOUSD
    cost = min(cost, call.wholesale_nanousd)
    sums.cost_nanousd -= cost
    tools.cost_nanousd += cost


def _group_of(found: dict[Place, CallSums], place: Place) -> CallSums:
    if place not in found:
        _check_count(found)
        found[place] = CallSums()
    return found[place]


def _sum_lines(exports: Sequence[Export], plan: Plan, names: ModelNames) -> dict[Place, VendorSums]:
    found: dict[Place, VendorSums] = {}
    for export in exports:
        has_keys = any(line.key for line in export.lines)
        for line in export.lines:
            if not plan.has_day(line.day):
                continue
            model = names.find(line.model) if line.model else ""
            key = "" if not has_keys or plan.is_of_gateway(line) else (line.key or "no key")
            place = plan.name_day(line.day), model, key
            if place not in found:
                _check_count(found)
                found[place] = VendorSums()
            found[place].add(line)
    return found


def _check_count(found: Mapping[Place, object]) -> None:
    if len(found) >= MAX_GROUPS:
        raise ExportError(f"more than {MAX_GROUPS} days, models and keys; compare fewer days")


def _find_largest(ours: Mapping[Place, CallSums]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, model, _), sums in ours.items():
        found[model] = max(found.get(model, 0), sums.largest_nanousd)
    return found


def _prices_of(
    sums: CallSums | None, model: str, prices: Mapping[str, ModelPrices], places: Mapping[str, str]
) -> ModelPrices | None:
    """Return the prices of the slug that most calls of a group have, or of the catalog's model."""
    slug = sums.slugs.most_common(1)[0][0] if sums and sums.slugs else places.get(model, "")
    return prices.get(slug)


def _make_group(
    place: Place, theirs: VendorSums, ours: CallSums, prices: ModelPrices | None, largest_nanousd: int
) -> Group:
    causes = explain_group(theirs, ours, prices, largest_nanousd)
    if place[2] and (amount := sum(causes.values())):
        # A key that the gateway does not have.
        causes = {OUTSIDE: amount}
    return Group(
        *place,
        export_nanousd=value_of(theirs, ours, prices),
        ledger_nanousd=ours.cost_nanousd,
        export_tokens=theirs.tokens,
        ledger_tokens=ours.tokens,
        export_calls=theirs.requests,
        ledger_calls=ours.calls,
        causes=causes,
        is_valued=is_valued(theirs, ours, prices),
    )

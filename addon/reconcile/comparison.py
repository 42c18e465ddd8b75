"""``compare``: a vendor's exports and the calls of the ledger, by day and model, with all differences named. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from addon.reconcile.causes import (
    CAUSES,
    END_OF_DAY,
    OUTSIDE,
    ROUNDING,
    STALE_PRICE,
    explain_group,
    is_valued,
    value_of,
)
from addon.reconcile.export_line import Export, ExportError, Tokens
from addon.reconcile.ledger_call import (
    FAILED_ATTEMPT,
    CallSums,
    FailedAttempt,
    LedgerCall,
    ModelPrices,
    Suspect,
)
from addon.reconcile.model_names import ModelNames
from addon.reconcile.plan import Plan
from addon.reconcile.vendor_sums import PICOUSD_PER_NANOUSD, VendorSums

MAX_GROUPS: Final = 200_000
MAX_CALL_MS: Final = 3_600_000
"""How long a call can be that ends on the day after."""

type Place = tuple[str, str, str]
"""The day, our name for the model, and the vendor's key where it is not one of the gateway's, or has a number."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is known of prices.

    ``prices`` are those of today, by slug, and ``sets`` those that calls had, by the names of their price sets.
    ``places`` has the slug of each ``upstream_model_id`` of the catalog.
    """

    prices: Mapping[str, ModelPrices]
    places: Mapping[str, str]
    sets: Mapping[str, ModelPrices] = field(default_factory=dict)

    def of_call(self, call: LedgerCall) -> ModelPrices | None:
        """Return the prices that a call had; those of today where they were not kept."""
        return self.sets.get(call.price_set or "") or self.prices.get(call.model_slug)

    def of_calls(self, sums: CallSums, model: str) -> ModelPrices | None:
        """Return the prices that most calls of a group had; without any, those of the catalog's model."""
        for name, _ in sums.price_sets.most_common():
            if name in self.sets:
                return self.sets[name]
        return self._of_today(sums, model)

    def are_of_today(self, prices: ModelPrices | None, sums: CallSums, model: str) -> bool:
        """Return whether the prices of a group are those that the catalog has today, at any time of the day."""
        today = self._of_today(sums, model)
        return prices is today or bool(prices and today and prices.base in (today.base, *today.others))

    def _of_today(self, sums: CallSums, model: str) -> ModelPrices | None:
        slug = sums.slugs.most_common(1)[0][0] if sums.slugs else self.places.get(model, "")
        return self.prices.get(slug)


@dataclass(frozen=True, slots=True)
class Group:
    """What the vendor and the ledger say about one day, model and key. ``causes`` sum to the difference.

    ``is_valued`` is false where the vendor has tokens without a cost, for which no price is known. ``are_of_today``:
    the catalog of today has the prices that the calls had.
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
    are_of_today: bool

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

    def sum_stale_prices(self) -> dict[tuple[str, bool], int]:
        """Return the amounts of stale prices by model, and by whether its prices are those of today."""
        found: Counter[tuple[str, bool]] = Counter()
        for group in self.groups:
            found[group.model, group.are_of_today] += group.causes.get(STALE_PRICE, 0)
        return {place: amount for place, amount in sorted(found.items()) if amount}

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
    catalog: Catalog,
    aliases: Mapping[str, str],
    attempts: Iterable[FailedAttempt] = (),
) -> Comparison:
    """Return the comparison. Raises ``ExportError`` for too many groups.

    ``calls`` also has those that began up to ``MAX_CALL_MS`` before. ``attempts`` are further ones, which no call has.
    """
    ours = _sum_calls(calls, plan, catalog)
    _add_attempts(ours, attempts, plan)
    names = ModelNames({model for _, model, _ in ours} | set(catalog.places), aliases)
    theirs = _sum_lines(exports, plan, names)
    largest = _find_largest(ours)
    groups = [
        _make_group(
            place,
            theirs.get(place, VendorSums()),
            ours.get(place, CallSums()),
            catalog,
            largest.get(place[1], 0),
            is_of_gateway=place[2] in ("", *plan.numbered),
        )
        for place in sorted(
            {*theirs, *(place for place, sums in ours.items() if sums.calls or sums.cost_nanousd)}
        )
    ]
    return Comparison(groups)


def _sum_calls(calls: Iterable[LedgerCall], plan: Plan, catalog: Catalog) -> dict[Place, CallSums]:
    found: dict[Place, CallSums] = {}
    for call in calls:
        began = datetime.fromisoformat(call.created_at)
        day = plan.day_of(began)
        ended = plan.day_of(began + timedelta(milliseconds=min(call.duration_ms, MAX_CALL_MS)))
        model = call.upstream_model_id if plan.by_model else ""
        key = plan.key_numbered(call.platform_key)
        if plan.has_day(day):
            sums, priced = _group_of(found, (day, model, key)), catalog.of_call(call)
            sums.add(call, priced)
            if plan.tools_apart and model and call.searches and priced:
                _set_apart(sums, _group_of(found, (day, "", key)), call, priced)
            sums.crossing_nanousd += call.wholesale_nanousd if ended != day else 0
        if ended != day and plan.has_day(ended):
            _group_of(found, (ended, model, key)).arriving_nanousd += call.wholesale_nanousd
    return found


def _add_attempts(found: dict[Place, CallSums], attempts: Iterable[FailedAttempt], plan: Plan) -> None:
    for attempt in attempts:
        day = plan.day_of(datetime.fromisoformat(attempt.created_at))
        if plan.has_day(day):
            model = attempt.upstream_model_id if plan.by_model else ""
            sums = _group_of(found, (day, model, plan.key_numbered(attempt.platform_key)))
            sums.suspects.setdefault(FAILED_ATTEMPT, Suspect()).add(0)


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
            place = plan.name_day(line.day), model, plan.key_of(line) if has_keys else ""
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


def _make_group(
    place: Place,
    theirs: VendorSums,
    ours: CallSums,
    catalog: Catalog,
    largest_nanousd: int,
    *,
    is_of_gateway: bool,
) -> Group:
    prices = catalog.of_calls(ours, place[1])
    causes = explain_group(theirs, ours, prices, largest_nanousd)
    if not is_of_gateway and (amount := sum(causes.values())):
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
        are_of_today=catalog.are_of_today(prices, ours, place[1]),
    )

"""What ``tollgate catalog price`` prints: changed prices, and what calls would have cost. Source: docs/catalog.md."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from addon.commands.output import Form, format_table, pluralize
from addon.commands.price_effect import COSTS, CallSums, CostSums, Effect, find_changed
from addon.text.table import Table
from addon.text.table_formats import format_csv
from policies.model import Model
from policies.money import price_usd_per_mtok

_CHANGE_COLUMNS: Final = ("slug", "key", "before", "after", "change", "retail_before", "retail_after")
_EFFECT_COLUMNS: Final = (
    *("slug", "mode", "calls", "cost", "recorded_nanousd", "before_nanousd", "after_nanousd"),
    "difference_nanousd",
)
_ASSUMED: Final = "The same calls are assumed: whether limits would have refused others is not known."


@dataclass(frozen=True, slots=True)
class Report:
    """What a change of prices is, and does.

    ``written_to`` is None where nothing was written, and ``effect`` where the ledger can't be read.
    """

    before: Mapping[str, Model]
    after: Mapping[str, Model]
    since: str
    written_to: Path | None
    effect: Effect | None


def format_report(report: Report, form: Form) -> str:
    """Return the report in ``form``. CSV has only the costs of calls."""
    changes = Table(_CHANGE_COLUMNS, list(_list_changes(report.before, report.after)))
    costs = Table(_EFFECT_COLUMNS, list(_list_costs(report.effect)) if report.effect else [])
    if form == "csv":
        return format_csv(costs)
    if form == "json":
        found = {
            "changes": changes.records(),
            "written_to": str(report.written_to) if report.written_to else None,
            "since": report.since,
            "calls": costs.records() if report.effect else None,
            "unknown": dict(report.effect.unknown) if report.effect else None,
        }
        return json.dumps(found, indent=2)
    parts = [format_table(changes, form, missing="none") if changes.rows else "No price changes."]
    if report.written_to:
        parts.append(f"Written to {report.written_to}.")
    if report.effect is not None and find_changed(report.before, report.after):
        parts += _format_effect(report.effect, costs, report.since, form)
    return "\n\n".join(parts)


def _format_effect(effect: Effect, costs: Table, since: str, form: Form) -> Iterator[str]:
    began = since[:16].replace("T", " ")
    if not costs.rows and not effect.unknown:
        yield f"The ledger has no calls of this since {began} (UTC)."
        return
    yield f"Calls since {began} (UTC), as recorded, at the prices before and at those after:"
    if costs.rows:
        total = list(_list_total(effect)) if len({slug for slug, _ in effect.sums}) > 1 else []
        yield format_table(Table(costs.columns, [*costs.rows, *total]), form, ("recorded_nanousd",))
    notes = [f"{pluralize(calls, 'call')}: {why}" for why, calls in sorted(effect.unknown.items())]
    yield "\n".join(["Not known:", *(f"  {note}" for note in notes), f"  {_ASSUMED}"])


def _list_changes(
    before: Mapping[str, Model], after: Mapping[str, Model]
) -> Iterator[tuple[str | None, ...]]:
    for slug in find_changed(before, after):
        if slug not in after:
            yield slug, "the model", "priced", None, "gone", None, None
            continue
        old, new = before[slug], after[slug]
        if old.cost != new.cost:
            yield slug, "cost", old.cost, new.cost, "", None, None
        prices = [old.list_wholesale(), new.list_wholesale(), old.list_retail(), new.list_retail()]
        for key in dict.fromkeys([*prices[0], *prices[1]]):
            found = [_find_price(one, key) for one in prices]
            if found[0] != found[1]:
                texts = [_show(price) for price in found]
                yield slug, key, texts[0], texts[1], _percent(found[0], found[1]), texts[2], texts[3]


def _find_price(listed: Mapping[str, int | None], key: str) -> int | None:
    """Return a listed price. A tier whose price is not listed has that of the prices around it."""
    while key not in listed and "." in key:
        place, _, name = key.rpartition(".")
        around = place.rpartition("tiers[")[0] if place.endswith("]") else ""
        key = f"{around}{name}"
    return listed.get(key)


def _show(price: int | None) -> str | None:
    return None if price is None else f"{price_usd_per_mtok(price):f}"


def _percent(old: int | None, new: int | None) -> str:
    if not old or new is None:
        return "new" if new is not None else "gone"
    return f"{(Decimal(new) / Decimal(old) - 1) * 100:+.1f} %"


def _list_costs(effect: Effect) -> Iterator[tuple[str | int, ...]]:
    for (slug, mode), sums in sorted(effect.sums.items()):
        yield from _list_sums(slug, mode, sums)


def _list_total(effect: Effect) -> Iterator[tuple[str | int, ...]]:
    total = CallSums()
    for sums in effect.sums.values():
        total.calls += sums.calls
        for cost, part in zip(total.costs, sums.costs, strict=True):
            cost.add(part.recorded_nanousd, part.before_nanousd, part.after_nanousd)
    yield from _list_sums("all", "", total)


def _list_sums(slug: str, mode: str, sums: CallSums) -> Iterator[tuple[str | int, ...]]:
    for name, cost in zip(COSTS, sums.costs, strict=True):
        yield slug, mode, sums.calls, name, *_amounts(cost)


def _amounts(cost: CostSums) -> tuple[int, ...]:
    difference_nanousd = cost.after_nanousd - cost.before_nanousd
    return cost.recorded_nanousd, cost.before_nanousd, cost.after_nanousd, difference_nanousd

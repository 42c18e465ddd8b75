"""The output of ``tollgate ledger reconcile``, as text, JSON or CSV."""

from collections.abc import Iterator
from typing import Any, Final

from addon.commands.output import Form, format_table
from addon.reconcile.causes import UNKNOWN
from addon.reconcile.comparison import Comparison, Group
from addon.reconcile.export_line import Tokens
from addon.reconcile.plan import Plan
from addon.text.table import Table
from addon.text.table_formats import format_csv, format_json
from addon.text.unprintable import escape_line
from policies.money import format_nanousd, format_nanousd_rounded

GROUP_COLUMNS: Final = ("day", "model", "key", "export_nanousd", "ledger_nanousd", "difference_nanousd")
CAUSE_COLUMNS: Final = ("cause", "cause_nanousd")
_OPTIONAL: Final = ("key", "difference_nanousd")


def format_comparison(
    comparison: Comparison, plan: Plan, provider: str, tolerance_nanousd: int, form: Form
) -> str:
    """Return the comparison in ``form``, without a line end but for CSV."""
    if form == "json":
        return format_json(_as_object(comparison, plan, provider, tolerance_nanousd))
    if form == "csv":
        return format_csv(_table_of_causes(comparison))
    return "\n\n".join(_format_parts(comparison, plan, provider, tolerance_nanousd, form))


def _table_of_causes(comparison: Comparison, *, only_different: bool = False) -> Table:
    """Return a row for each cause of each group, and one with an empty cause for a group without a difference."""
    rows = []
    for group in comparison.groups:
        causes: list[tuple[str | None, int]] = list(group.causes.items())
        if not causes and not only_different:
            causes = [(None, 0)]
        rows += [(*_cells_of(group), cause, amount) for cause, amount in causes]
    return Table((*GROUP_COLUMNS, *CAUSE_COLUMNS), rows)


def _cells_of(group: Group) -> tuple[Any, ...]:
    amounts = group.export_nanousd, group.ledger_nanousd, group.difference_nanousd
    return (group.day, group.model or None, group.key or None, *amounts)


def _format_parts(
    comparison: Comparison, plan: Plan, provider: str, tolerance_nanousd: int, form: Form
) -> Iterator[str]:
    yield f"{provider}, {plan.first} to {plan.last} ({plan.zone.key}): {len(comparison.groups)} days and models"
    different = _table_of_causes(comparison, only_different=True)
    if different.rows:
        if not any(row[2] for row in different.rows):
            different = _without(different, "key")
        optional = [name for name in _OPTIONAL if name in different.columns]
        yield f"Differences\n\n{format_table(different, form, optional)}"
        by_cause = [(cause, groups, amount) for cause, (amount, groups) in comparison.sum_causes().items()]
        table = Table(("cause", "groups", "difference_nanousd"), by_cause)
        yield f"By cause\n\n{format_table(table, form)}"
    yield "\n".join(_format_end(comparison, plan, tolerance_nanousd))


def _without(table: Table, column: str) -> Table:
    place = table.columns.index(column)
    return Table(
        [name for name in table.columns if name != column],
        [[*row[:place], *row[place + 1 :]] for row in table.rows],
    )


def _format_end(comparison: Comparison, plan: Plan, tolerance_nanousd: int) -> Iterator[str]:
    export, ledger = _sums(comparison)
    yield (
        f"export {_usd(export)}, ledger {_usd(ledger)}, difference {_usd(export - ledger)},"
        f" of which unknown {_usd(_unknown(comparison))}"
    )
    for note in plan.notes:
        yield f"note: {note}"
    for (model, are_of_today), amount in comparison.sum_stale_prices().items():
        then = "still has the prices that the calls had" if are_of_today else "has other prices since then"
        yield f"stale price: {escape_line(model) or 'all models'}, {_usd(amount)}: the catalog {then}"
    for group in comparison.groups:
        if not group.is_valued:
            name = escape_line(group.model)
            yield f"not valued: {group.day} {name}: it has tokens, but no cost, and no price is known"
    unsettled = comparison.unsettled_nanousd
    word = "within" if unsettled <= tolerance_nanousd else "above"
    tolerance = f"{word} the tolerance of {_usd(tolerance_nanousd)}"
    yield f"the sum of all differences but rounding, {_usd(unsettled)}, is {tolerance}"


def _sums(comparison: Comparison) -> tuple[int, int]:
    groups = comparison.groups
    return sum(group.export_nanousd for group in groups), sum(group.ledger_nanousd for group in groups)


def _unknown(comparison: Comparison) -> int:
    return comparison.sum_causes().get(UNKNOWN, (0, 0))[0]


def _usd(amount_nanousd: int) -> str:
    is_short = amount_nanousd % 1_000 == 0
    return f"{(format_nanousd if is_short else format_nanousd_rounded)(amount_nanousd)} USD"


def _as_object(comparison: Comparison, plan: Plan, provider: str, tolerance_nanousd: int) -> dict[str, Any]:
    export, ledger = _sums(comparison)
    return {
        "provider": provider,
        "from": plan.first.isoformat(),
        "to": plan.last.isoformat(),
        "time_zone": plan.zone.key,
        "export_nanousd": export,
        "ledger_nanousd": ledger,
        "difference_nanousd": export - ledger,
        "causes": {cause: amount for cause, (amount, _) in comparison.sum_causes().items()},
        "unsettled_nanousd": comparison.unsettled_nanousd,
        "tolerance_nanousd": tolerance_nanousd,
        "notes": list(plan.notes),
        "groups": [_group_object(group) for group in comparison.groups],
    }


def _group_object(group: Group) -> dict[str, Any]:
    return {
        **dict(zip(GROUP_COLUMNS, _cells_of(group), strict=True)),
        "export_tokens": _tokens_object(group.export_tokens),
        "ledger_tokens": _tokens_object(group.ledger_tokens),
        "export_calls": group.export_calls,
        "ledger_calls": group.ledger_calls,
        "is_valued": group.is_valued,
        "prices_are_of_today": group.are_of_today,
        "causes": dict(group.causes),
    }


def _tokens_object(tokens: Tokens | None) -> dict[str, int] | None:
    return None if tokens is None else tokens._asdict()

"""The steps that end calls and put money into wallets: rows, payments and counters. Source: docs/ledger.md."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import ENTRIES, PAYMENTS, PRICES, Engine, Last, Row, Statement, Step
from addon.store.money.rows import CALL, USAGE, complete_row, values_of
from addon.store.protocol import Settlement, WalletEntry
from policies.attempt_ends import ATTEMPT_ENDS
from policies.budgets import parse_scope, read_scopes
from policies.ledger_row import PRICE_SET_CONTENT
from policies.limits import counters_of, wallet_counter
from policies.utc_time import format_utc

type Place = tuple[str, str]
"""The scope and the period of a counter."""

_NOTHING = (0, 0)


class Ended(NamedTuple):
    """A call that ended, with its complete row. ``calls`` is what its counters get: 0 if its request was counted."""

    row: Row
    from_wallet: bool
    calls: int = 1


def settle(settlements: Sequence[Settlement], engine: Engine) -> Step[list[None]]:
    """Write the rows and payments of calls, add their costs to every counter, and release their holds."""
    written = yield from write_rows(settlements, engine)
    counted = [engine.count(_sum_calls(written))] if written else []
    ids = [one.row["id"] for one in settlements]
    yield Last([*follow_rows(written, engine), *counted, *engine.release(ids)])
    return [None] * len(settlements)


def write_rows(settlements: Sequence[Settlement], engine: Engine) -> Step[Sequence[Ended]]:
    """Write the rows of calls, and return those that were written. Raises ``IllegalRowError``.

    A row that is there already stays. That of an interrupted call gives way: its call lived.
    """
    ended = [Ended(complete_row(one.row), one.from_wallet) for one in settlements]
    answers = yield engine.insert(USAGE, [values_of(one.row) for one in ended])
    if len(ended) == 1 and answers[0]:
        return ended
    new = {row[0] for row in chain(*answers)}
    by_id = {one.row["id"]: one for one in ended}
    late = [one.row for call_id, one in by_id.items() if call_id not in new]
    replaced = {row[0] for row in chain(*(yield engine.replace_interrupted(late)))} if late else set()
    # The request of an interrupted call was counted, its cost was not.
    return [
        one if call_id in new else one._replace(calls=0)
        for call_id, one in by_id.items()
        if call_id in new or call_id in replaced
    ]


def follow_rows(written: Sequence[Ended], engine: Engine) -> list[Statement]:
    """Return the statements that write the price sets, the payments and the attempts of rows."""
    prices: dict[str, tuple[Any, ...]] = {}
    paid: list[tuple[Any, ...]] = []
    attempts: list[tuple[Any, ...]] = []
    for row, from_wallet, _ in written:
        if row[ATTEMPT_ENDS] is not None:
            attempts += [(row["id"], row["created_at"], *end) for end in row[ATTEMPT_ENDS]]
        if row[PRICE_SET_CONTENT] is not None:
            name = row["price_set"]
            prices[name] = (name, row["created_at"], row["model_slug"], row[PRICE_SET_CONTENT])
        if from_wallet and row["retail_nanousd"]:
            paid.append((row["id"], row["created_at"], row["workspace"], -row["retail_nanousd"], CALL))
    statements: list[Statement] = []
    if prices:
        statements += engine.insert(PRICES, list(prices.values()))
    if paid:
        statements += engine.insert(PAYMENTS, paid)
    if replaced := [row["id"] for row, _, calls in written if not calls]:
        statements += engine.remove_attempts(replaced)
    if attempts:
        statements += engine.insert(ATTEMPTS, attempts)
    return statements


def interrupt(holds: Iterable[Sequence[Any]], engine: Engine) -> Step[int]:
    """Settle calls of dead processes, given interrupted row and budgets of each hold. Return how many there were."""
    ended = [Settlement({**json.loads(row), "budgets": budgets}, from_wallet=False) for row, budgets in holds]
    if ended:
        yield from settle(ended, engine)
    return len(ended)


def credit(entries: Sequence[WalletEntry], engine: Engine) -> Step[list[bool]]:
    """Enter money into wallets and count it; return which entries are new."""
    new = yield from write_entries(entries, engine)
    sums: dict[Place, tuple[int, int]] = {}
    for entry in entries:
        if entry.id in new:
            counter = wallet_counter(entry.workspace)
            place = (counter.scope, counter.period)
            sums[place] = (sums.get(place, _NOTHING)[0] - entry.amount_nanousd, 0)
    if sums:
        yield Last([engine.count(sums)])
    return [entry.id in new for entry in entries]


def write_entries(entries: Sequence[WalletEntry], engine: Engine) -> Step[set[str]]:
    """Write entries; return the ids of those that are new."""
    rows = [
        (one.id, format_utc(one.created_at), one.workspace, one.amount_nanousd, one.reference)
        for one in entries
    ]
    return {row[0] for row in chain(*(yield engine.insert(ENTRIES, rows)))}


def _sum_calls(written: Sequence[Ended]) -> Mapping[Place, tuple[int, int]]:
    """Return what each counter gets."""
    sums: dict[Place, tuple[int, int]] = {}
    for row, from_wallet, calls in written:
        spent_nanousd = row["retail_nanousd"]
        *counters, wallet = _counters_of_day(row["workspace"], row["key_id"], row["created_at"][:10])
        for place in counters:
            before = sums.get(place, _NOTHING)
            sums[place] = (before[0] + spent_nanousd, before[1] + calls)
        if row["budgets"] is not None:
            for scope in read_scopes(row["budgets"]):
                place = (scope, parse_scope(scope).period)
                before = sums.get(place, _NOTHING)
                sums[place] = (before[0] + spent_nanousd, before[1] + calls)
        if from_wallet and spent_nanousd:
            sums[wallet] = (sums.get(wallet, _NOTHING)[0] + spent_nanousd, 0)
    return sums


@lru_cache(maxsize=4096)
def _counters_of_day(workspace: str, key_id: str, day: str) -> tuple[Place, ...]:
    """Return the place of each counter that a call adds to, the wallet's last."""
    counters = (*counters_of(workspace, key_id, date.fromisoformat(day)), wallet_counter(workspace))
    return tuple((counter.scope, counter.period) for counter in counters)

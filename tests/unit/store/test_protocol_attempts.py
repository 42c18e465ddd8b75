"""The attempts of calls that made several, in each kind of store."""

from typing import Any

from rig.stores import StoreLocation, request, settlement

from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.protocol import Store
from policies.attempt_ends import ATTEMPT_ENDS, AttemptEnd

FIRST = AttemptEnd(1, "A", "A/a", "payg", 2, 503, "upstream_error", 40)
SECOND = AttemptEnd(2, "B", "B/b", "byok", None, 200, None, 900)
CUT = AttemptEnd(2, "B", "B/b", "byok", None, 499, "interrupted", 0)


def tried(location: StoreLocation) -> list[tuple[Any, ...]]:
    rows = location.select("SELECT * FROM attempts ORDER BY call_id, number")
    return [tuple(row[name] for name in ATTEMPTS.columns) for row in rows]


def listed(call_id: str, location: StoreLocation, *ends: AttemptEnd) -> list[tuple[Any, ...]]:
    return [(call_id, location.rows()[call_id]["created_at"], *end) for end in ends]


async def test_each_attempt_of_a_call_with_several_has_a_line_once(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await store.settle(settlement("one"))
    for one in (store, other, store):
        await one.settle(settlement("two", attempts=2, **{ATTEMPT_ENDS: (FIRST, SECOND)}))
    for one in (store, other):
        await one.maintain()
    assert tried(location) == listed("two", location, FIRST, SECOND)


async def test_the_attempts_of_a_call_that_lived_replace_those_of_the_interrupted_one(
    store: Store, location: StoreLocation
) -> None:
    cut = dict(request("two", attempt=2).interrupted_row)
    await store.settle(settlement("two", 0, **cut | {ATTEMPT_ENDS: (FIRST, CUT)}))
    await store.maintain()
    assert tried(location) == listed("two", location, FIRST, CUT)
    await store.settle(settlement("two", attempts=2, **{ATTEMPT_ENDS: (FIRST, SECOND)}))
    await store.maintain()
    assert tried(location) == listed("two", location, FIRST, SECOND)


async def test_what_is_wrong_with_an_attempt_keeps_no_call_out_of_the_ledger(
    store: Store, location: StoreLocation
) -> None:
    odd = SECOND._replace(number=1)
    await store.settle(settlement("two", attempts=2, **{ATTEMPT_ENDS: (FIRST, odd)}))
    await store.maintain()
    assert tried(location) == listed("two", location, FIRST)

"""A hold that moves to another attempt of its call, in SQLite and in Redis."""

import asyncio

import pytest
from msgspec.structs import replace
from rig.large import sampled
from rig.stores import (
    EVER,
    LOOSE,
    MAX_COST,
    MONTH,
    OpenStore,
    StoreLocation,
    all_counters,
    cap,
    credit,
    die,
    reason_of,
    request,
    settlement,
    wallet,
)

from addon.store.protocol import Store, StoreUnavailable
from policies.limits import Limit
from policies.spend import NOT_METERED, CounterUse, Hold, MaxCost


async def test_a_moved_hold_is_that_of_the_next_attempt(store: Store, location: StoreLocation) -> None:
    await store.hold(request("a"))
    assert await store.move_hold(request("a", max_cost=replace(MAX_COST, cap_tokens=7), attempt=2)) == Hold(
        5_368, 7
    )
    assert location.holds() == ["a"]
    assert location.used_now(all_counters()) == [CounterUse(0, 0, 5_368, 1)] * 6
    await store.settle(settlement("a", 900))
    assert location.used(EVER) == CounterUse(900, 1)
    assert await location.discrepancies() == []


async def test_a_second_move_returns_the_moved_hold(store: Store, location: StoreLocation) -> None:
    limit = cap("spend_cap", 2_872)
    await store.hold(request("a"))
    for _ in range(3):
        assert await store.move_hold(request("a", limit, attempt=2)) == Hold(2_872, 3)
    assert await store.hold(request("a")) == Hold(2_872, 3)
    assert location.used(EVER) == CounterUse(0, 0, 2_872, 1)


async def test_a_call_that_moves_does_not_count_against_itself(store: Store) -> None:
    calls, spend = cap("request_cap", 1), cap("spend_cap", 63_400)
    for max_cost in (MAX_COST, LOOSE):
        call_id = f"protected {max_cost.is_protected}"
        await store.hold(request(call_id, calls, spend, max_cost=max_cost))
        for attempt in (2, 3):
            moved = await store.move_hold(request(call_id, calls, spend, max_cost=max_cost, attempt=attempt))
            assert moved == await store.hold(request(call_id))
            assert isinstance(moved, Hold)
            assert moved.cap_tokens == 100
        await store.void(call_id)


async def test_a_move_to_the_platforms_key_holds_money_and_a_move_back_holds_none(
    store: Store, location: StoreLocation
) -> None:
    await store.credit(credit("c", 63_400))
    calls = cap("request_cap", 1)
    assert await store.hold(request("a", calls, max_cost=NOT_METERED)) == Hold(0, 1)
    assert await store.move_hold(request("a", calls, wallet(), attempt=2)) == Hold(63_400, 100)
    assert reason_of(await store.hold(request("b", wallet()))) == "budget_of_prompt"
    assert await store.move_hold(request("a", calls, max_cost=NOT_METERED, attempt=3)) == Hold(0, 1)
    assert await store.hold(request("b", wallet())) == Hold(63_400, 100)
    assert location.used(EVER) == CounterUse(0, 0, 63_400, 2)


@sampled(every=2)
@pytest.mark.parametrize(
    ("limit", "max_cost", "reason"),
    [
        (cap("request_cap", 1), MAX_COST, "request_cap"),
        (cap("spend_cap", 1_000), LOOSE, "spend_cap"),
        (wallet(), MAX_COST, "wallet"),
        (cap("monthly_spend_cap", 63_400 + 999, MONTH), MAX_COST, "budget_of_prompt"),
        (cap("spend_cap", 63_400 + 1_000 + 623), MAX_COST, "budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_denied_move_keeps_the_hold_and_the_call_settles_once(
    limit: Limit, max_cost: MaxCost, reason: str, store: Store, other: Store, location: StoreLocation
) -> None:
    """The other call holds first, so the moving call may only have the rest."""
    await other.hold(request("first", max_cost=max_cost))
    await store.hold(request("a", max_cost=replace(MAX_COST, cap_tokens=2)))
    before = location.used_now(all_counters())
    assert reason_of(await store.move_hold(request("a", limit, max_cost=max_cost, attempt=2))) == reason  # type: ignore[arg-type]
    assert location.holds() == ["a", "first"]
    assert location.used_now(all_counters()) == before
    await store.settle(settlement("a", 0, status=503, error_code="upstream_error"))
    await store.maintain()
    assert location.rows()["a"]["status"] == 503
    assert location.used(EVER).requests == location.used(EVER).in_flight == 1
    assert await location.discrepancies() == []


async def test_a_call_without_a_hold_can_not_be_moved(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await store.hold(request("voided"))
    await store.void("voided")
    await store.hold(request("settled"))
    await store.settle(settlement("settled"))
    await other.hold(request("of another"))
    for call_id in ("never held", "voided", "settled", "of another"):
        with pytest.raises(StoreUnavailable, match="can't be moved: it holds nothing"):
            await store.move_hold(request(call_id, attempt=2))
    assert location.holds() == ["of another"]
    assert location.used(EVER) == CounterUse(1_560, 1, 63_400, 1)


async def test_moves_at_once_never_hold_more_than_is_left(
    store: Store, other: Store, location: StoreLocation
) -> None:
    limit = cap("spend_cap", 50_000)
    calls = [(one, f"{name}-{number}") for number in range(12) for name, one in (("a", store), ("b", other))]
    for one, call_id in calls:
        await one.hold(request(call_id, max_cost=NOT_METERED))
    small = replace(MAX_COST, cap_tokens=10)
    decided = await asyncio.gather(
        *(one.move_hold(request(call_id, limit, max_cost=small, attempt=2)) for one, call_id in calls)
    )
    held = sum(one.amount_nanousd for one in decided if isinstance(one, Hold))
    assert location.used(EVER) == CounterUse(0, 0, held, len(calls))
    assert 50_000 - 1_624 < held <= 50_000


@pytest.mark.parametrize("is_denied", [False, True])
async def test_a_process_that_dies_after_a_move_leaves_the_row_of_the_held_attempt(
    is_denied: bool, open_store: OpenStore, location: StoreLocation
) -> None:
    dying = await open_store()
    await dying.hold(request("a"))
    await dying.move_hold(request("a", *[cap("request_cap", 0)] * is_denied, attempt=2))
    await die(dying)
    successor = await open_store()
    await successor.maintain()
    assert location.holds() == []
    assert [(row["attempts"], row["error_code"]) for row in location.rows().values()] == [
        (1 if is_denied else 2, "interrupted")
    ]
    assert location.used(EVER) == CounterUse(0, 1)
    assert await location.discrepancies() == []

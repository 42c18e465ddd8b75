"""What a hold takes and when it is denied, in SQLite and in Redis."""

import asyncio
from datetime import datetime

import pytest
from msgspec.structs import replace
from rig.stores import (
    DAY,
    EVER,
    LOOSE,
    MAX_COST,
    MONTH,
    NOW,
    USD,
    WORKSPACE,
    StoreLocation,
    all_counters,
    cap,
    credit,
    reason_of,
    request,
    settlement,
    wallet,
)

from addon.store.protocol import NoToken, Store
from policies.limits import Counter, Limit, wallet_counter
from policies.spend import CounterUse, Denial, Hold, MaxCost


async def test_a_call_without_limits_is_held_in_full(store: Store, location: StoreLocation) -> None:
    assert await store.hold(request("a")) == Hold(63_400, 100)
    assert location.used_now(all_counters()) == [CounterUse(0, 0, 63_400, 1)] * 6


async def test_counters_are_read_without_what_calls_in_flight_hold(store: Store, other: Store) -> None:
    await store.hold(request("a"))
    assert await other.read_counters(WORKSPACE, [EVER, MONTH]) == [(0, 0), (0, 0)]
    await store.settle(settlement("a"))
    await store.credit(credit("b", 5 * USD))
    [spent] = await other.read_counters(WORKSPACE, [EVER])
    assert spent == (settlement("a").row["retail_nanousd"], 1)
    assert await other.read_counters(WORKSPACE, [MONTH, DAY]) == [spent, spent]
    assert await other.read_counters(WORKSPACE, [wallet().counter]) == [(spent[0] - 5 * USD, 0)]
    assert await store.read_counters(WORKSPACE, []) == []


async def test_without_overage_protection_only_the_prompt_is_held(
    store: Store, location: StoreLocation
) -> None:
    assert await store.hold(request("a", cap("spend_cap", 1), max_cost=LOOSE)) == Hold(1_000, 100)
    assert location.used(EVER) == CounterUse(0, 0, 1_000, 1)


async def test_other_calls_can_not_use_what_calls_in_flight_hold(store: Store, other: Store) -> None:
    limit = cap("spend_cap", 63_400 + 1_000 + 624 * 3 + 623)
    assert await store.hold(request("a", limit)) == Hold(63_400, 100)
    assert await other.hold(request("b", limit)) == Hold(2_872, 3)
    assert reason_of(await store.hold(request("c", limit))) == "budget_of_prompt"
    await other.void("b")
    assert await store.hold(request("c", limit)) == Hold(2_872, 3)


async def test_a_denial_names_the_limit_and_the_calls_in_flight_that_cause_it(
    store: Store, other: Store
) -> None:
    calls, month = cap("request_cap", 9), cap("monthly_spend_cap", 64_000, MONTH)
    await store.hold(request("a", calls, month))
    denial = await other.hold(request("b", calls, month))
    assert denial == Denial("budget_of_prompt", month, in_flight=1, held_nanousd=63_400)
    await store.settle(settlement("a", 63_400))
    assert await other.hold(request("b", calls, month)) == Denial("budget_of_prompt", month)


async def test_a_call_that_names_no_cap_leaves_something_for_the_next(store: Store) -> None:
    max_cost = replace(MAX_COST, token_picousd=1_000, cap_tokens=100_000, names_cap=False)
    limit = cap("spend_cap", 80_000)
    held = [await store.hold(request(str(number), limit, max_cost=max_cost)) for number in range(4)]
    assert [hold.cap_tokens for hold in held if isinstance(hold, Hold)] == [19_000, 14_000, 10_250, 7_437]


async def test_a_wallet_pays_its_balance_and_no_more(store: Store, location: StoreLocation) -> None:
    assert reason_of(await store.hold(request("a", wallet()))) == "wallet"
    await store.credit(credit("c", 63_400))
    assert await store.hold(request("a", wallet())) == Hold(63_400, 100)
    await store.settle(settlement("a", 63_400))
    assert location.used(wallet_counter(WORKSPACE)) == CounterUse(0, 0, 0, 0)
    assert reason_of(await store.hold(request("b", wallet()))) == "wallet"


@pytest.mark.parametrize(
    ("limits", "max_cost", "reason"),
    [
        ([cap("request_cap", 0)], MAX_COST, "request_cap"),
        ([cap("spend_cap", 0), Limit("wallet", wallet_counter(WORKSPACE), 0)], MAX_COST, "spend_cap"),
        ([cap("spend_cap", 1, MONTH), wallet()], LOOSE, "wallet"),
        ([cap("monthly_spend_cap", 0, MONTH)], LOOSE, "monthly_spend_cap"),
        ([cap("spend_cap", 999)], MAX_COST, "budget_of_prompt"),
        ([cap("spend_cap", 1_623)], MAX_COST, "budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_call_that_does_not_fit_is_denied_with_its_reason_and_holds_nothing(
    limits: list[Limit], max_cost: MaxCost, reason: str, store: Store, location: StoreLocation
) -> None:
    assert reason_of(await store.hold(request("a", *limits, max_cost=max_cost))) == reason  # type: ignore[arg-type]
    assert location.holds() == []
    assert location.used_now(all_counters()) == [CounterUse()] * 6


async def test_request_caps_count_the_calls_in_flight(store: Store, other: Store) -> None:
    limit = cap("request_cap", 2, DAY)
    assert isinstance(await store.hold(request("a", limit)), Hold)
    await store.settle(settlement("a"))
    assert isinstance(await other.hold(request("b", limit)), Hold)
    assert reason_of(await store.hold(request("c", limit))) == "request_cap"


async def test_a_second_request_returns_the_existing_hold(
    store: Store, other: Store, location: StoreLocation
) -> None:
    limit = cap("spend_cap", 2_872)
    for one in (store, other, store):
        assert await one.hold(request("a", limit)) == Hold(2_872, 3)
    assert location.used(EVER) == CounterUse(0, 0, 2_872, 1)


async def test_a_take_without_a_token_returns_the_wait(store: Store) -> None:
    assert await store.take_token(WORKSPACE, 2) == 0
    assert await store.take_token(WORKSPACE, 2) == 0
    first_us, then_us = [await store.take_token(WORKSPACE, 2) for _ in range(2)]
    assert 60_000_000 >= first_us >= then_us > 0
    # With a lower limit, two tokens must come back before one is there.
    assert 60_000_000 >= await store.take_token(WORKSPACE, 1) > 0


async def test_a_token_and_a_hold_are_one_step(store: Store, other: Store, location: StoreLocation) -> None:
    limit = cap("request_cap", 1)
    assert await store.take_and_hold(request("a", limit), 2) == Hold(63_400, 100)
    assert reason_of(await other.take_and_hold(request("b", limit), 2)) == "request_cap"
    assert WORKSPACE not in store.empty_buckets
    without_token = await store.take_and_hold(request("c"), 2)
    assert isinstance(without_token, NoToken)
    assert 60_000_000 >= without_token.wait_us > 0
    assert WORKSPACE in store.empty_buckets
    assert location.holds() == ["a"]
    assert await store.take_token(WORKSPACE, 3) == 0
    assert WORKSPACE not in store.empty_buckets


async def test_tokens_and_holds_at_once_exceed_neither_the_rate_nor_the_limit(
    store: Store, other: Store, location: StoreLocation
) -> None:
    limit = cap("request_cap", 12)
    decided = await asyncio.gather(
        *(
            one.take_and_hold(request(f"{name}-{number}", limit), 25)
            for number in range(20)
            for name, one in (("a", store), ("b", other))
        )
    )
    kinds = [type(one) for one in decided]
    assert (kinds.count(Hold), kinds.count(Denial), kinds.count(NoToken)) == (12, 13, 15)
    assert len(location.holds()) == 12


async def test_calls_at_once_never_hold_more_than_is_left(
    store: Store, other: Store, location: StoreLocation
) -> None:
    limit = cap("spend_cap", 50_000)
    small = replace(MAX_COST, cap_tokens=10)
    decided = await asyncio.gather(
        *(
            one.hold(request(f"{name}-{number}", limit, max_cost=small))
            for number in range(20)
            for name, one in (("a", store), ("b", other))
        )
    )
    held = sum(one.amount_nanousd for one in decided if isinstance(one, Hold))
    assert held == location.used(EVER).held_nanousd
    assert 50_000 - 1_624 < held <= 50_000


async def test_a_hold_counts_in_the_periods_of_its_call_and_in_no_other(
    store: Store, location: StoreLocation
) -> None:
    yesterday, tomorrow = datetime.fromisoformat("2026-11-20T23:59:59.999+00:00"), NOW.replace(day=22)
    for call_id, moment in (("a", yesterday), ("b", NOW), ("c", tomorrow)):
        await store.hold(request(call_id, created_at=moment))
    assert location.used(DAY).in_flight == 1
    assert location.used(Counter("key:acme/ci", "2026-W47")).in_flight == 3
    assert location.used(MONTH).in_flight == 3


async def test_keys_and_workspaces_do_not_count_for_each_other(store: Store, location: StoreLocation) -> None:
    await store.hold(request("a"))
    await store.hold(request("b", key_id="other"))
    await store.hold(request("c", workspace="bare"))
    assert location.used(EVER).in_flight == 1
    assert location.used(Counter("key:acme/other", "ever")).in_flight == 1
    assert location.used(MONTH).in_flight == 2
    assert location.used(wallet_counter("bare")).in_flight == 1

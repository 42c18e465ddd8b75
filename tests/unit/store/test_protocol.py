"""The rules of every store: one suite for SQLite and for Redis."""

import asyncio
from datetime import datetime

import pytest
from msgspec.structs import replace
from rig.stores import (
    KEY,
    MAX_COST,
    NOW,
    USD,
    WORKSPACE,
    OpenStore,
    Place,
    all_counters,
    call_row,
    credit,
    die,
    reason_of,
    request,
    settlement,
    takes,
    wallet,
)

from addon.store.ledger.migration_steps import LARGEST
from addon.store.protocol import IllegalRowError, NoToken, Settlement, Store, StoreUnavailable
from policies.limits import Counter, Limit, LimitKind, wallet_counter
from policies.spend import NOT_METERED, CounterUse, Denial, Hold, MaxCost

LOOSE = replace(MAX_COST, is_protected=False)
EVER = Counter("key:acme/ci", "ever")
DAY = Counter("key:acme/ci", "2026-11-21")
MONTH = Counter("workspace:acme", "2026-11")


# Tokens.


async def test_all_stores_together_get_only_the_tokens_of_the_bucket(store: Store, other: Store) -> None:
    assert [await takes(one, WORKSPACE, 3) for one in (store, other, store, other, store)] == [
        *[True] * 3,
        *[False] * 2,
    ]


async def test_each_workspace_has_its_own_bucket(store: Store) -> None:
    assert await takes(store, "acme", 1)
    assert await takes(store, "bare", 1)
    assert not await takes(store, "acme", 1)


async def test_a_new_limit_applies_at_once(store: Store) -> None:
    assert [await takes(store, WORKSPACE, 2) for _ in range(3)] == [True, True, False]
    assert [await takes(store, WORKSPACE, 4) for _ in range(3)] == [True, True, False]
    assert not await takes(store, WORKSPACE, 1)
    assert [await takes(store, WORKSPACE, 500) for _ in range(2)] == [True, True]


async def test_takes_at_once_are_counted_one_by_one(store: Store, other: Store) -> None:
    taken = await asyncio.gather(*(takes(one, WORKSPACE, 25) for one in (store, other) for _ in range(20)))
    assert taken.count(True) == 25


@pytest.mark.parametrize("limit_rpm", [400, 401, 1000])
async def test_no_limit_is_exceeded_when_takes_are_grouped(store: Store, limit_rpm: int) -> None:
    assert all([await takes(store, WORKSPACE, limit_rpm) for _ in range(limit_rpm)])
    assert not await takes(store, WORKSPACE, limit_rpm)


# Holds.


def cap(kind: LimitKind, most: int, counter: Counter = EVER) -> Limit:
    return Limit(kind, counter, most)


async def test_a_call_without_limits_is_held_in_full(store: Store, place: Place) -> None:
    assert await store.hold(request("a")) == Hold(63_400, 100)
    assert place.used_now(all_counters()) == [CounterUse(0, 0, 63_400, 1)] * 6


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


async def test_without_overage_protection_only_the_prompt_is_held(store: Store, place: Place) -> None:
    assert await store.hold(request("a", cap("spend_cap", 1), max_cost=LOOSE)) == Hold(1_000, 100)
    assert place.used(EVER) == CounterUse(0, 0, 1_000, 1)


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


async def test_a_wallet_pays_its_balance_and_no_more(store: Store, place: Place) -> None:
    assert reason_of(await store.hold(request("a", wallet()))) == "wallet"
    await store.credit(credit("c", 63_400))
    assert await store.hold(request("a", wallet())) == Hold(63_400, 100)
    await store.settle(settlement("a", 63_400))
    assert place.used(wallet_counter(WORKSPACE)) == CounterUse(0, 0, 0, 0)
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
    limits: list[Limit], max_cost: MaxCost, reason: str, store: Store, place: Place
) -> None:
    assert reason_of(await store.hold(request("a", *limits, max_cost=max_cost))) == reason  # type: ignore[arg-type]
    assert place.holds() == []
    assert place.used_now(all_counters()) == [CounterUse()] * 6


async def test_request_caps_count_the_calls_in_flight(store: Store, other: Store) -> None:
    limit = cap("request_cap", 2, DAY)
    assert isinstance(await store.hold(request("a", limit)), Hold)
    await store.settle(settlement("a"))
    assert isinstance(await other.hold(request("b", limit)), Hold)
    assert reason_of(await store.hold(request("c", limit))) == "request_cap"


async def test_a_second_request_returns_the_existing_hold(store: Store, other: Store, place: Place) -> None:
    limit = cap("spend_cap", 2_872)
    for one in (store, other, store):
        assert await one.hold(request("a", limit)) == Hold(2_872, 3)
    assert place.used(EVER) == CounterUse(0, 0, 2_872, 1)


async def test_a_take_without_a_token_returns_the_wait(store: Store) -> None:
    assert await store.take_token(WORKSPACE, 2) == 0
    assert await store.take_token(WORKSPACE, 2) == 0
    first_us, then_us = [await store.take_token(WORKSPACE, 2) for _ in range(2)]
    assert 60_000_000 >= first_us >= then_us > 0
    # With a lower limit, two tokens must come back before one is there.
    assert 60_000_000 >= await store.take_token(WORKSPACE, 1) > 0


async def test_a_token_and_a_hold_are_one_step(store: Store, other: Store, place: Place) -> None:
    limit = cap("request_cap", 1)
    assert await store.take_and_hold(request("a", limit), 2) == Hold(63_400, 100)
    assert reason_of(await other.take_and_hold(request("b", limit), 2)) == "request_cap"
    assert WORKSPACE not in store.empty_buckets
    without_token = await store.take_and_hold(request("c"), 2)
    assert isinstance(without_token, NoToken)
    assert 60_000_000 >= without_token.wait_us > 0
    assert WORKSPACE in store.empty_buckets
    assert place.holds() == ["a"]
    assert await store.take_token(WORKSPACE, 3) == 0
    assert WORKSPACE not in store.empty_buckets


async def test_tokens_and_holds_at_once_exceed_neither_the_rate_nor_the_limit(
    store: Store, other: Store, place: Place
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
    assert len(place.holds()) == 12


async def test_calls_at_once_never_hold_more_than_is_left(store: Store, other: Store, place: Place) -> None:
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
    assert held == place.used(EVER).held_nanousd
    assert 50_000 - 1_624 < held <= 50_000


async def test_a_hold_counts_in_the_periods_of_its_call_and_in_no_other(store: Store, place: Place) -> None:
    yesterday, tomorrow = datetime.fromisoformat("2026-11-20T23:59:59.999+00:00"), NOW.replace(day=22)
    for call_id, moment in (("a", yesterday), ("b", NOW), ("c", tomorrow)):
        await store.hold(request(call_id, created_at=moment))
    assert place.used(DAY).in_flight == 1
    assert place.used(Counter("key:acme/ci", "2026-W47")).in_flight == 3
    assert place.used(MONTH).in_flight == 3


async def test_keys_and_workspaces_do_not_count_for_each_other(store: Store, place: Place) -> None:
    await store.hold(request("a"))
    await store.hold(request("b", key_id="other"))
    await store.hold(request("c", workspace="bare"))
    assert place.used(EVER).in_flight == 1
    assert place.used(Counter("key:acme/other", "ever")).in_flight == 1
    assert place.used(MONTH).in_flight == 2
    assert place.used(wallet_counter("bare")).in_flight == 1


# Another attempt of a call.


async def test_a_moved_hold_is_that_of_the_next_attempt(store: Store, place: Place) -> None:
    await store.hold(request("a"))
    assert await store.move_hold(request("a", max_cost=replace(MAX_COST, cap_tokens=7), attempt=2)) == Hold(
        5_368, 7
    )
    assert place.holds() == ["a"]
    assert place.used_now(all_counters()) == [CounterUse(0, 0, 5_368, 1)] * 6
    await store.settle(settlement("a", 900))
    assert place.used(EVER) == CounterUse(900, 1)
    assert await place.discrepancies() == []


async def test_a_second_move_returns_the_moved_hold(store: Store, place: Place) -> None:
    limit = cap("spend_cap", 2_872)
    await store.hold(request("a"))
    for _ in range(3):
        assert await store.move_hold(request("a", limit, attempt=2)) == Hold(2_872, 3)
    assert await store.hold(request("a")) == Hold(2_872, 3)
    assert place.used(EVER) == CounterUse(0, 0, 2_872, 1)


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
    store: Store, place: Place
) -> None:
    await store.credit(credit("c", 63_400))
    calls = cap("request_cap", 1)
    assert await store.hold(request("a", calls, max_cost=NOT_METERED)) == Hold(0, 1)
    assert await store.move_hold(request("a", calls, wallet(), attempt=2)) == Hold(63_400, 100)
    assert reason_of(await store.hold(request("b", wallet()))) == "budget_of_prompt"
    assert await store.move_hold(request("a", calls, max_cost=NOT_METERED, attempt=3)) == Hold(0, 1)
    assert await store.hold(request("b", wallet())) == Hold(63_400, 100)
    assert place.used(EVER) == CounterUse(0, 0, 63_400, 2)


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
    limit: Limit, max_cost: MaxCost, reason: str, store: Store, other: Store, place: Place
) -> None:
    """The other call holds first, so the moving call may only have the rest."""
    await other.hold(request("first", max_cost=max_cost))
    await store.hold(request("a", max_cost=replace(MAX_COST, cap_tokens=2)))
    before = place.used_now(all_counters())
    assert reason_of(await store.move_hold(request("a", limit, max_cost=max_cost, attempt=2))) == reason  # type: ignore[arg-type]
    assert place.holds() == ["a", "first"]
    assert place.used_now(all_counters()) == before
    await store.settle(settlement("a", 0, status=503, error_code="upstream_error"))
    await store.maintain()
    assert place.rows()["a"]["status"] == 503
    assert place.used(EVER).requests == place.used(EVER).in_flight == 1
    assert await place.discrepancies() == []


async def test_a_call_without_a_hold_can_not_be_moved(store: Store, other: Store, place: Place) -> None:
    await store.hold(request("voided"))
    await store.void("voided")
    await store.hold(request("settled"))
    await store.settle(settlement("settled"))
    await other.hold(request("of another"))
    for call_id in ("never held", "voided", "settled", "of another"):
        with pytest.raises(StoreUnavailable, match="can't be moved: it holds nothing"):
            await store.move_hold(request(call_id, attempt=2))
    assert place.holds() == ["of another"]
    assert place.used(EVER) == CounterUse(1_560, 1, 63_400, 1)


async def test_moves_at_once_never_hold_more_than_is_left(store: Store, other: Store, place: Place) -> None:
    limit = cap("spend_cap", 50_000)
    calls = [(one, f"{name}-{number}") for number in range(12) for name, one in (("a", store), ("b", other))]
    for one, call_id in calls:
        await one.hold(request(call_id, max_cost=NOT_METERED))
    small = replace(MAX_COST, cap_tokens=10)
    decided = await asyncio.gather(
        *(one.move_hold(request(call_id, limit, max_cost=small, attempt=2)) for one, call_id in calls)
    )
    held = sum(one.amount_nanousd for one in decided if isinstance(one, Hold))
    assert place.used(EVER) == CounterUse(0, 0, held, len(calls))
    assert 50_000 - 1_624 < held <= 50_000


@pytest.mark.parametrize("is_denied", [False, True])
async def test_a_process_that_dies_after_a_move_leaves_the_row_of_the_held_attempt(
    is_denied: bool, open_store: OpenStore, place: Place
) -> None:
    dying = await open_store()
    await dying.hold(request("a"))
    await dying.move_hold(request("a", *[cap("request_cap", 0)] * is_denied, attempt=2))
    await die(dying)
    successor = await open_store()
    await successor.maintain()
    assert place.holds() == []
    assert [(row["attempts"], row["error_code"]) for row in place.rows().values()] == [
        (1 if is_denied else 2, "interrupted")
    ]
    assert place.used(EVER) == CounterUse(0, 1)
    assert await place.discrepancies() == []


# The end of a call.


async def test_a_hold_becomes_the_real_cost_with_its_row(store: Store, place: Place) -> None:
    await store.hold(request("a"))
    await store.settle(settlement("a", 1_560))
    await store.maintain()
    assert place.holds() == []
    assert place.rows() == {"a": call_row("a", wholesale_nanousd=1_560)}
    assert place.used_now(all_counters()) == [CounterUse(1_560, 1, 0, 0)] * 5 + [CounterUse(1_560, 0, 0, 0)]
    assert place.entries() == {"a": -1_560}
    assert await place.discrepancies() == []


async def test_only_calls_that_the_wallet_pays_charge_it(store: Store, place: Place) -> None:
    await store.settle(settlement("a", from_wallet=False))
    await store.settle(settlement("b", 0, usage_source="none"))
    await store.maintain()
    assert place.entries() == {}
    assert place.used(wallet_counter(WORKSPACE)).spent_nanousd == 0
    assert place.used(MONTH) == CounterUse(1_560, 2)


async def test_settling_again_changes_nothing(store: Store, other: Store, place: Place) -> None:
    await store.hold(request("a"))
    for one, cost in ((store, 5), (other, 7), (store, 5)):
        await one.settle(settlement("a", cost))
    for one in (store, other):
        await one.maintain()
    assert place.rows()["a"]["retail_nanousd"] == 5
    assert place.used(EVER) == CounterUse(5, 1, 0, 0)
    assert place.entries() == {"a": -5}


async def test_a_call_settles_through_another_store_than_the_one_that_held_it(
    store: Store, other: Store, place: Place
) -> None:
    await store.hold(request("a"))
    await other.settle(settlement("a"))
    await store.void("a")
    assert place.holds() == []
    assert place.used(EVER) == CounterUse(1_560, 1, 0, 0)


async def test_a_call_without_a_hold_is_recorded_too(store: Store, place: Place) -> None:
    await store.settle(settlement("a"))
    await store.maintain()
    assert set(place.rows()) == {"a"}
    assert place.used(EVER) == CounterUse(1_560, 1, 0, 0)


async def test_a_void_releases_the_hold_and_leaves_no_row(store: Store, place: Place) -> None:
    await store.hold(request("a"))
    await store.void("a")
    await store.void("a")
    await store.void("never held")
    await store.maintain()
    assert place.holds() == []
    assert place.rows() == {}
    assert place.used_now(all_counters()) == [CounterUse()] * 6


@pytest.mark.parametrize(
    "changes",
    [{"status": 600}, {"mode": "free"}, {"duration_ms": -1}, {"retail_nanousd": None}, {"created_at": "now"}],
    ids=str,
)
async def test_a_row_that_can_never_be_written_is_refused_and_its_hold_released(
    changes: dict[str, object], store: Store, place: Place
) -> None:
    await store.hold(request("a"))
    with pytest.raises(IllegalRowError, match="usage row a"):
        await store.settle(Settlement(call_row("a") | changes, from_wallet=True))
    await store.maintain()
    assert place.holds() == []
    assert place.rows() == {}
    assert place.used_now(all_counters()) == [CounterUse()] * 6
    await store.settle(settlement("next"))


async def test_a_row_that_lacks_a_column_is_refused_and_its_hold_released(store: Store, place: Place) -> None:
    await store.hold(request("a"))
    row = call_row("a")
    del row["stream"]
    with pytest.raises(IllegalRowError, match=r"usage row a.*stream"):
        await store.settle(Settlement(row, from_wallet=True))
    await store.maintain()
    assert (place.holds(), place.rows()) == ([], {})


@pytest.mark.parametrize("later", ["cache_write_tokens", "client_request_id"])
async def test_a_row_of_an_older_version_lacks_a_later_column(store: Store, place: Place, later: str) -> None:
    await store.hold(request("a"))
    row = call_row("a")
    del row[later]
    await store.settle(Settlement(row, from_wallet=True))
    await store.maintain()
    assert (place.holds(), place.rows()["a"][later]) == ([], None)


async def test_a_row_keeps_the_clients_own_id(store: Store, place: Place) -> None:
    await store.settle(settlement("a", client_request_id='order "7"'))
    await store.maintain()
    assert place.rows()["a"]["client_request_id"] == 'order "7"'


async def test_no_text_of_clients_or_providers_keeps_a_call_out_of_the_ledger(
    store: Store, place: Place
) -> None:
    odd = {"end_user": "a\ud800b", "requested_model": "x\0y", "completion_tokens": 10**400}
    await store.settle(settlement("a", 10**17, **odd))
    await store.maintain()
    row = place.rows()["a"]
    assert (row["end_user"], row["requested_model"], row["completion_tokens"]) == ("a?b", "x\0y", LARGEST)
    assert row["retail_nanousd"] == place.used(EVER).spent_nanousd == LARGEST
    assert await place.discrepancies() == []


async def test_amounts_beyond_the_precision_of_floats_are_added_exactly(store: Store, place: Place) -> None:
    for number in range(3):
        await store.settle(settlement(f"a-{number}", LARGEST - 1, from_wallet=False))
    assert place.used(EVER).spent_nanousd == 3 * (LARGEST - 1)


# Wallets.


async def test_an_entry_is_credited_once(store: Store, other: Store, place: Place) -> None:
    assert await store.credit(credit("c", 5 * USD))
    assert not await other.credit(credit("c", 5 * USD))
    assert await other.credit(credit("d", -2 * USD))
    for one in (store, other):
        await one.maintain()
    assert place.used(wallet_counter(WORKSPACE)).spent_nanousd == -3 * USD
    assert place.entries() == {"c": 5 * USD, "d": -2 * USD}


# Processes that end.


async def test_the_calls_of_a_dead_process_end_as_interrupted_when_another_opens(
    open_store: OpenStore, place: Place
) -> None:
    dying = await open_store()
    await dying.hold(request("a"))
    await dying.hold(request("b", workspace="bare"))
    await dying.settle(settlement("done"))
    await die(dying)
    successor = await open_store()
    await successor.maintain()
    assert place.holds() == []
    rows = place.rows()
    assert set(rows) == {"a", "b", "done"}
    assert [(rows[one]["status"], rows[one]["error_code"]) for one in "ab"] == [(499, "interrupted")] * 2
    assert place.used(EVER) == CounterUse(1_560, 2, 0, 0)
    assert await place.discrepancies() == []


async def test_the_calls_of_a_dead_process_end_while_another_lives(
    store: Store, open_store: OpenStore, place: Place
) -> None:
    await store.maintain()
    dying = await open_store()
    await store.maintain()
    await dying.hold(request("a"))
    await store.maintain()
    assert place.holds() == ["a"]
    await die(dying)
    await store.maintain()
    assert place.holds() == []
    assert place.rows()["a"]["error_code"] == "interrupted"


async def test_the_calls_of_a_living_process_stay_in_flight(
    store: Store, open_store: OpenStore, place: Place
) -> None:
    await store.hold(request("a"))
    for one in (await open_store(), await open_store(), store):
        await one.maintain()
    assert place.holds() == ["a"]
    assert place.rows() == {}


async def test_a_call_that_was_interrupted_but_lived_has_its_row_replaced(
    open_store: OpenStore, place: Place
) -> None:
    first = await open_store()
    await first.hold(request("a"))
    await die(first)
    successor = await open_store()
    await successor.maintain()
    assert place.rows()["a"]["error_code"] == "interrupted"
    await successor.settle(settlement("a", 70))
    await successor.settle(settlement("a", 70))
    await successor.maintain()
    assert place.rows() == {"a": settlement("a", 70).row}
    assert place.used(EVER) == CounterUse(70, 1, 0, 0)
    assert place.entries() == {"a": -70}
    assert await place.discrepancies() == []


async def test_data_is_there_when_another_store_opens(place: Place, open_store: OpenStore) -> None:
    first = await open_store()
    await first.credit(credit("c", USD))
    await takes(first, WORKSPACE, 1)
    await first.settle(settlement("a", 60))
    await first.close()
    await first.close()
    second = await open_store()
    assert not await takes(second, WORKSPACE, 1)
    assert place.used(wallet_counter(WORKSPACE)).spent_nanousd == 60 - USD
    assert place.rows().keys() == {"a"}


async def test_every_name_of_a_workspace_file_works(store: Store, place: Place) -> None:
    names = ("tollgate", "a.b-c_d", "0", "x" * 64)
    for number, name in enumerate(names):
        assert await takes(store, name, 1)
        await store.hold(request(f"a-{number}", workspace=name, key_id=KEY))
        await store.settle(settlement(f"a-{number}", workspace=name))
        assert place.used(wallet_counter(name)) == CounterUse(1_560)
    await store.maintain()
    assert await place.discrepancies() == []

"""Calls that end with a row, or with none, and wallet entries, in SQLite and in Redis."""

import pytest
from rig.stores import (
    EVER,
    MONTH,
    USD,
    WORKSPACE,
    StoreLocation,
    all_counters,
    call_row,
    credit,
    request,
    settlement,
)

from addon.store.money.sqlite.early_migration_steps import LARGEST
from addon.store.protocol import IllegalRowError, Settlement, Store
from policies.limits import wallet_counter
from policies.spend import CounterUse

# The end of a call.


async def test_a_hold_becomes_the_real_cost_with_its_row(store: Store, location: StoreLocation) -> None:
    await store.hold(request("a"))
    await store.settle(settlement("a", 1_560))
    await store.maintain()
    assert location.holds() == []
    assert location.rows() == {"a": call_row("a", wholesale_nanousd=1_560)}
    assert location.used_now(all_counters()) == [CounterUse(1_560, 1, 0, 0)] * 5 + [
        CounterUse(1_560, 0, 0, 0)
    ]
    assert location.entries() == {"a": -1_560}
    assert await location.discrepancies() == []


async def test_only_calls_that_the_wallet_pays_charge_it(store: Store, location: StoreLocation) -> None:
    await store.settle(settlement("a", from_wallet=False))
    await store.settle(settlement("b", 0, usage_source="none"))
    await store.maintain()
    assert location.entries() == {}
    assert location.used(wallet_counter(WORKSPACE)).spent_nanousd == 0
    assert location.used(MONTH) == CounterUse(1_560, 2)


async def test_settling_again_changes_nothing(store: Store, other: Store, location: StoreLocation) -> None:
    await store.hold(request("a"))
    for one, cost in ((store, 5), (other, 7), (store, 5)):
        await one.settle(settlement("a", cost))
    for one in (store, other):
        await one.maintain()
    assert location.rows()["a"]["retail_nanousd"] == 5
    assert location.used(EVER) == CounterUse(5, 1, 0, 0)
    assert location.entries() == {"a": -5}


async def test_a_call_settles_through_another_store_than_the_one_that_held_it(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await store.hold(request("a"))
    await other.settle(settlement("a"))
    await store.void("a")
    assert location.holds() == []
    assert location.used(EVER) == CounterUse(1_560, 1, 0, 0)


async def test_a_call_without_a_hold_is_recorded_too(store: Store, location: StoreLocation) -> None:
    await store.settle(settlement("a"))
    await store.maintain()
    assert set(location.rows()) == {"a"}
    assert location.used(EVER) == CounterUse(1_560, 1, 0, 0)


async def test_a_void_releases_the_hold_and_leaves_no_row(store: Store, location: StoreLocation) -> None:
    await store.hold(request("a"))
    await store.void("a")
    await store.void("a")
    await store.void("never held")
    await store.maintain()
    assert location.holds() == []
    assert location.rows() == {}
    assert location.used_now(all_counters()) == [CounterUse()] * 6


@pytest.mark.parametrize(
    "changes",
    [{"status": 600}, {"mode": "free"}, {"duration_ms": -1}, {"retail_nanousd": None}, {"created_at": "now"}],
    ids=str,
)
async def test_a_row_that_can_never_be_written_is_refused_and_its_hold_released(
    changes: dict[str, object], store: Store, location: StoreLocation
) -> None:
    await store.hold(request("a"))
    with pytest.raises(IllegalRowError, match="usage row a"):
        await store.settle(Settlement(call_row("a") | changes, from_wallet=True))
    await store.maintain()
    assert location.holds() == []
    assert location.rows() == {}
    assert location.used_now(all_counters()) == [CounterUse()] * 6
    await store.settle(settlement("next"))


async def test_a_row_that_lacks_a_column_is_refused_and_its_hold_released(
    store: Store, location: StoreLocation
) -> None:
    await store.hold(request("a"))
    row = call_row("a")
    del row["stream"]
    with pytest.raises(IllegalRowError, match=r"usage row a.*stream"):
        await store.settle(Settlement(row, from_wallet=True))
    await store.maintain()
    assert (location.holds(), location.rows()) == ([], {})


@pytest.mark.parametrize(
    ("later", "value"),
    [("cache_write_tokens", None), ("client_request_id", None), ("resends", 0), ("service_tier", None)],
)
async def test_a_row_of_an_older_version_lacks_a_later_column(
    store: Store, location: StoreLocation, later: str, value: int | None
) -> None:
    await store.hold(request("a"))
    row = call_row("a")
    del row[later]
    await store.settle(Settlement(row, from_wallet=True))
    await store.maintain()
    assert (location.holds(), location.rows()["a"][later]) == ([], value)


async def test_a_row_keeps_the_clients_own_id_and_its_resends(store: Store, location: StoreLocation) -> None:
    await store.settle(settlement("a", client_request_id='order "7"', resends=1))
    await store.maintain()
    row = location.rows()["a"]
    assert (row["client_request_id"], row["resends"]) == ('order "7"', 1)


async def test_no_text_of_clients_or_providers_keeps_a_call_out_of_the_ledger(
    store: Store, location: StoreLocation
) -> None:
    odd = {"end_user": "a\ud800b", "requested_model": "x\0y", "completion_tokens": 10**400}
    await store.settle(settlement("a", 10**17, **odd))
    await store.maintain()
    row = location.rows()["a"]
    assert (row["end_user"], row["requested_model"], row["completion_tokens"]) == ("a?b", "xy", LARGEST)
    assert row["retail_nanousd"] == location.used(EVER).spent_nanousd == LARGEST
    assert await location.discrepancies() == []


async def test_amounts_beyond_the_precision_of_floats_are_added_exactly(
    store: Store, location: StoreLocation
) -> None:
    for number in range(3):
        await store.settle(settlement(f"a-{number}", LARGEST - 1, from_wallet=False))
    assert location.used(EVER).spent_nanousd == 3 * (LARGEST - 1)


# Wallets.


async def test_an_entry_is_credited_once(store: Store, other: Store, location: StoreLocation) -> None:
    assert await store.credit(credit("c", 5 * USD))
    assert not await other.credit(credit("c", 5 * USD))
    assert await other.credit(credit("d", -2 * USD))
    for one in (store, other):
        await one.maintain()
    assert location.used(wallet_counter(WORKSPACE)).spent_nanousd == -3 * USD
    assert location.entries() == {"c": 5 * USD, "d": -2 * USD}


async def test_a_credit_that_the_ledger_can_never_take_is_refused_and_does_not_count(
    store: Store, location: StoreLocation
) -> None:
    with pytest.raises(IllegalRowError, match="wallet entry c"):
        await store.credit(credit("c", 100 * LARGEST + 1))
    await store.maintain()
    assert location.entries() == {}
    assert location.used(wallet_counter(WORKSPACE)).spent_nanousd == 0
    assert await location.discrepancies() == []

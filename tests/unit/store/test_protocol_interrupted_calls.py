"""The calls of a process that ended, and the data that it left, in SQLite and in Redis."""

from rig.stores import (
    EVER,
    KEY,
    USD,
    WORKSPACE,
    OpenStore,
    StoreLocation,
    credit,
    die,
    request,
    settlement,
    takes,
)

from addon.store.protocol import Store
from policies.limits import wallet_counter
from policies.spend import CounterUse


async def test_the_calls_of_a_dead_process_end_as_interrupted_when_another_opens(
    open_store: OpenStore, location: StoreLocation
) -> None:
    dying = await open_store()
    await dying.hold(request("a"))
    await dying.hold(request("b", workspace="bare"))
    await dying.settle(settlement("done"))
    await die(dying)
    successor = await open_store()
    await successor.maintain()
    assert location.holds() == []
    rows = location.rows()
    assert set(rows) == {"a", "b", "done"}
    assert [(rows[one]["status"], rows[one]["error_code"]) for one in "ab"] == [(499, "interrupted")] * 2
    assert location.used(EVER) == CounterUse(1_560, 2, 0, 0)
    assert await location.discrepancies() == []


async def test_the_calls_of_a_dead_process_end_while_another_lives(
    store: Store, open_store: OpenStore, location: StoreLocation
) -> None:
    await store.maintain()
    dying = await open_store()
    await store.maintain()
    await dying.hold(request("a"))
    await store.maintain()
    assert location.holds() == ["a"]
    await die(dying)
    await store.maintain()
    assert location.holds() == []
    assert location.rows()["a"]["error_code"] == "interrupted"


async def test_the_calls_of_a_living_process_stay_in_flight(
    store: Store, open_store: OpenStore, location: StoreLocation
) -> None:
    await store.hold(request("a"))
    for one in (await open_store(), await open_store(), store):
        await one.maintain()
    assert location.holds() == ["a"]
    assert location.rows() == {}


async def test_a_call_that_was_interrupted_but_lived_has_its_row_replaced(
    open_store: OpenStore, location: StoreLocation
) -> None:
    first = await open_store()
    await first.hold(request("a"))
    await die(first)
    successor = await open_store()
    await successor.maintain()
    assert location.rows()["a"]["error_code"] == "interrupted"
    await successor.settle(settlement("a", 70))
    await successor.settle(settlement("a", 70))
    await successor.maintain()
    assert location.rows() == {"a": settlement("a", 70).row}
    assert location.used(EVER) == CounterUse(70, 1, 0, 0)
    assert location.entries() == {"a": -70}
    assert await location.discrepancies() == []


async def test_data_is_there_when_another_store_opens(location: StoreLocation, open_store: OpenStore) -> None:
    first = await open_store()
    await first.credit(credit("c", USD))
    await takes(first, WORKSPACE, 1)
    await first.settle(settlement("a", 60))
    await first.close()
    await first.close()
    second = await open_store()
    assert not await takes(second, WORKSPACE, 1)
    assert location.used(wallet_counter(WORKSPACE)).spent_nanousd == 60 - USD
    assert location.rows().keys() == {"a"}


async def test_every_name_of_a_workspace_file_works(store: Store, location: StoreLocation) -> None:
    names = ("tollgate", "a.b-c_d", "0", "x" * 64)
    for number, name in enumerate(names):
        assert await takes(store, name, 1)
        await store.hold(request(f"a-{number}", workspace=name, key_id=KEY))
        await store.settle(settlement(f"a-{number}", workspace=name))
        assert location.used(wallet_counter(name)) == CounterUse(1_560)
    await store.maintain()
    assert await location.discrepancies() == []

"""The price sets of calls come to the ledger with their rows, whoever writes these."""

from rig.stores import NOW, OpenStore, StoreLocation, die, price_fields, priced_request, settlement

from addon.store.protocol import Store
from policies.ledger_row import PRICE_SET_CONTENT
from policies.prices import Prices

CHEAP, DEAR = Prices(1, 1, 1), Prices(2_000_000, 200_000, 9_000_000)


def stored(location: StoreLocation) -> dict[str, str]:
    rows = location.select("SELECT hash, content, first_at, model_slug FROM prices")
    moment = NOW.isoformat(timespec="milliseconds")
    assert {(row["first_at"], row["model_slug"]) for row in rows} <= {(moment, "tester-large")}
    return {row["hash"]: row["content"] for row in rows}


def named(*prices: Prices) -> dict[str, str]:
    return {fields["price_set"]: fields[PRICE_SET_CONTENT] for fields in map(price_fields, prices)}


async def test_each_set_is_kept_once_and_named_by_its_calls(store: Store, location: StoreLocation) -> None:
    for call_id, prices in (("a", CHEAP), ("b", DEAR), ("c", CHEAP)):
        await store.hold(priced_request(call_id, prices))
        await store.settle(settlement(call_id, **price_fields(prices)))
    await store.close()
    assert stored(location) == named(CHEAP, DEAR)
    sets = {call_id: row["price_set"] for call_id, row in location.rows().items()}
    assert sets["a"] == sets["c"] == price_fields(CHEAP)["price_set"]
    assert sets["b"] == price_fields(DEAR)["price_set"]


async def test_the_call_of_a_dead_process_names_the_set_of_its_last_hold(
    open_store: OpenStore, location: StoreLocation
) -> None:
    dying = await open_store()
    await dying.hold(priced_request("a", CHEAP))
    await dying.hold(priced_request("b", CHEAP))
    await dying.move_hold(priced_request("b", DEAR))
    await die(dying)
    await (await open_store()).maintain()
    assert stored(location) == named(CHEAP, DEAR)
    rows = location.rows()
    assert [rows[one]["price_set"] for one in "ab"] == [
        price_fields(prices)["price_set"] for prices in (CHEAP, DEAR)
    ]
    assert await location.discrepancies() == []


async def test_a_row_of_an_earlier_version_says_that_its_prices_were_not_kept(
    store: Store, location: StoreLocation
) -> None:
    earlier = dict(settlement("a").row)
    for name in ("price_set", "platform_key"):
        del earlier[name]
    await store.settle(settlement("a").__class__(earlier, from_wallet=False))
    await store.close()
    row = location.rows()["a"]
    assert (row["price_set"], row["platform_key"]) == ("not kept", None)
    assert stored(location) == {}

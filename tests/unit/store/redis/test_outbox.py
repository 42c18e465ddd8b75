"""The outboxes: one ledger gets every call once, whichever gateway settled it and whenever a gateway died."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.redis_stores import Rig
from rig.stores import die, price_fields, priced_request, reason_of, request, settlement

from addon.store.protocol import StoreUnavailable
from addon.store.redis import outbox
from addon.store.redis.keys import LEASES
from addon.store.redis.outbox import pack_call
from addon.store.redis.session import drain
from policies.exchange import PRICE_SET_CONTENT
from policies.limits import Counter, Limit
from policies.prices import Prices
from policies.spend import CounterUse, Hold

EVER = Counter("key:acme/ci", "ever")


async def test_a_row_whose_gateway_died_before_writing_it_is_written_by_the_next(rig: Rig) -> None:
    store = await rig.open()
    for number in range(5):
        await store.settle(settlement(f"a-{number}"))
    await die(store)
    successor = await rig.open()
    await successor.maintain()
    assert rig.location.rows().keys() == {f"a-{number}" for number in range(5)}
    assert rig.server.command("XLEN", "tollgate:{acme}:outbox") == 0


async def test_a_row_that_was_read_by_a_gateway_that_died_is_written_by_the_next(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    await die(store)
    stream = "tollgate:{acme}:outbox"
    read = rig.server.command("XREADGROUP", "GROUP", "ledger", "gateway", "STREAMS", stream, ">")
    assert read
    assert rig.location.rows() == {}
    assert await drain(SecretStr(rig.server.url), rig.location.path) == 1
    assert rig.location.rows().keys() == {"a"}
    assert await drain(SecretStr(rig.server.url), rig.location.path) == 0


async def test_a_row_that_a_killed_process_had_read_is_written_at_once(rig: Rig) -> None:
    store, other_process = await rig.open(), await rig.open()
    for one in (store, other_process):
        await one.maintain()
    await other_process.settle(settlement("a"))
    rig.server.command("XREADGROUP", "GROUP", "ledger", "gateway", "STREAMS", "tollgate:{acme}:outbox", ">")
    await die(other_process)
    await store.maintain()
    assert rig.location.rows().keys() == {"a"}


async def test_a_row_that_is_read_twice_is_written_once(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    packed = rig.server.command("XRANGE", "tollgate:{acme}:outbox", "-", "+")
    for _, fields in packed or ():
        rig.server.command(
            "XADD", "tollgate:{acme}:outbox", "*", *[w for pair in fields.items() for w in pair]
        )
    await store.maintain()
    await drain(SecretStr(rig.server.url), rig.location.path)
    assert rig.location.rows().keys() == {"a"}
    assert rig.location.entries() == {"a": -1_560}


async def test_the_prices_of_a_machine_without_the_ledger_come_with_its_rows(
    rig: Rig, tmp_path: Path
) -> None:
    store = await rig.open()
    far = await rig.open(rig.elsewhere(tmp_path))
    one, other = Prices(1, 1, 1), Prices(2, 2, 2)
    await far.hold(priced_request("far", one))
    await far.settle(settlement("far", 0, **price_fields(one)))
    await far.hold(priced_request("interrupted", other))
    await far.maintain()
    await die(far)
    [lease] = rig.server.command("ZRANGE", LEASES, 0, -1)
    rig.server.command("ZADD", LEASES, 1, lease)
    await store.maintain()
    assert {call_id: row["price_set"] for call_id, row in rig.location.rows().items()} == {
        "far": price_fields(one)["price_set"],
        "interrupted": price_fields(other)["price_set"],
    }
    kept = {row["hash"]: row["content"] for row in rig.location.select("SELECT * FROM prices")}
    assert kept == {
        fields["price_set"]: fields[PRICE_SET_CONTENT] for fields in map(price_fields, (one, other))
    }
    assert await rig.location.discrepancies() == []


async def test_all_machines_share_limits_and_one_of_them_has_the_ledger(rig: Rig, tmp_path: Path) -> None:
    store = await rig.open()
    elsewhere = rig.elsewhere(tmp_path)
    far = await rig.open(elsewhere)
    limit = Limit("spend_cap", EVER, 63_400 + 1_624)
    assert isinstance(await store.hold(request("near", limit)), Hold)
    assert await far.hold(request("far", limit)) == Hold(1_624, 1)
    assert reason_of(await store.hold(request("none", limit))) == "budget_of_prompt"
    await far.settle(settlement("far", 900))
    await far.maintain()
    await store.settle(settlement("near", 800))
    await store.maintain()
    assert rig.location.rows().keys() == {"near", "far"}
    assert elsewhere.rows() == {}
    assert rig.location.used(EVER) == CounterUse(1_700, 2, 0, 0)
    with pytest.raises(StoreUnavailable, match="recorded in another ledger"):
        await drain(SecretStr(rig.server.url), elsewhere.path)
    await far.settle(settlement("later"))
    assert await drain(SecretStr(rig.server.url), elsewhere.path, take_over=True) == 1
    assert elsewhere.rows().keys() == {"later"}


async def test_all_rows_of_another_machine_are_written_once_they_are_announced(
    rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await rig.open()
    for _ in range(2):
        await store.maintain()  # The first rounds look into all outboxes.
    far = await rig.open(rig.elsewhere(tmp_path))
    far_ids = {f"far-{number}" for number in range(5)}
    for call_id in far_ids:
        await far.settle(settlement(call_id))
    for _ in range(2):
        await far.maintain()
    assert rig.location.rows() == {}
    monkeypatch.setattr(outbox, "_BATCH", 2)
    await store.maintain()
    assert rig.location.rows().keys() == far_ids
    assert caplog.text.count("recorded in the ledger of another machine") == 1


async def test_an_entry_that_can_not_be_written_blocks_no_other(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    await store.maintain()
    for packed in (pack_call(settlement("odd", created_at="yesterday")), pack_call(settlement("b"))):
        rig.server.command("XADD", "tollgate:{acme}:outbox", "*", "booking", packed)
    assert await drain(SecretStr(rig.server.url), rig.location.path) == 2
    assert rig.location.rows().keys() == {"a", "b"}
    [lost] = [one.message for one in caplog.records if "a ledger row is lost" in one.message]
    assert "'odd'" in lost

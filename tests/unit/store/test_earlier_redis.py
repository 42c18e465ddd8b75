"""Money that an earlier version left in Redis: it is written to the ledger at the start, once."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.ledger import second_connection
from rig.redis_server import RedisServer
from rig.stores import EVER, USD, StoreLocation, call_row, request, settlement, wallet

from addon.store import earlier_redis
from addon.store.money.rows import encode_row
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.keys import takes_of
from policies.spend import CounterUse

STATE = "the state"
OWNERS = "tollgate.db-owners"
REFUSED = json.dumps(["2026-11-21T09", "acme", "ci", "byok_required"])


class Earlier:
    """A ledger and a Redis as the earlier version left them."""

    def __init__(self, path: Path, server: RedisServer) -> None:
        self.path, self.server = path, server
        self.location = StoreLocation(path, server.url)

    async def make(self) -> None:
        """One call is in the ledger, two calls and a credit wait, and one is in flight in a process that died."""
        ledger = SqliteStore(self.path)
        await ledger.settle(settlement("recorded", 400))
        await ledger.close()
        with second_connection(self.path) as connection:
            connection.execute("DELETE FROM spend")
            connection.execute("UPDATE ledger SET redis_state = ?", (STATE,))
        self.fill_redis()

    def fill_redis(self) -> None:
        self.put("SET", "{tollgate}:state", STATE)
        self.put("SET", "{tollgate}:ledger", self.ledger_id)
        self.put("HSET", "{tollgate}:workspaces", "acme", "ready")
        self.put("SET", "tollgate:{acme}:state", STATE)
        self.put("HSET", "{tollgate}:pulse", "beat", "7")
        for call_id, from_wallet in (("recorded", True), ("waiting", True), ("also waiting", False)):
            row = encode_row(settlement(call_id, 400).row)
            self.outbox("booking", f"[{row}, {json.dumps(from_wallet)}]")
        moment = "2026-11-21T09:00:00.000+00:00"
        self.outbox("entry", json.dumps(["invoice", moment, "acme", USD, "invoice"]))
        self.put("XGROUP", "CREATE", "tollgate:{acme}:outbox", "ledger", "0")
        self.put(
            "XREADGROUP", "GROUP", "ledger", "gateway", "COUNT", "2", "STREAMS", "tollgate:{acme}:outbox", ">"
        )
        row = encode_row(request("in flight").interrupted_row)
        self.put("HSET", "tollgate:{acme}:holds", "in flight", f"63400:100:elsewhere/1-a:{row}")
        self.put("HSET", "{tollgate}:refusals", REFUSED, "3")
        self.put("HSET", "{tollgate}:refusals:taken", "id", "a batch", REFUSED, "2")
        self.put("HSET", "tollgate:{acme}:spend:key:acme/ci:ever", "spent", "1", "requests", "1")

    @property
    def ledger_id(self) -> str:
        with second_connection(self.path) as connection:
            return str(connection.execute("SELECT id FROM ledger").fetchone()[0])

    def outbox(self, field: str, text: str) -> None:
        self.put("XADD", "tollgate:{acme}:outbox", "*", field, text)

    def put(self, *words: str) -> None:
        self.server.command(*words)

    async def assert_moved(self) -> None:
        """Everything is in the ledger once, and Redis has only rates."""
        assert list(self.location.rows()) == ["recorded", "waiting", "also waiting", "in flight"]
        assert self.location.rows()["in flight"]["error_code"] == "interrupted"
        assert self.location.entries() == {"recorded": -400, "waiting": -400, "invoice": USD}
        assert self.location.used(EVER) == CounterUse(1200, 4, 0, 0)
        assert self.location.used(wallet().counter) == CounterUse(800 - USD, 0, 0, 0)
        assert await self.location.discrepancies() == []
        [count] = self.location.select("SELECT sum(count) AS all_of_them FROM refusals")
        assert count["all_of_them"] == 5


@pytest.fixture
def earlier(redis_server: RedisServer, ledger_path: Path) -> Earlier:
    return Earlier(ledger_path, redis_server)


def adopt(earlier: Earlier) -> None:
    earlier_redis.adopt(earlier.path, SecretStr(earlier.server.url))


async def test_outboxes_are_written_first_and_the_counters_are_counted_from_the_ledger(
    earlier: Earlier,
) -> None:
    await earlier.make()
    earlier.put("ZADD", "tollgate:{acme}:takes", "1", "000000000000001:1:1")
    earlier.put("RPUSH", takes_of("acme"), "a group of this version")
    adopt(earlier)
    await earlier.assert_moved()
    assert earlier.server.command("KEYS", "*") == [takes_of("acme")]
    adopt(earlier)
    await earlier.assert_moved()


async def test_a_start_that_was_cut_short_is_repeated(earlier: Earlier) -> None:
    await earlier.make()
    adopt(earlier)
    # The process died after the ledger had everything, and before Redis was emptied.
    earlier.fill_redis()
    owner = ProcessLock(earlier.path.with_name(OWNERS))
    adopt(earlier)
    owner.close()
    await earlier.assert_moved()
    assert earlier.server.command("KEYS", "*") == []


async def test_a_gateway_of_the_earlier_version_that_still_serves_keeps_its_redis(earlier: Earlier) -> None:
    await earlier.make()
    owner = ProcessLock(earlier.path.with_name(OWNERS))
    with pytest.raises(StoreUnavailable, match=r"still serves, in process \d+: stop it first"):
        adopt(earlier)
    owner.close()
    end_us = int(earlier.server.command("TIME")[0]) * 1_000_000 + 60_000_000
    earlier.put("ZADD", "{tollgate}:leases", str(end_us), "elsewhere/1-a acme")
    with pytest.raises(StoreUnavailable, match="still serves on another machine"):
        adopt(earlier)
    assert earlier.server.command("GET", "tollgate:{acme}:state") == STATE
    earlier.put("DEL", "{tollgate}:leases")
    adopt(earlier)
    await earlier.assert_moved()


async def test_the_calls_of_another_ledger_stay_where_they_are(earlier: Earlier, tmp_path: Path) -> None:
    await earlier.make()
    url = SecretStr(earlier.server.url)
    with pytest.raises(
        StoreUnavailable, match=r"start this version first where that ledger is.* \[ledger\] url"
    ):
        earlier_redis.adopt(tmp_path / "other.db", url)
    with pytest.raises(StoreUnavailable, match=r"once without \[ledger\] url where that ledger is"):
        earlier_redis.refuse(url)
    adopt(earlier)
    await earlier.assert_moved()
    earlier_redis.adopt(tmp_path / "other.db", url)
    earlier_redis.refuse(url)


async def test_a_row_that_can_not_be_written_is_logged_and_blocks_no_other(
    earlier: Earlier, caplog: pytest.LogCaptureFixture
) -> None:
    await earlier.make()
    earlier.outbox("booking", f"[{encode_row(call_row('wrong', status=7))}, false]")
    earlier.outbox("entry", json.dumps(["", "2026-11-21T09:00:00.000+00:00", "acme", 1, "wrong"]))
    adopt(earlier)
    await earlier.assert_moved()
    assert [one.message.partition(":")[0] for one in caplog.records if one.levelname == "ERROR"] == [
        "a ledger row is lost",
        "a wallet entry is lost",
    ]


async def test_a_redis_that_is_away_is_waited_for_until_its_money_was_moved(
    earlier: Earlier, ledger_path: Path
) -> None:
    nowhere = SecretStr("redis://:not-to-be-seen@127.0.0.1:1/0")
    earlier_redis.adopt(ledger_path, nowhere)
    earlier_redis.refuse(nowhere)
    await earlier.make()
    with pytest.raises(StoreUnavailable, match=r"^Redis: ") as refused:
        earlier_redis.adopt(ledger_path, nowhere)
    assert "not-to-be-seen" not in str(refused.value)
    cluster = SecretStr("redis+cluster://127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match="once with the URL of the server that it used"):
        earlier_redis.adopt(ledger_path, cluster)
    adopt(earlier)
    earlier_redis.adopt(ledger_path, cluster)
    await earlier.assert_moved()

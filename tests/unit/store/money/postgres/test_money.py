"""Money while PostgreSQL is away, and after it has forgotten: docs/limits.md says what may be lost.

Each test names the row of the table there that it measures.
"""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.postgres_fixtures import StartPostgres
from rig.postgres_server import PostgresServer
from rig.stores import DAY, StoreLocation, call_row, cap, request, settlement

from addon.store.money.postgres.money import PostgresMoney
from addon.store.protocol import IllegalRowError, Settlement, StoreUnavailable
from policies.spend import CounterUse, Denial, Hold


@pytest.fixture
def location(postgres_ledger_url: str, tmp_path: Path) -> StoreLocation:
    return StoreLocation(tmp_path / "tollgate.db", postgres=postgres_ledger_url)


@pytest.fixture
async def alone(start_postgres: StartPostgres) -> AsyncIterator[tuple[PostgresServer, PostgresMoney]]:
    """A server of its own, and money in it."""
    server = start_postgres()
    money = PostgresMoney(SecretStr(server.url))
    await money.check()
    yield server, money
    await money.close()


async def _is_refused(money: PostgresMoney) -> None:
    """Await that a call is refused because PostgreSQL is away."""
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(StoreUnavailable):
            await money.hold(request("new"))


async def _eventually(work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` until the server, which may still be slow, does it in time."""
    async with asyncio.timeout(BOUND_S):
        while True:
            with suppress(StoreUnavailable):
                return await work()


async def test_row_server_stopped(alone: tuple[PostgresServer, PostgresMoney], tmp_path: Path) -> None:
    server, money = alone
    for number in range(20):
        await money.hold(request(f"call {number}"))
    server.stop()
    await _is_refused(money)
    for number in range(20):
        with pytest.raises(StoreUnavailable):
            await money.settle(settlement(f"call {number}"))
    with pytest.raises(StoreUnavailable):
        await money.maintain()
    server.start()
    await _eventually(money.maintain)
    await _eventually(money.maintain)
    await _assert_exact(server.url, tmp_path, 20)


async def test_row_server_frozen(alone: tuple[PostgresServer, PostgresMoney], tmp_path: Path) -> None:
    server, money = alone
    await money.hold(request("call"))
    before = _leaks()
    server.freeze()
    await _is_refused(money)
    with pytest.raises(StoreUnavailable, match="in time"):
        await money.settle(settlement("call"))
    await _is_refused(money)
    server.thaw()
    await _eventually(money.check)
    await _eventually(money.maintain)
    await _assert_exact(server.url, tmp_path, 1)
    assert _leaks() == before


async def _assert_exact(url: str, folder: Path, calls: int) -> None:
    location = StoreLocation(folder / "tollgate.db", postgres=url)
    assert len(location.rows()) == calls
    used = location.used(DAY)
    assert (used.spent_nanousd, used.requests) == (1560 * calls, calls)
    assert location.holds() == []
    assert await location.discrepancies() == []


def _leaks() -> tuple[int, int]:
    """Return the number of open files and of tasks of this process."""
    gc.collect()  # The error of a connection that was given up refers to it.
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


async def test_a_row_that_can_never_be_written_stands_alone(
    money: PostgresMoney, location: StoreLocation
) -> None:
    ids = [f"call {number}" for number in range(50)]
    await asyncio.gather(*[money.hold(request(call_id)) for call_id in ids])
    bad = {"call 7": {"status": 1000}, "call 8": {"end_user": "a\0b"}, "call 9": {"end_user": "a\ud800b"}}
    done = await asyncio.gather(
        *[money.settle(settlement(call_id, **bad.get(call_id, {}))) for call_id in ids],
        return_exceptions=True,
    )
    [failed] = [one for one in done if one is not None]
    assert isinstance(failed, IllegalRowError)
    assert "call 7" in str(failed)
    assert "1000" not in str(failed)
    rows = location.rows()
    assert rows.keys() == set(ids) - {"call 7"}
    assert (rows["call 8"]["end_user"], rows["call 9"]["end_user"]) == ("ab", "a?b")
    assert location.holds() == []
    assert await location.discrepancies() == []


async def test_a_hold_of_unknown_fate_is_released(money: PostgresMoney, location: StoreLocation) -> None:
    """It was placed after this process had given it up: a server that was frozen still does what it was sent."""
    await money.hold(request("known"))
    lost = PostgresMoney(SecretStr(location.postgres or ""))
    lost._owner = money._owner
    await lost.hold(request("unknown"))
    await lost._transactions.close()
    for holds in (["known", "unknown"], ["known"]):
        money._leases._renewed_s = float("-inf")
        await money.maintain()
        assert location.holds() == holds


async def test_row_restored_from_a_backup(
    money: PostgresMoney, location: StoreLocation, postgres_server: PostgresServer
) -> None:
    await _settle(money, "old")
    await money.hold(request("open before"))
    backup = _copy(postgres_server, location)
    for number in range(70):
        await _settle(money, f"lost {number}")
    await money.hold(request("open"))
    await money.settle(settlement("open before"))
    _restore(postgres_server, location, backup)
    assert len(location.rows()) == 1
    limit = cap("spend_cap", 1560 * 73, DAY)
    decided = await asyncio.gather(*[money.hold(request(f"new {number}", limit)) for number in range(3)])
    assert [type(one) for one in decided] == [Denial] * 3, "before any of them, all that was lost is back"
    assert len(location.rows()) == 72
    assert location.holds() == ["open"]
    assert await location.discrepancies() == []
    await money.settle(settlement("open"))
    await money.maintain()
    assert location.used(DAY) == CounterUse(1560 * 73, 73, 0, 0)


async def test_who_lost_its_row_finds_it_without_a_new_connection(
    money: PostgresMoney, location: StoreLocation
) -> None:
    await _settle(money, "lost")
    location.select(
        "WITH gone AS (DELETE FROM usage), void AS (DELETE FROM spend_parts),"
        " unpaid AS (DELETE FROM wallet_entries) SELECT 1 AS one"
    )
    await money.maintain()
    assert location.rows().keys() == {"lost"}
    assert await location.discrepancies() == []


async def test_row_process_stopped_and_continued(
    money: PostgresMoney, location: StoreLocation, postgres_server: PostgresServer
) -> None:
    """It counts as dead after a minute by the clock of PostgreSQL, and its call ends later."""
    await money.hold(request("slow"))
    other = PostgresMoney(SecretStr(location.postgres or ""))
    other._leases.quiet_s = 0
    await other.check()
    _age_lease(location, money)
    await other.maintain()
    assert location.rows()["slow"]["error_code"] == "interrupted"
    await money.settle(settlement("slow"))
    await money.maintain()
    assert location.rows()["slow"]["error_code"] is None
    assert await location.discrepancies() == []
    await other.close()


async def test_after_a_change_of_server_nobody_is_judged_for_one_lease(
    money: PostgresMoney, location: StoreLocation
) -> None:
    other = PostgresMoney(SecretStr(location.postgres or ""))
    await other.check()
    await other.hold(request("in flight"))
    money._leases._judges_from_s = 0
    _age_lease(location, other)
    money._leases._server = ("another", "00000001")
    await money.maintain()
    assert location.holds() == ["in flight"]
    assert await money._leases.find_dead() == ()
    await other.close()


async def test_what_may_lose_acknowledged_calls_is_said_once_a_minute(start_postgres: StartPostgres) -> None:
    server = start_postgres(fsync=True, synchronous_commit="local")
    money = PostgresMoney(SecretStr(server.url))
    try:
        await money.maintain()
        assert [text.partition("(")[2].partition(")")[0] for text in money.warnings] == [
            "synchronous_standby_names",
            "synchronous_commit",
        ]
        server.configure("synchronous_standby_names", "none_is_there")
        await money.maintain()
        assert len(money.warnings) == 2
        money._looked_s = float("-inf")
        await money.maintain()
        assert len(money.warnings) == 1
    finally:
        await money.close()


async def _settle(money: PostgresMoney, call_id: str) -> None:
    assert isinstance(await money.hold(request(call_id)), Hold)
    await money.settle(Settlement(call_row(call_id) | {"retail_nanousd": 1560}, from_wallet=True))


def _age_lease(location: StoreLocation, money: PostgresMoney) -> None:
    aged = "UPDATE leases SET renewed_at = renewed_at - interval '2 minutes'"
    assert location.select(f"{aged} WHERE owner = '{money._owner}' RETURNING 1 AS one")


def _copy(server: PostgresServer, location: StoreLocation) -> str:
    _end_connections(server, location)
    return server.create_database(template=_name_of(location))


def _restore(server: PostgresServer, location: StoreLocation, backup: str) -> None:
    name = _name_of(location)
    server.drop_database(name)
    server.execute(f"ALTER DATABASE {backup} RENAME TO {name}")


def _end_connections(server: PostgresServer, location: StoreLocation) -> None:
    server.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", _name_of(location)
    )


def _name_of(location: StoreLocation) -> str:
    return urlsplit(location.postgres or "").path[1:]


async def test_each_process_knows_how_many_live_as_of_its_last_renewal(postgres_ledger_url: str) -> None:
    first, second = (PostgresMoney(SecretStr(postgres_ledger_url)) for _ in range(2))
    assert first.live_processes == 0
    await first.check()
    await second.check()
    assert (first.live_processes, second.live_processes) == (1, 2)
    await first.check()
    assert first.live_processes == 2
    await second.close()
    await first.check()
    assert first.live_processes == 1
    await first.close()

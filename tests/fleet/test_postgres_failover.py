"""PostgreSQL fails over under load, to a standby that has everything and to one that is behind.

Each test measures a row of the table in docs/limits.md.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.large import large_only, sampled
from rig.postgres_fixtures import StartPostgres
from rig.postgres_server import PostgresServer
from rig.stores import DAY, StoreLocation, request, settlement

from addon.store.money.postgres.money import PostgresMoney
from addon.store.protocol import StoreUnavailable

GATEWAYS = 4
CLIENTS = 8
COST = 1560


class Load:
    """Clients of several gateways, and the calls that were let through."""

    def __init__(self, gateways: Sequence[PostgresMoney]) -> None:
        self._gateways = gateways
        self.ids: list[str] = []
        self._is_over = False
        self._more = asyncio.Condition()

    async def run(self, *, until: Callable[[], Awaitable[None]]) -> None:
        """Let clients call until ``until`` returns, and every gateway has written what waits in its memory."""
        async with asyncio.TaskGroup() as group:
            for number in range(GATEWAYS * CLIENTS):
                group.create_task(self._client(number))
            keepers = [group.create_task(self._maintain(money)) for money in self._gateways]
            await until()
            self._is_over = True
            await asyncio.wait(keepers)

    async def go_on(self, calls: int) -> None:
        """Wait until so many more calls were let through."""
        wanted = len(self.ids) + calls
        async with asyncio.timeout(BOUND_S), self._more:
            await self._more.wait_for(lambda: len(self.ids) >= wanted)

    async def _client(self, number: int) -> None:
        money, count = self._gateways[number % GATEWAYS], 0
        while not self._is_over:
            count += 1
            call_id = f"{number}-{count}"
            try:
                await money.hold(request(call_id))
            except StoreUnavailable:
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(0.01)  # The provider answers.
            with suppress(StoreUnavailable):  # Its row waits in memory.
                await money.settle(settlement(call_id))
            self.ids.append(call_id)
            async with self._more:
                self._more.notify_all()

    async def _maintain(self, money: PostgresMoney) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_over
            try:
                await money.maintain()
            except StoreUnavailable:
                is_last = False
            await asyncio.sleep(0.1)


@pytest.fixture
def primary(start_postgres: StartPostgres) -> PostgresServer:
    return start_postgres()


@pytest.fixture
async def open_gateways() -> AsyncIterator[Callable[[str], Awaitable[list[PostgresMoney]]]]:
    opened: list[PostgresMoney] = []

    async def open_all(url: str) -> list[PostgresMoney]:
        for _ in range(GATEWAYS):
            opened.append(PostgresMoney(SecretStr(url)))
            await opened[-1].check()
        return opened

    yield open_all
    for money in opened:
        await money.close()


def _of_both(first: PostgresServer, second: PostgresServer) -> str:
    """Return the URL that leads to the one of two servers that takes writes."""
    host = f"127.0.0.1:{first.port}"
    both = first.url.replace(host, f"{host},127.0.0.1:{second.port}")
    return f"{both}?target_session_attrs=read-write"


async def _assert_exact(url: str, ids: Sequence[str], folder: Path) -> None:
    location = StoreLocation(folder / "tollgate.db", postgres=url)
    assert location.rows().keys() == set(ids)
    used = location.used(DAY)
    assert (used.spent_nanousd, used.requests) == (COST * len(ids), len(ids))
    assert await location.discrepancies() == []


async def _promote_after_death(primary: PostgresServer, standby: PostgresServer) -> None:
    await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(standby.promote)


@sampled(every=3)
@pytest.mark.parametrize("round_", range(3))
async def test_row_failover_to_a_standby_that_was_behind(
    primary: PostgresServer,
    open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]],
    tmp_path: Path,
    round_: int,
) -> None:
    standby = primary.standby()
    load = Load(await open_gateways(_of_both(primary, standby)))
    behind = 0

    async def fail_over() -> None:
        nonlocal behind
        await load.go_on(200)
        await asyncio.to_thread(standby.cut)
        await load.go_on(500)
        before = len(load.ids)
        await _promote_after_death(primary, standby)
        [(rows,)] = standby.execute("SELECT count(*) FROM usage")
        began_s = time.monotonic()
        await load.go_on(1)
        print(f"calls go on {time.monotonic() - began_s:.2f} s after the standby was promoted")
        behind = before - rows
        print(f"the standby lacked {behind} rows")
        await load.go_on(300)

    await load.run(until=fail_over)
    assert behind > 0, "the standby lacked none: this tests nothing"
    await _assert_exact(standby.url, load.ids, tmp_path)


@large_only
async def test_row_failover_to_a_synchronous_standby(
    primary: PostgresServer,
    open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]],
    tmp_path: Path,
) -> None:
    standby = primary.standby(synchronous=True)
    load = Load(await open_gateways(_of_both(primary, standby)))

    async def fail_over() -> None:
        await load.go_on(300)
        await _promote_after_death(primary, standby)
        await load.go_on(300)

    await load.run(until=fail_over)
    await _assert_exact(standby.url, load.ids, tmp_path)


@large_only
async def test_row_primary_frozen_and_replaced(
    primary: PostgresServer,
    open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]],
    tmp_path: Path,
) -> None:
    """A host that accepts connections and never answers keeps no gateway from the next one in the URL."""
    standby = primary.standby()
    load = Load(await open_gateways(_of_both(primary, standby)))

    async def fail_over() -> None:
        await load.go_on(300)
        await asyncio.to_thread(primary.freeze)
        await asyncio.to_thread(standby.promote)
        began_s = time.monotonic()
        await load.go_on(1)
        print(f"calls go on {time.monotonic() - began_s:.2f} s after the standby was promoted")
        await load.go_on(300)

    await load.run(until=fail_over)
    await _assert_exact(standby.url, load.ids, tmp_path)
    primary.kill()


@large_only
async def test_row_restored_from_a_dump_into_another_server(
    primary: PostgresServer,
    start_postgres: StartPostgres,
    open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]],
    tmp_path: Path,
) -> None:
    """Another ``system_identifier``: what was settled after the dump is written again, and no hold of it is left."""
    restored = start_postgres()
    load = Load(await open_gateways(_of_both(primary, restored)))
    behind = 0

    async def restore() -> None:
        nonlocal behind
        await load.go_on(300)
        await asyncio.to_thread(primary.dump_into, restored)
        await load.go_on(500)
        before = len(load.ids)
        [(rows,)] = restored.execute("SELECT count(*) FROM usage")
        behind = before - rows
        await asyncio.to_thread(primary.kill)
        began_s = time.monotonic()
        await load.go_on(1)
        print(f"{behind} rows were missing; calls go on after {time.monotonic() - began_s:.2f} s")
        await load.go_on(300)

    await load.run(until=restore)
    assert behind > 0, "the dump lacked none: this tests nothing"
    await _assert_exact(restored.url, load.ids, tmp_path)


@large_only
async def test_row_server_killed_and_started(
    primary: PostgresServer,
    open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]],
    tmp_path: Path,
) -> None:
    load = Load(await open_gateways(primary.url))

    async def restart() -> None:
        for _ in range(3):
            await load.go_on(200)
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(primary.start)
        await load.go_on(200)

    await load.run(until=restart)
    await _assert_exact(primary.url, load.ids, tmp_path)


@large_only
async def test_row_only_a_standby_is_left(
    primary: PostgresServer, open_gateways: Callable[[str], Awaitable[list[PostgresMoney]]]
) -> None:
    standby = primary.standby()
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL: the server takes no writes"):
        await open_gateways(standby.url)
    gateways = await open_gateways(_of_both(standby, primary))
    assert len(gateways) == GATEWAYS + 1
    await gateways[-1].hold(request("goes to the primary"))

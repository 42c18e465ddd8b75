"""The leases of processes on several machines, and the calls of processes that died."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.redis_stores import Rig
from rig.stores import WORKSPACE, die, request, takes

from addon.runtime.clock import SystemClock
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.protocol import LEASE_S, StoreUnavailable
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import LEASES
from addon.store.redis.leases import Leases
from addon.store.redis.store import RedisStore
from policies.spend import Hold


async def test_the_calls_of_another_machine_end_when_its_lease_is_over(rig: Rig, tmp_path: Path) -> None:
    store = await rig.open()
    elsewhere = rig.elsewhere(tmp_path)
    far = await rig.open(elsewhere)
    await far.hold(request("a"))
    await die(far)
    await store.maintain()
    assert rig.location.holds() == ["a"], "its machine may be alive"
    [lease] = rig.server.command("ZRANGE", "{tollgate}:leases", 0, -1)
    rig.server.command("ZADD", "{tollgate}:leases", 1, lease)
    await store.maintain()
    assert rig.location.holds() == []
    assert rig.location.rows()["a"]["error_code"] == "interrupted"
    assert rig.server.command("ZCARD", "{tollgate}:leases") == 0


async def test_a_process_frozen_past_its_lease_takes_a_new_lease_before_it_holds(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    assert isinstance(store, RedisStore)
    ended = ("1", time.monotonic())
    store._leases._ends[WORKSPACE] = ended
    assert isinstance(await store.hold(request("b")), Hold)
    assert store._leases._ends[WORKSPACE] != ended


async def test_a_call_whose_hold_needs_a_new_lease_takes_one_token(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    assert isinstance(store, RedisStore)
    store._leases._ends[WORKSPACE] = ("1", time.monotonic())
    assert isinstance(await store.take_and_hold(request("b"), 2), Hold)
    assert await takes(store, WORKSPACE, 2)
    assert not await takes(store, WORKSPACE, 2)


async def test_maintain_without_the_folder_of_locks_is_refused_and_no_process_counts_as_dead(
    rig: Rig,
) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    owners = rig.location.path.with_name("tollgate.db-owners")
    owners.rename(owners.with_suffix(".away"))
    with pytest.raises(StoreUnavailable, match="no such file"):
        await store.maintain()
    assert rig.location.holds() == ["a"]
    owners.with_suffix(".away").rename(owners)
    await store.maintain()


class SetClock(SystemClock):
    """A clock that a test sets."""

    time_s = 1000.0

    def monotonic_s(self) -> float:  # type: ignore[override]
        return self.time_s


type OneProcess = tuple[SetClock, Leases]


@pytest.fixture
async def one_process(rig: Rig, tmp_path: Path) -> AsyncIterator[OneProcess]:
    clock, client = SetClock(), RedisClient(SecretStr(rig.server.url))
    process = ProcessLock(tmp_path / "owners")
    yield clock, Leases(client, process, clock)
    process.close()
    await client.close()


async def test_after_a_silence_of_redis_other_machines_have_time_to_renew_their_leases(
    rig: Rig, one_process: OneProcess
) -> None:
    clock, leases = one_process
    assert await leases.renew([]) == []
    rig.server.command("ZADD", LEASES, 1, "elsewhere/gateway acme")
    found = []
    for pause_s in (LEASE_S / 2 + 1, LEASE_S / 2, LEASE_S / 2 - 1, 1):
        clock.time_s += pause_s
        found.append(len(await leases.renew([])))
    assert found == [0, 0, 0, 1]


async def test_a_lease_is_known_for_half_of_its_time(one_process: OneProcess) -> None:
    clock, leases = one_process
    assert leases.known_end_us("acme") is None
    end_us = await leases.end_us("acme")
    clock.time_s += LEASE_S / 2
    assert leases.known_end_us("acme") == end_us == await leases.end_us("acme")
    clock.time_s += 1
    assert leases.known_end_us("acme") is None
    assert await leases.end_us("acme") > end_us

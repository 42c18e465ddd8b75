"""The rates while the Redis of a fleet fails over, forgets and moves slots under load.

At no time has a workspace more than twice its RPM in a minute, and errors end soon after there is a new primary.
"""

import asyncio
import time
from functools import partial

import pytest
from pydantic import SecretStr
from rig.large import large_only
from rig.redis_fleet import ClusterFleet, SentinelFleet, wait_until
from rig.redis_server import RedisServer
from rig.takers import FLEET, LEDGER, Takers, taking

from addon.store.protocol import TIMEOUT_S, StoreUnavailable
from addon.store.rates.redis.keys import takes_of
from addon.store.rates.redis.rates import RedisRates

WORKSPACES = tuple(f"workspace-{number}" for number in range(12))
KEY = takes_of(WORKSPACES[0])
RPM = 300
SOON_S = 2.0
FAILOVERS = 3

type Fleet = SentinelFleet | ClusterFleet


def rates_at(fleet: Fleet, ledger: str = LEDGER) -> RedisRates:
    return RedisRates(SecretStr(fleet.url), lambda: ledger, FLEET)


async def assert_no_more_errors(takers: Takers, since_s: float) -> None:
    """Errors end ``SOON_S`` after a moment."""
    await asyncio.sleep(max(since_s + SOON_S - time.monotonic(), 0))
    await takers.more_answers(1_000)
    assert takers.errors_after(since_s + SOON_S) == []


@large_only
@pytest.mark.parametrize("how", ["ordered", "killed", "frozen"])
async def test_takes_go_on_soon_after_a_failover(fleet: Fleet, how: str) -> None:
    def fail_over() -> tuple[RedisServer, float]:
        primary = fleet.primary_of(KEY)
        {"ordered": partial(fleet.fail_over, KEY), "killed": primary.kill, "frozen": primary.freeze}[how]()
        fleet.replacement_of(primary, KEY)
        return primary, time.monotonic()

    async with taking(fleet.url, WORKSPACES, RPM) as takers:
        for _ in range(FAILOVERS):
            await takers.more_answers()
            primary, replaced_s = await asyncio.to_thread(fail_over)
            await assert_no_more_errors(takers, replaced_s)
            if how == "killed":
                await asyncio.to_thread(primary.start)
            elif how == "frozen":
                primary.thaw()
            await asyncio.to_thread(wait_until, fleet.is_whole)
        await takers.more_answers()
        assert takers.most_in_a_minute() <= 2 * RPM
        assert takers.longest_s < TIMEOUT_S + SOON_S


@large_only
async def test_a_redis_that_forgets_everything_gives_one_more_minute(fleet: Fleet) -> None:
    async with taking(fleet.url, WORKSPACES[:3], RPM) as takers:
        await takers.more_answers(3 * 3 * RPM)
        assert takers.most_in_a_minute() == RPM
        for server in fleet.servers:
            if server.command("ROLE")[0] == "master":
                server.flush()
        await takers.more_answers(3 * 3 * RPM)
        assert takers.most_in_a_minute() == 2 * RPM
        assert takers.errors == []


@large_only
async def test_nodes_that_forget_the_scripts_get_them_again(fleet: Fleet) -> None:
    async with taking(fleet.url, WORKSPACES, RPM) as takers:
        for _ in range(5):
            await takers.more_answers()
            for server in fleet.servers:
                if server.command("ROLE")[0] == "master":
                    server.command("SCRIPT", "FLUSH")
        await takers.more_answers()
        assert takers.errors == []


@large_only
async def test_a_sentinel_that_is_frozen_and_one_that_is_gone_hide_no_failover(
    sentinels: SentinelFleet,
) -> None:
    async with taking(sentinels.url, WORKSPACES, RPM) as takers:
        sentinels.sentinels[0].freeze()
        await takers.more_answers()
        primary = await asyncio.to_thread(sentinels.primary_of, KEY)
        primary.kill()
        await asyncio.to_thread(sentinels.replacement_of, primary, KEY)
        await assert_no_more_errors(takers, time.monotonic())
        sentinels.sentinels[1].kill()
        sentinels.sentinels[2].kill()
        now_s = time.monotonic()
        await takers.more_answers(2_000)
        assert takers.errors_after(now_s) == [], "a primary that works needs no Sentinel"
        assert takers.most_in_a_minute() <= 2 * RPM


@large_only
async def test_a_part_of_a_cluster_that_is_gone_stops_only_its_own_workspaces(cluster: ClusterFleet) -> None:
    gone = await asyncio.to_thread(cluster.primary_of, KEY)
    replica = cluster.servers[cluster.servers.index(gone) + 3]
    rates = rates_at(cluster)
    lost, kept = [], []
    for workspace in WORKSPACES:
        await rates.take_token(workspace, RPM)
        (lost if cluster.primary_of(takes_of(workspace)) is gone else kept).append(workspace)
    replica.kill()
    gone.kill()
    with pytest.raises(StoreUnavailable, match=r"^Redis at redis\+cluster://\S+: no answer within 1 s \("):
        await rates.take_token(lost[0], RPM)
    for workspace in kept:
        assert await rates.take_token(workspace, RPM) == 0
        with pytest.raises(StoreUnavailable, match=r"^Redis at \S+: Error \d+ connecting to"):
            await rates.take_token(lost[0], RPM)
    gone.start()
    await asyncio.to_thread(
        wait_until, lambda: "cluster_state:ok" in gone.command("CLUSTER", "INFO", raw=True)
    )
    assert [await rates.take_token(workspace, RPM) for workspace in lost] == [0] * len(lost)
    await rates.close()


@large_only
async def test_no_token_is_lost_and_none_is_given_twice_while_a_slot_moves(cluster: ClusterFleet) -> None:
    async with taking(cluster.url, WORKSPACES[:2], RPM) as takers:
        for _ in range(6):
            await takers.more_answers(100)
            await asyncio.to_thread(cluster.move_slot, KEY, 0.1)
        await takers.more_answers(3 * RPM)
        assert takers.errors == []
        assert takers.most_in_a_minute() == RPM


async def test_the_rates_behind_sentinels_are_shared_and_survive_a_failover(
    sentinels: SentinelFleet,
) -> None:
    here, there = rates_at(sentinels), rates_at(sentinels)
    await here.check()
    assert [await one.take_token("acme", 2) for one in (here, there)] == [0, 0]
    primary = sentinels.primary_of(KEY)
    primary.command("WAIT", 1, 1_000)
    sentinels.fail_over(KEY)
    await asyncio.to_thread(sentinels.replacement_of, primary, KEY)
    assert await there.take_token("acme", 2) > 0
    assert here.empty_buckets == set()
    await there.check()
    for rates in (here, there):
        await rates.close()


async def test_the_rates_of_a_cluster_are_found_where_their_slots_are(cluster: ClusterFleet) -> None:
    here, there = rates_at(cluster), rates_at(cluster)
    await here.check()
    assert [await here.take_token(workspace, 1) for workspace in WORKSPACES] == [0] * len(WORKSPACES)
    cluster.move_slot(KEY)
    assert all([await one.take_token(workspace, 1) > 0 for workspace in WORKSPACES for one in (here, there)])
    assert len({cluster.primary_of(takes_of(workspace)).port for workspace in WORKSPACES}) == 3
    for rates in (here, there):
        await rates.close()

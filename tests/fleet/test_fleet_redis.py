"""A fleet under load whose Redis forgets, fails over or loses a node: rates hold, and money does not notice."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rig.fleet import RATED, RPM, Fleet
from rig.fleet_judge import Allowed
from rig.fleet_load import Load
from rig.fleet_scenes import Scene
from rig.large import large_only
from rig.postgres_fixtures import StartPostgres
from rig.redis_fixtures import StartRedis
from rig.redis_fleet import ClusterFleet, SentinelFleet, wait_until
from rig.redis_server import RedisServer

from addon.store.rates.redis.keys import takes_of

ROUNDS = 3
KEY = takes_of(RATED)

type Record = Callable[[str, object], None]


@pytest.fixture
def redis(start_redis: StartRedis) -> RedisServer:
    made: RedisServer = start_redis()
    return made


@pytest.fixture
def alone(
    tmp_path: Path, start_postgres: StartPostgres, redis: RedisServer, record_property: Record
) -> Iterator[Scene]:
    """A fleet whose Redis is one server."""
    with Fleet(tmp_path, start_postgres(), redis) as fleet:
        made = Scene(fleet)
        yield made
        made.record(record_property)


@pytest.fixture
def replicated(
    tmp_path: Path,
    start_postgres: StartPostgres,
    fleet: SentinelFleet | ClusterFleet,
    record_property: Record,
) -> Iterator[Scene]:
    """A fleet whose Redis has replicas: with Sentinels, then as a cluster."""
    with Fleet(tmp_path, start_postgres(), fleet) as made:
        scene = Scene(made)
        yield scene
        scene.record(record_property)


@large_only
def test_redis_forgets_everything(alone: Scene, redis: RedisServer) -> None:
    for number in range(ROUNDS):
        alone.play(lambda _: redis.flush(), allowed=Allowed(buckets=2 + number))


@large_only
def test_redis_comes_back_with_an_older_state(alone: Scene, redis: RedisServer) -> None:
    def grow_old(load: Load) -> None:
        redis.command("SAVE")
        load.wait_for_served(RPM)
        redis.kill()

    for number in range(ROUNDS):
        alone.play(grow_old, lambda _: redis.start(), allowed=Allowed(buckets=2 + number))


@large_only
def test_redis_is_frozen_for_a_while(alone: Scene, redis: RedisServer) -> None:
    for _ in range(ROUNDS):
        alone.play(lambda _: redis.freeze(), lambda _: redis.thaw())


@large_only
@pytest.mark.parametrize("how", ["ordered", "killed", "frozen"])
def test_redis_fails_over(replicated: Scene, fleet: SentinelFleet | ClusterFleet, how: str) -> None:
    for number in range(ROUNDS):
        primary = fleet.primary_of(KEY)

        def fail_over(_: Load, primary: RedisServer = primary) -> None:
            if how == "ordered":
                fleet.fail_over(KEY)
            else:
                (primary.kill if how == "killed" else primary.freeze)()
            fleet.replacement_of(primary, KEY)

        replicated.play(fail_over, allowed=Allowed(buckets=2 + number))
        if how != "ordered":
            (primary.start if how == "killed" else primary.thaw)()
        wait_until(fleet.is_whole)


@large_only
def test_a_replica_of_redis_is_gone(replicated: Scene, fleet: SentinelFleet | ClusterFleet) -> None:
    for _ in range(ROUNDS):
        primary = fleet.primary_of(KEY)
        replica = next(one for one in _data_of(fleet) if _is_replica_of(one, primary))
        replicated.play(lambda _, replica=replica: replica.kill())
        replica.start()
        wait_until(fleet.is_whole)


def _data_of(fleet: SentinelFleet | ClusterFleet) -> Sequence[RedisServer]:
    return fleet.data if isinstance(fleet, SentinelFleet) else fleet.servers


def _is_replica_of(server: RedisServer, primary: RedisServer) -> bool:
    role, *more = server.command("ROLE")
    return role == "slave" and int(more[1]) == primary.port

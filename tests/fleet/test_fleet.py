"""A fleet under load while one of its parts fails: money is exact, budgets hold, and no hand is needed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig.fleet import SIZE, Fleet, gateway_program
from rig.fleet_judge import Allowed, judge
from rig.fleet_load import BROKEN_OFF, Load
from rig.fleet_scenes import Scene
from rig.large import large_only
from rig.postgres_fixtures import StartPostgres
from rig.postgres_server import PostgresServer
from rig.redis_fixtures import StartRedis
from rig.redis_fleet import wait_until
from rig.redis_server import RedisServer

ROUNDS = 3
ALL = range(SIZE)
LATEST = 20
"""So many answers may have come without their row, when a gateway is cut off."""


@pytest.fixture
def redis(start_redis: StartRedis) -> RedisServer:
    made: RedisServer = start_redis()
    return made


@pytest.fixture
def postgres(start_postgres: StartPostgres) -> PostgresServer:
    made: PostgresServer = start_postgres()
    return made


@pytest.fixture
def machines(tmp_path: Path, postgres: PostgresServer, redis: RedisServer) -> Iterator[Fleet]:
    """Four gateways on a PostgreSQL and a Redis that are alone."""
    with Fleet(tmp_path, postgres, redis) as fleet:
        yield fleet


@pytest.fixture
def scene(machines: Fleet, record_property: Callable[[str, object], None]) -> Iterator[Scene]:
    made = Scene(machines)
    yield made
    made.record(record_property)


def test_a_fleet_survives_the_end_of_each_of_its_parts(
    tmp_path: Path, postgres: PostgresServer, redis: RedisServer
) -> None:
    """The smoke test of this file, whose other tests are large."""
    with Fleet(tmp_path, postgres, redis, size=2) as fleet:
        with fleet.load() as load:
            load.wait_for_served(20)
            fleet.kill(0)
            redis.flush()
            postgres.kill()
            load.wait_for_answers(5)
            postgres.start()
            fleet.start_again(0)
            for number in range(2):
                load.wait_for_served(10, number)
        verdict = judge(fleet, load.answers, Allowed(gateways_killed=(0,), buckets=2))
        assert verdict.discrepancies == []


@large_only
@pytest.mark.parametrize("how", ["stop", "kill", "freeze"])
def test_postgresql_that_is_away_for_a_while(scene: Scene, postgres: PostgresServer, how: str) -> None:
    back = postgres.thaw if how == "freeze" else postgres.start
    for _ in range(ROUNDS):
        scene.play(lambda _: getattr(postgres, how)(), lambda _: back())


@large_only
def test_postgresql_fails_over_without_a_loss(scene: Scene) -> None:
    for _ in range(ROUNDS):
        standby = scene.fleet.postgres.standby(synchronous=True)

        def fail_over(_: Load, standby: PostgresServer = standby) -> None:
            scene.fleet.postgres.kill()
            standby.promote()
            scene.fleet.follow(standby)

        scene.play(fail_over)


@large_only
def test_postgresql_fails_over_to_a_standby_that_was_behind(scene: Scene) -> None:
    for _ in range(ROUNDS):
        standby = scene.fleet.postgres.standby()

        def fail_over(load: Load, standby: PostgresServer = standby) -> None:
            standby.cut()
            load.wait_for_served(40)
            scene.fleet.postgres.kill()
            standby.promote()
            scene.fleet.follow(standby)

        scene.play(fail_over, forgets=True)


@large_only
def test_postgresql_is_restored_from_an_older_copy(scene: Scene) -> None:
    for _ in range(ROUNDS):
        copies: list[PostgresServer] = []

        def restore(load: Load, copies: list[PostgresServer] = copies) -> None:
            copies.append(scene.fleet.postgres.copy())
            load.wait_for_served(100)
            scene.fleet.postgres.kill()
            copies[0].start()
            scene.fleet.follow(copies[0])

        scene.play(restore, forgets=True)


@large_only
@pytest.mark.parametrize("how", ["cut", "fall_silent"])
@pytest.mark.parametrize("engine", ["postgres", "redis"])
def test_a_gateway_is_cut_off_from_an_engine(scene: Scene, engine: str, how: str) -> None:
    """Calls of a gateway that can't reach PostgreSQL for longer than a lease count as interrupted until it is back."""
    late: set[str] = set()
    for number in range(ROUNDS):
        link = getattr(scene.fleet, f"{engine}_links")[number]

        def cut_off(load: Load, number: int = number, link: object = link) -> None:
            before = len(load.answers)
            getattr(link, how)()
            late.update(name for name, gateway in dict(load.in_flight).items() if gateway == number)
            late.update(one.name for one in load.answers[before - LATEST :] if one.gateway == number)
            load.wait_for_answers(8, lambda one: one.gateway == number and one.is_failure)
            others = [other for other in ALL if other != number]
            for other in others:
                load.wait_for_served(10, other)

        scene.play(cut_off, lambda _, link=link: link.mend(), allowed=Allowed(late=late))


@large_only
def test_gateways_are_killed(scene: Scene) -> None:
    for number in range(ROUNDS):
        scene.play(
            lambda _, number=number: scene.fleet.kill(number),
            lambda _, number=number: scene.fleet.start_again(number),
            allowed=Allowed(gateways_killed=range(number + 1)),
        )


@large_only
def test_a_gateway_sleeps_until_it_counts_as_dead_and_goes_on(scene: Scene) -> None:
    late: set[str] = set()
    for number in range(ROUNDS):

        def sleep(load: Load, number: int = number) -> None:
            asleep = set[str]()
            while not asleep:
                load.wait_for_served(1, number)
                scene.fleet.freeze(number)
                told = {request.json()["user"] for request in list(scene.fleet.upstream.requests)}
                asleep = {name for name, gateway in dict(load.in_flight).items() if gateway == number} & told
                if not asleep:
                    scene.fleet.thaw(number)
            late.update(asleep)
            wait_until(lambda: scene.fleet.interrupted(asleep) > 0)

        scene.play(sleep, lambda _, number=number: scene.fleet.thaw(number), allowed=Allowed(late=late))


@large_only
def test_all_gateways_are_killed_at_once(scene: Scene) -> None:
    for _ in range(ROUNDS):

        def kill_all(_: Load) -> None:
            for number in ALL:
                scene.fleet.kill(number)

        def start_all(_: Load) -> None:
            for number in ALL:
                scene.fleet.start_again(number)

        scene.play(kill_all, start_all, allowed=Allowed(gateways_killed=ALL))


@large_only
def test_gateways_are_replaced_one_by_one(scene: Scene) -> None:
    for _ in range(ROUNDS):

        def replace_all(load: Load) -> None:
            for number in ALL:
                assert scene.fleet.gateways[number].stop() == 0
                scene.fleet.start_again(number)
                load.wait_for_served(5, number)

        scene.play(replace_all)
    told = {request.json()["user"] for request in scene.fleet.upstream.requests}
    cut = [one for one in scene.answers if one.status == BROKEN_OFF or (one.status == 0 and one.name in told)]
    assert cut == [], "a drain loses no call"


@large_only
def test_clocks_are_off_by_a_minute(
    tmp_path: Path,
    postgres: PostgresServer,
    redis: RedisServer,
    record_property: Callable[[str, object], None],
) -> None:
    programs = [gateway_program(clock_off_s=off) for off in (0, 60, -60, 0)]
    with Fleet(tmp_path, postgres, redis, programs=programs) as fleet:
        scene = Scene(fleet)
        for _ in range(ROUNDS):
            scene.play(lambda _: postgres.kill(), lambda _: postgres.start())
        scene.play(
            lambda _: fleet.kill(1), lambda _: fleet.start_again(1), allowed=Allowed(gateways_killed=(1,))
        )
        scene.record(record_property)

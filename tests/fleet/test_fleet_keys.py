"""A key that is revoked on one machine of a fleet is revoked on all, whatever the others' own files say."""

import time
from pathlib import Path

from rig.commands import tollgate
from rig.fleet import SIZE, WIDE, Fleet
from rig.fleet_judge import Allowed, judge
from rig.fleet_load import Load
from rig.large import large_only
from rig.postgres_fixtures import StartPostgres
from rig.redis_fixtures import StartRedis

ALL = range(SIZE)


def wait_until_refused_everywhere(load: Load, workspace: str) -> None:
    for number in ALL:
        load.wait_for_answers(
            1, lambda one, number=number: (one.workspace, one.gateway, one.status) == (workspace, number, 401)
        )


@large_only
def test_a_revoked_key_is_served_nowhere_also_after_faults_and_new_starts(
    tmp_path: Path, start_postgres: StartPostgres, start_redis: StartRedis
) -> None:
    postgres = start_postgres()
    with Fleet(tmp_path, postgres, start_redis()) as fleet:
        refused_s: dict[str, float] = {}
        with fleet.load() as load:
            load.wait_for_served(60)
            for number, workspace in enumerate(WIDE[:3]):
                fleet.command("keys", "revoke", workspace, "ci", machine=number)
                wait_until_refused_everywhere(load, workspace)
                refused_s[workspace] = time.monotonic()
            postgres.kill()
            failed = tollgate(fleet.folder / "machine-0", "keys", "revoke", WIDE[3], "ci")
            assert failed.returncode != 0, "a revocation that could not be recorded"
            postgres.start()
            for number in ALL:
                assert fleet.gateways[number].stop() == 0
                fleet.start_again(number)
                load.wait_for_served(5, number)
        late = [
            one
            for one in load.answers
            if one.began_s > refused_s.get(one.workspace, float("inf")) and one.status == 200
        ]
        assert late == []
        verdict = judge(fleet, load.answers, Allowed())
        assert verdict.discrepancies == []

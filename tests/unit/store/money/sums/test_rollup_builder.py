"""The builder of rollups: on the loop of a gateway, in several processes, and killed in the middle."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only
from rig.ledger import locked_by_another, make_row, second_connection
from rig.sqlite_stores import open_settle_and_close

from addon.store.money.sums import rollup_builder
from addon.store.money.sums.rollup_builder import LOOK_S, RollupBuilder
from addon.store.money.sums.rollup_check import find_wrong
from addon.store.money.sums.rollups import read_progress

ROWS = 20_000


@pytest.fixture
def upgraded(ledger_path: Path) -> Path:
    """A ledger with old rows of which nothing is in the rollups, as after an upgrade."""
    open_settle_and_close(ledger_path, "call-0")
    columns = ", ".join(make_row())
    others = columns.replace(
        "id, created_at", "'more-' || n, strftime('%Y-%m-%dT%H:%M:%S.000+00:00', n * 60, 'unixepoch')"
    )
    with second_connection(ledger_path) as other:
        triggers = other.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            other.execute(f"DROP TRIGGER {name}")
        other.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {ROWS})"
            f" INSERT INTO usage ({columns}) SELECT {others} FROM usage, numbers"
        )
        for _, sql in triggers:
            other.execute(sql)
        other.execute("DELETE FROM rollups")
        other.execute("UPDATE rollup_progress SET hours_from = (SELECT max(created_at) || '~' FROM usage)")
    return ledger_path


def hours_from(path: Path) -> str:
    with second_connection(path) as reader:
        return read_progress(reader).hours_from


def assert_built(path: Path) -> None:
    with second_connection(path) as reader:
        assert list(find_wrong(reader)) == []
        for table in ("rollups", "days"):
            assert reader.execute(f"SELECT sum(calls) FROM {table}").fetchone()[0] == ROWS + 1


def build_all(path: Path) -> int:
    """Build in this thread until nothing is left. Return the number of steps."""
    builder, steps = RollupBuilder(path), 0
    while builder.step() != LOOK_S:
        steps += 1
    builder.close()
    return steps


def test_a_build_has_many_short_steps(upgraded: Path) -> None:
    assert build_all(upgraded) > 2 * ROWS / 2_000
    assert_built(upgraded)


@large_only
async def test_a_gateway_builds_in_the_background_and_may_stop_at_any_step(upgraded: Path) -> None:
    began_at = hours_from(upgraded)
    builder = RollupBuilder(upgraded)
    builder.start()
    async with asyncio.timeout(BOUND_S):
        while hours_from(upgraded) == began_at:  # noqa: ASYNC110  (a file has no event)
            await asyncio.sleep(0.001)
    await builder.stop()
    assert hours_from(upgraded) != ""
    build_all(upgraded)
    assert_built(upgraded)


def test_the_rest_is_longer_while_others_write_the_ledger(upgraded: Path) -> None:
    seconds = iter(range(10_000))
    builder = RollupBuilder(upgraded, time_s=lambda: next(seconds))
    with second_connection(upgraded) as other:
        rests = [builder.step()]
        other.execute("UPDATE alert_marks SET value = value")
        rests.append(builder.step())
        other.execute("INSERT INTO alert_marks VALUES ('a', 'b')")
        rests += [builder.step(), builder.step()]
    builder.close()
    assert rests == [4, 1, 4, 1]


def test_one_process_builds_at_a_time(upgraded: Path) -> None:
    first, second = RollupBuilder(upgraded), RollupBuilder(upgraded)
    first.step()
    built = hours_from(upgraded)
    assert second.step() == LOOK_S
    assert hours_from(upgraded) == built
    first.close()
    second.step()
    assert hours_from(upgraded) < built
    second.close()


async def test_a_locked_ledger_is_tried_again_later(upgraded: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = RollupBuilder(upgraded)
    with locked_by_another(upgraded):
        builder.start()
        async with asyncio.timeout(BOUND_S):
            while "the rollups can't be built" not in caplog.text:  # noqa: ASYNC110  (nor has a log)
                await asyncio.sleep(0.01)
        await builder.stop()
    assert "database is locked" in caplog.text


async def test_a_build_that_fails_again_and_again_is_logged_once(
    upgraded: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_builder, "LOOK_S", 0.0)
    owners = upgraded.with_name(f"{upgraded.name}-owners")
    owners.rename(owners.with_suffix(".away"))
    builder = RollupBuilder(upgraded)
    builder.start()
    for _ in range(10):  # Each of these waits for a step of the builder, which has the same thread.
        await asyncio.get_running_loop().run_in_executor(builder._thread, int)
    await builder.stop()
    assert caplog.text.count("the rollups can't be built") == 1


BUILD = """
import sys
from pathlib import Path
from addon.store.money.sums.rollup_builder import LOOK_S, RollupBuilder
builder = RollupBuilder(Path(sys.argv[1]))
while builder.step() != LOOK_S:
    pass
"""


@large_only
def test_a_killed_build_goes_on_where_it_was_and_counts_no_row_twice(upgraded: Path) -> None:
    kills = 0
    for _ in range(5):
        began_at = hours_from(upgraded)
        child = subprocess.Popen([sys.executable, "-c", BUILD, str(upgraded)], cwd=ROOT)
        until_s = time.monotonic() + BOUND_S
        while hours_from(upgraded) == began_at and child.poll() is None:
            assert time.monotonic() < until_s
        kills += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        with second_connection(upgraded) as reader:
            assert list(find_wrong(reader)) == []
    assert kills
    build_all(upgraded)
    assert_built(upgraded)

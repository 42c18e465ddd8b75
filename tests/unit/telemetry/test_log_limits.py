"""``LogLimit``: so many lines in a window, then one line with the count of those left out."""

import asyncio
import logging

import pytest
from rig.simulation import World, simulate

from addon.telemetry.log_limits import WINDOW_S, LogLimit


def test_lines_beyond_the_limit_are_counted_and_a_new_window_admits_lines_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tollgate.test")
    limit = LogLimit(logging.getLogger("tollgate.test"), max_lines=2)

    async def main(_world: World) -> None:
        for number in range(5):
            limit.info(f"line {number}", event="line")
        await asyncio.sleep(WINDOW_S + 0.1)
        limit.warning("line 5", event="line")
        await asyncio.sleep(WINDOW_S + 0.1)

    ran = simulate(1, main)
    assert (ran.errors, ran.left) == ([], [])
    assert [record.getMessage() for record in caplog.records] == [
        "line 0", "line 1", "3 log lines like these were left out", "line 5",
    ]  # fmt: skip
    assert [record.__dict__["event"] for record in caplog.records] == ["line", "line", "log limited", "line"]

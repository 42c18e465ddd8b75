"""Fixtures: a Redis with Sentinels, and a cluster. At the end comes the table of faults and what they cost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.fleet_scenes import PROPERTY
from rig.redis_fleet import ClusterFleet, SentinelFleet


@pytest.fixture
def redis_program(_redis_program: Path) -> Path:
    """The Redis server that the tests start."""
    return _redis_program


@pytest.fixture
def sentinels(_redis_program: Path) -> Iterator[SentinelFleet]:
    with SentinelFleet(_redis_program) as made:
        yield made


@pytest.fixture
def cluster(_redis_program: Path) -> Iterator[ClusterFleet]:
    with ClusterFleet(_redis_program) as made:
        yield made


@pytest.fixture(params=[SentinelFleet, ClusterFleet])
def fleet(request: pytest.FixtureRequest, _redis_program: Path) -> Iterator[SentinelFleet | ClusterFleet]:
    """Each of them in turn."""
    with request.param(_redis_program) as made:
        yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write a line for each fault of a fleet."""
    for report in terminalreporter.getreports(""):  # Those of a setup or a teardown that passed.
        for name, line in report.user_properties if report.when == "teardown" else ():
            if name == PROPERTY:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {line}")

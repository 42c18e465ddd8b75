"""Fixtures of several files of this folder."""

from collections.abc import Iterator

import pytest
from conftest import StartGateway
from rig.gateway import Gateway
from rig.raw_clients import RawClient
from rig.upstream import Upstream
from rig.workers import TWO, all_serve

# A failed check of these modules shows its values, as one of a test does.
pytest.register_assert_rewrite("rig.attempt_checks", "rig.explained_calls", "rig.simulation.checks")


@pytest.fixture
def raw(gateway: Gateway) -> Iterator[RawClient]:
    """A connection to ``gateway``."""
    with RawClient(gateway.url) as made:
        yield made


@pytest.fixture(scope="module")
def two_workers(start_gateway: StartGateway) -> Gateway:
    """The gateway of ``pair``."""
    return start_gateway(arguments=TWO)


@pytest.fixture
def pair(two_workers: Gateway, upstream: Upstream) -> Gateway:
    """A gateway with two workers, both of which serve."""
    two_workers.wait_until(lambda: all_serve(two_workers))
    return two_workers

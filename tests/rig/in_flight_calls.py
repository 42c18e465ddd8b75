"""A process with calls in flight, for two workspaces: the fixtures ``settings``, ``database`` and ``deps``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from addon.calls.dependencies import Dependencies
from addon.settings.settings import Settings, load_settings
from rig.bounds import BOUND_S
from rig.call_stages import make_dependencies
from rig.configuration import Configuration, model, provider, workspace
from rig.conservation import assert_given_back, assert_pool_empty

KEY, OTHER_KEY = f"tg_{'a':0<40}", f"tg_{'b':0<40}"
MAX_IN_FLIGHT = 3
PRICES = {"input_price_per_m": "1", "output_price_per_m": "2"}
COST_NANOUSD = 10 * 1_000 + 5 * 2_000
"""The wholesale cost of ``ANSWER`` at ``PRICES``."""


def load_acme_and_other(folder: Path) -> Settings:
    """Write and load the settings of two workspaces with a bound of calls in flight."""
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": model(**PRICES)},
        workspaces={
            "acme": workspace(("ci", KEY, True)),
            "other": workspace(("ci", OTHER_KEY, True)),
        },
        sections={"limits": {"max_in_flight": MAX_IN_FLIGHT}},
    ).write(folder)
    return load_settings(written, {"TEST_PROVIDER_KEY": "fake"})


@pytest.fixture(scope="module", name="settings")
def two_workspaces(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return load_acme_and_other(tmp_path_factory.mktemp("in-flight"))


@pytest.fixture(name="database")
def ledger_file(tmp_path: Path) -> Path:
    return tmp_path / "tollgate.db"


@asynccontextmanager
async def running_process(settings: Settings, database: Path) -> AsyncIterator[Dependencies]:
    """Yield the services of a process. At the end, nothing may be in flight or counted."""
    deps = make_dependencies(settings, database)
    try:
        yield deps
        await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
        assert_given_back(deps)
    finally:
        await deps.pool.close()
        await deps.store.close()
    assert_pool_empty(deps.pool)


@pytest.fixture(name="deps")
async def process_of_test(settings: Settings, database: Path) -> AsyncIterator[Dependencies]:
    """The services of a process, which close with the test."""
    async with running_process(settings, database) as running:
        yield running

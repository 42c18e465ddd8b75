"""Retries in simulated time: none begins after the time of its call, and a wait for one may be cut at any moment."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from rig.configuration import PROVIDER_KEY, Configuration, model, provider, workspace
from rig.simulation import World, simulate
from rig.simulation.clients import Answer, Client, ClientBehaviour
from rig.simulation.gateway import LedgerContents, SimulatedGateway, read_ledger
from rig.simulation.provider import Generated, Provider

from addon.settings.settings import Settings, load_settings

KEY = f"tg_{'retries':0<40}"
CALLS, WHOLE_TIMEOUT_S = 30, 2.0
FAILING = {"503": 3, "429": 2, "500": 2, "good": 1}

type Run = tuple[list[Answer], list[Generated], LedgerContents]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    written = Configuration(
        providers={"ALONE": provider("http://127.0.0.1:20000/v1")},
        models={"m": model(provider="ALONE")},
        workspaces={"acme": workspace(("ci", KEY, True))},
        sections={"upstream": {"retries": 1, "whole_timeout_s": WHOLE_TIMEOUT_S}},
    ).write(tmp_path_factory.mktemp("retries"))
    return load_settings(written, {"TEST_PROVIDER_KEY": PROVIDER_KEY})


def run(
    seed: int, settings: Settings, database: Path, *, leave: bool = False, stops_after_s: float | None = None
) -> Run:
    """Make calls whose provider mostly fails, at once."""

    async def call(world: World, port: int, number: int) -> Answer:
        random = Random(seed * CALLS + number)
        leaves_after_s = random.uniform(0.05, 3) if leave else None
        behaviour = ClientBehaviour(bool(number % 2), 10, False, leaves_after_s, "abort", 65_536, 0.0)
        client = Client(port, KEY, "m")
        answer = await client.call(f"call-{number}", behaviour)
        await client.close()
        return answer

    async def main(world: World) -> Run:
        vendor = Provider(world, FAILING)
        await vendor.start()
        gateway = SimulatedGateway(world, settings, database)
        await gateway.start()
        calls = asyncio.gather(*(call(world, gateway.port, number) for number in range(CALLS)))
        await asyncio.wait({calls}, timeout=stops_after_s)
        await gateway.stop(0.0 if stops_after_s else None)
        answers = await calls
        await vendor.stop()
        return answers, vendor.log, read_ledger(database)

    return simulate(seed, main).result


def check(ran: Run) -> Counter[tuple[int, int]]:
    """Check rows and money. Return how many rows have which status and attempts."""
    _, asked, ledger = ran
    sent = Counter(one.call for one in asked)
    assert (ledger.holds, ledger.discrepancies) == (0, [])
    assert sent == {row["end_user"]: row["attempts"] for row in ledger.rows}
    assert all(row["retail_nanousd"] == 0 or row["usage_source"] != "none" for row in ledger.rows)
    return Counter((row["status"], row["attempts"]) for row in ledger.rows)


@pytest.mark.parametrize("seed", range(4))
def test_no_retry_begins_after_the_time_of_its_call(settings: Settings, tmp_path: Path, seed: int) -> None:
    ran = run(seed, settings, tmp_path / "tollgate.db")
    kinds = check(ran)
    assert {attempts for status, attempts in kinds if status != 200} == {1, 2}
    assert kinds[200, 2]
    arrived: dict[str, list[float]] = {}
    for one in ran[1]:
        arrived.setdefault(one.call, []).append(one.arrived_s)
    for name, times in arrived.items():
        is_stream = int(name.rpartition("-")[2]) % 2
        assert is_stream or times[-1] - times[0] < WHOLE_TIMEOUT_S, (name, times)


@pytest.mark.parametrize("seed", range(2))
def test_a_client_may_leave_while_its_retry_waits(settings: Settings, tmp_path: Path, seed: int) -> None:
    kinds = check(run(seed, settings, tmp_path / "tollgate.db", leave=True))
    assert kinds[499, 1] and kinds[499, 2]


@pytest.mark.parametrize("seed", range(2))
def test_a_gateway_may_stop_while_a_retry_waits(settings: Settings, tmp_path: Path, seed: int) -> None:
    kinds = check(run(seed, settings, tmp_path / "tollgate.db", stops_after_s=1.2))
    assert kinds[499, 1]

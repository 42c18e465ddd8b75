"""S15 of Failover Bench at its published size, in simulated time: the first place is down for a minute, then healthy.

Twenty calls, one each four seconds. Source: failoverbench/failoverbench on GitHub, METHODOLOGY.md v0.1.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rig.configuration import PROVIDER_KEY, Configuration, model, provider, workspace
from rig.simulation import World, simulate
from rig.simulation.clients import Answer, Client, ClientBehaviour
from rig.simulation.gateway import LedgerContents, SimulatedGateway, read_ledger
from rig.simulation.provider import Provider

from addon.settings.settings import Settings, load_settings

CALLS, INTERVAL_S, DOWN_S, RECOVERED_WITHIN_S = 20, 4.0, 60.0, 30.0
FIRST_PORT, SECOND_PORT = 20_000, 20_001
KEY = f"tg_{'s15':0<40}"
BEHAVIOUR = ClientBehaviour(True, 50, True, None, "close", 65_536, 0.0)

type Run = tuple[list[Answer], list[float], LedgerContents]
"""The answers, when each call reached the first place, and the ledger."""


def write_settings(folder: Path, way: str) -> Settings:
    places: dict[str, Any] = {"order": "first"}
    places["deployments"] = [{"provider": "SECOND", "upstream_model_id": "second"}]
    member = {"fallback_model": "second"} if way == "fallback" else {}
    written = Configuration(
        providers={
            "FIRST": provider(f"http://127.0.0.1:{FIRST_PORT}/v1"),
            "SECOND": provider(f"http://127.0.0.1:{SECOND_PORT}/v1"),
        },
        models={
            "first": model(provider="FIRST", **(places if way == "places" else {})),
            "second": model(provider="SECOND"),
        },
        workspaces={"acme": workspace(("ci", KEY, True), **member)},
        sections={"upstream": {"retries": 1}},
    ).write(folder)
    return load_settings(written, {"TEST_PROVIDER_KEY": PROVIDER_KEY})


async def call_through_an_outage(world: World, settings: Settings, database: Path) -> Run:
    first, second = Provider(world, {"503": 1}), Provider(world, {"good": 1})
    for one in (first, second):
        await one.start()
    gateway = SimulatedGateway(world, settings, database)
    await gateway.start()
    began_s, tried_s, answers = world.loop.time(), [], []
    for number in range(CALLS):
        await asyncio.sleep(max(0.0, began_s + number * INTERVAL_S - world.loop.time()))
        sent_s = world.loop.time() - began_s
        first.weights = {"503": 1} if sent_s < DOWN_S else {"good": 1}
        before = len(first.log)
        client = Client(gateway.port, KEY, "first")
        answers.append(await client.call(f"call-{number}", BEHAVIOUR))
        await client.close()
        tried_s += [sent_s] * (len(first.log) - before)
    await gateway.stop()
    for one in (first, second):
        await one.stop()
    return answers, tried_s, read_ledger(database)


@pytest.mark.parametrize("way", ["fallback", "places"])
def test_an_outage_is_served_elsewhere_and_the_first_place_serves_again_soon_after_it(
    tmp_path: Path, way: str
) -> None:
    settings = write_settings(tmp_path, way)
    ran = simulate(15, lambda world: call_through_an_outage(world, settings, tmp_path / "tollgate.db"))
    answers, tried_s, ledger = ran.result
    assert all(answer.is_complete for answer in answers)
    # Five failures skip the place; then it is tried seldom, by one call at a time.
    during = [sent_s for sent_s in tried_s if sent_s < DOWN_S]
    assert len(during) <= 5 + DOWN_S // 15
    after = [sent_s for sent_s in tried_s if sent_s >= DOWN_S]
    assert after and after[0] - DOWN_S <= RECOVERED_WITHIN_S
    first = [row for row in ledger.rows if row["provider"] == "FIRST"]
    assert len(first) == len(after)
    assert (ledger.holds, ledger.discrepancies) == (0, [])

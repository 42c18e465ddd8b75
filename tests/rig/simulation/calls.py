"""Forty simulated customers call simulated gateways on one ledger, with all kinds of faults."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addon.settings.settings import Settings, load_settings
from rig.configuration import PROVIDER_KEY, Configuration, model, provider, workspace
from rig.ledger import locked_by_another
from rig.simulation import Faults, World
from rig.simulation.clients import Answer, Client, draw_behaviour
from rig.simulation.gateway import LedgerContents, SimulatedGateway, read_ledger
from rig.simulation.provider import WEIGHTS, Generated, Provider

CUSTOMERS = 40
BUDGET_NANOUSD = 20_000_000
FIRST_PORT = 20_000
CLIENT_LINK = Faults(
    latency_s=(0.0005, 0.1),
    piece_bytes=(50, 3_000),
    buffer_bytes=(2_000, 20_000),
    after_bytes=(0, 2_000),
    reset=0.05,
    stalled=0.1,
    half_closed=0.03,
    slow_connect=0.05,
)
PROVIDER_LINK = Faults(
    latency_s=(0.001, 0.3),
    piece_bytes=(50, 4_000),
    buffer_bytes=(1_000, 20_000),
    after_bytes=(0, 10_000),
    refused=0.05,
    slow_connect=0.1,
    reset=0.1,
    stalled=0.1,
    stall_s=(1, 100),
    half_closed=0.05,
)
KEYS = {name: f"tg_{name:0<40}" for name in ("wallet", "capped")}
"""Fixed keys, so that a seed gives the same run in each process."""
OWN_KEY = "fake-own-key-" + "1" * 24
DEAR = {"input_price_per_m": "1", "output_price_per_m": "3", "max_completion_tokens": 2_000}
TWO_MODELS = {"first": model(provider="FIRST", **DEAR), "second": model(provider="SECOND", **DEAR)}


@dataclass(frozen=True)
class Ran:
    """The result of one run."""

    answers: list[Answer]
    ledger: LedgerContents
    generated: list[Generated]

    def by_call(self) -> dict[str, list[Generated]]:
        """Return what the providers generated, by call."""
        found: defaultdict[str, list[Generated]] = defaultdict(list)
        for generated in self.generated:
            found[generated.call].append(generated)
        return found


@dataclass(frozen=True)
class Disturbance:
    """The disturbances of a run.

    ``stops_after_s``: the gateways drain from then on, for ``drain_timeout_s``. ``killed_after_s``: then the first
    gateway is killed, and another one replaces it a little later.
    """

    gateways: int = 1
    is_ledger_locked: bool = False
    stops_after_s: float | None = None
    drain_timeout_s: float | None = None
    killed_after_s: float | None = None


def write_settings(
    folder: Path,
    models: Mapping[str, Any] = TWO_MODELS,
    providers: Sequence[str] = ("FIRST", "SECOND"),
    own: Sequence[str] = (),
    **upstream: int,
) -> Settings:
    """Return settings with providers and two customers. Each customer has a budget of $0.02.

    One has it in its wallet, and for the providers ``own`` keys of its own with the Safety Net. The other has it as the
    cap of its key. ``upstream`` changes that section.
    """
    members = {name: workspace((name, key, True), fallback_model="second") for name, key in KEYS.items()}
    byok = {name: {"secret": "env:TEST_OWN_KEY", "routing": True} for name in own}
    members["wallet"] |= {"plan": "standard", "safety_net": bool(own), "byok": byok}
    members["capped"]["keys"][0] |= {"spend_cap_usd": "0.02"}
    timeouts = {"first_byte_timeout_s": 20, "idle_timeout_s": 10, "whole_timeout_s": 60}
    written = Configuration(
        providers={
            name: provider(f"http://127.0.0.1:{port}/v1") for port, name in enumerate(providers, FIRST_PORT)
        },
        models=models,
        workspaces=members,
        sections={"upstream": {"connect_timeout_s": 5, "heartbeat_s": 4} | timeouts | upstream},
    ).write(folder)
    return load_settings(written, {"TEST_PROVIDER_KEY": PROVIDER_KEY, "TEST_OWN_KEY": OWN_KEY})


async def make_calls(
    world: World,
    settings: Settings,
    database: Path,
    disturbance: Disturbance,
    slugs: Sequence[str] = ("first",),
    weights: Mapping[str, int] = WEIGHTS,
) -> Ran:
    """Let customers call one of ``slugs`` at once, each on its own connection. Every third one calls twice."""
    names = [name for name in settings.providers if not settings.providers[name].builtin]
    providers = [Provider(world, weights) for _ in names]
    for one in providers:
        await one.start()
    gateways = [SimulatedGateway(world, settings, database) for _ in range(disturbance.gateways)]
    for gateway in gateways:
        await gateway.start()
        world.network.faults[gateway.port] = CLIENT_LINK
    await gateways[0].credit("wallet", BUDGET_NANOUSD)
    world.network.faults |= {one.port: PROVIDER_LINK for one in providers}

    async def customer(number: int) -> list[Answer]:
        key = KEYS["wallet" if number % 2 else "capped"]
        await asyncio.sleep(world.random.uniform(0, 3))
        slug = slugs[number % len(slugs)]
        client = Client(gateways[number // 2 % len(gateways)].port, key, slug)
        numbers = (number,) if number % 3 else (number, number + CUSTOMERS)
        answers = []
        for each in numbers:
            answers.append(await client.call(f"call-{each}", draw_behaviour(world.random)))
            await asyncio.sleep(world.random.uniform(0, 3))
        await client.close()
        return answers

    async def kill_one() -> None:
        if disturbance.killed_after_s is not None:
            await asyncio.sleep(disturbance.killed_after_s)
            await gateways[0].kill()
            await asyncio.sleep(world.random.uniform(0, 2))
            gateways[0] = SimulatedGateway(world, settings, database)
            await gateways[0].start()
            world.network.faults[gateways[0].port] = CLIENT_LINK

    killer = world.loop.create_task(kill_one())
    locker = world.loop.create_task(lock_at_times(world, database, disturbance))
    customers = asyncio.gather(*map(customer, range(CUSTOMERS)))
    await asyncio.wait({customers}, timeout=disturbance.stops_after_s)
    await killer
    for gateway in gateways:
        await gateway.stop(disturbance.drain_timeout_s)
    answers = [one for own in await customers for one in own]
    locker.cancel()
    await asyncio.gather(locker, return_exceptions=True)
    for one in providers:
        await one.stop()
    return Ran(answers, read_ledger(database), [made for one in providers for made in one.log])


async def lock_at_times(world: World, database: Path, disturbance: Disturbance) -> None:
    """Lock the ledger at times, for longer than calls wait."""
    while disturbance.is_ledger_locked:
        await asyncio.sleep(world.random.uniform(0, 2))
        with locked_by_another(database):
            await asyncio.sleep(world.random.uniform(0, 3))

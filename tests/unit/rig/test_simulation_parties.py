"""The simulated clients and the simulated provider, connected directly: their reports agree."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from rig.simulation import Faults, World, compare, simulate
from rig.simulation.clients import Answer, Client, ClientBehaviour, draw_behaviour
from rig.simulation.provider import TOKEN, WEIGHTS, Generated, Provider

PATIENT = ClientBehaviour(True, 100, True, None, "abort", 65_536, 0.0)


async def calls(
    world: World, behaviours: list[ClientBehaviour], weights: dict[str, int]
) -> tuple[list[Answer], list[Generated]]:
    """Make a call for each of ``behaviours``, at once, directly to a provider with ``weights``."""
    provider = Provider(world, weights)
    await provider.start()
    clients = [Client(provider.port, "no-key", "simulated") for _ in behaviours]
    numbered = enumerate(zip(clients, behaviours, strict=True))
    answers = await asyncio.gather(
        *(client.call(f"call-{number}", behaviour) for number, (client, behaviour) in numbered)
    )
    await asyncio.gather(*(client.close() for client in clients))
    await provider.stop()
    return list(answers), provider.log


def run(seed: int, behaviours: list[ClientBehaviour], **weights: int) -> tuple[list[Answer], list[Generated]]:
    """Run ``calls``, and check that nothing is left."""

    async def main(world: World) -> tuple[list[Answer], list[Generated]]:
        return await calls(world, behaviours, weights)

    ran = simulate(seed, main)
    assert (ran.errors, ran.left) == ([], [])
    return ran.result


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("outcome", ["good", "slow", "closes after"])
def test_a_good_answer_has_the_text_and_counts_of_the_provider(stream: bool, outcome: str):
    [answer], [generated] = run(1, [replace(PATIENT, stream=stream)], **{outcome: 1})
    assert (answer.is_complete, answer.status) == (True, 200)
    assert answer.text == TOKEN * generated.completion_tokens
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == generated.completion_tokens <= 100
    assert answer.usage["prompt_tokens"] == generated.prompt_tokens
    assert (generated.call, generated.is_ended) == ("call-0", True)


@pytest.mark.parametrize(
    ("outcome", "status", "endings"),
    [
        ("429", 429, {"whole"}),
        ("401", 401, {"whole"}),
        ("500", 500, {"whole"}),
        ("reset before the head", None, {"ConnectionResetError"}),
        ("garbage", None, {"BrokenMessage"}),
        ("reset in the body", 200, {"ConnectionResetError"}),
        ("closes in the body", 200, {"BrokenMessage"}),
        ("breaks off when finished", 200, {"BrokenMessage"}),
        ("silent", None, {"left"}),
        ("silent in the body", 200, {"left"}),
        ("sends more", 200, {"BrokenMessage"}),
    ],
)
def test_a_fault_ends_a_call_as_its_name_says(outcome: str, status: int | None, endings: set[str]):
    leaving = replace(PATIENT, leaves_after_s=1_000.0, cap_tokens=2_000)
    seen = [run(seed, [leaving], **{outcome: 1}) for seed in range(4)]
    assert {answer.ending for [answer], _ in seen} <= endings
    assert status in {answer.status for [answer], _ in seen}
    assert not any(answer.is_complete for [answer], _ in seen)


def test_a_client_that_leaves_early_gets_nothing_however_it_leaves():
    ways = [replace(PATIENT, leaves_after_s=0.001, leaves_by=way) for way in ("abort", "close", "half-close")]
    answers, _ = run(1, ways, good=1)
    assert [(answer.ending, answer.status) for answer in answers] == [("left", None)] * 3


def test_a_slow_reader_makes_its_provider_wait():
    async def main(world: World) -> tuple[float, float]:
        times = []
        for pause_s in (0.0, 2.0):
            slow = replace(PATIENT, cap_tokens=16_384, read_bytes=500, read_pause_s=pause_s)
            began_s = world.loop.time()
            world.random.seed(5)
            [answer], _ = await calls(world, [slow], {"good": 1})
            assert answer.is_complete
            times.append(world.loop.time() - began_s)
        return times[0], times[1]

    at_once_s, slow_s = simulate(1, main).result
    assert slow_s > 10 * at_once_s


def test_forty_calls_have_every_outcome_and_are_the_same_for_the_same_seed():
    async def main(world: World) -> tuple[list[Answer], list[Generated]]:
        world.network.faults[20_000] = Faults(
            latency_s=(0.001, 0.1), piece_bytes=(1, 2_000), reset=0.05, stalled=0.1, refused=0.05
        )
        behaviours = [draw_behaviour(world.random) for _ in range(40)]
        return await calls(world, behaviours, dict(WEIGHTS))

    runs = [simulate(seed, main) for seed in range(6)]
    assert all((ran.errors, ran.left) == ([], []) for ran in runs)
    outcomes: Counter[Any] = Counter(generated.outcome for ran in runs for generated in ran.result[1])
    assert set(outcomes) == set(WEIGHTS)
    assert compare(runs[0], simulate(0, main)) == ""
    endings = Counter(answer.ending for ran in runs for answer in ran.result[0])
    assert {"whole", "left", "ConnectionResetError", "BrokenMessage", "ConnectionRefusedError"} == set(
        endings
    )

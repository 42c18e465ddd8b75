"""The processor time of a call by area: gateways under load, with a sample of their stack at every tick."""

import json
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.processes import LoadGenerator
from benchmarks.stack_sampler import AREAS, LOGIC, OTHER
from benchmarks.tables import table
from benchmarks.traffic import EVENTS, Scenario, Target

SCENARIOS: Final = (
    Scenario("whole", connections=32, calls=1500),
    Scenario("streamed", connections=32, calls=400),
    Scenario("alone", connections=4, calls=24),
)
KINDS: Final = frozenset(scenario.kind for scenario in SCENARIOS)
ROUNDS: Final = 2
ROWS: Final = (*AREAS, LOGIC, OTHER)
AIM_WIRE: Final = 0.25
_WAIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class SampledGateway:
    """A gateway that runs under ``benchmarks.stack_sampler``, and the file of the samples."""

    target: Target
    samples: Path

    def take(self) -> dict[str, int]:
        """Return the number of samples by area since the last call. Raise ``RuntimeError`` if none are written."""
        self.samples.unlink(missing_ok=True)
        os.kill(self.target.pid, signal.SIGUSR2)
        deadline = time.monotonic() + _WAIT_S
        while not self.samples.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.target.name} wrote no samples")
            time.sleep(0.01)
        return {str(area): int(count) for area, count in json.loads(self.samples.read_text()).items()}


@dataclass(slots=True)
class Cost:
    """The cost of the calls of one scenario on one gateway."""

    calls: int = 0
    cpu_s: float = 0.0
    samples: Counter[str] = field(default_factory=Counter)

    def us_per_call(self, area: str) -> float:
        """Return the area's share of the processor time of one call, in µs, or NaN if no call was answered."""
        if not self.calls or not self.samples.total():
            return math.nan
        return 1e6 * self.cpu_s / self.calls * self.samples[area] / self.samples.total()


Costs = Mapping[tuple[Scenario, str], Cost]


def measure(load: LoadGenerator, gateways: Sequence[SampledGateway], kinds: Container[str] = KINDS) -> Costs:
    """Run each scenario of the ``kinds`` on each gateway in turn."""
    costs: dict[tuple[Scenario, str], Cost] = {}
    for scenario in SCENARIOS:
        if scenario.kind not in kinds:
            continue
        for number in range(ROUNDS + 1):
            for one in gateways:
                one.take()
                sample = load.run(one.target, scenario)
                taken = one.take()
                if number == 0:  # The first round is the warm-up.
                    continue
                cost = costs.setdefault((scenario, one.target.name), Cost())
                cost.calls += len(sample.answers.latencies_ms)
                cost.cpu_s += sample.cpu_s
                cost.samples.update(taken)
    return costs


def print_costs(costs: Costs) -> None:
    """Print µs for each call by area, with a column for each scenario and gateway. Print nothing without costs."""
    if not costs:
        return
    headers = [f"{name}: {scenario.kind}" for scenario, name in costs]
    columns = [[cost.us_per_call(area) for area in ROWS] for cost in costs.values()]
    rows: list[tuple[str | float | None, ...]] = [
        (area, *numbers) for area, numbers in zip(ROWS, zip(*columns, strict=True), strict=True)
    ]
    rows.append(("together", *(sum(column) for column in columns)))
    per_chunk = [
        sum(column) / EVENTS[scenario.kind] if scenario.kind in EVENTS else None
        for (scenario, _), column in zip(costs, columns, strict=True)
    ]
    rows.append(("together, a chunk", *per_chunk))
    rows.append(("(samples)", *(cost.samples.total() for cost in costs.values())))
    print("\nwhere a call's CPU goes, µs a call\n")
    print(table(rows, ("area", *headers), ("", *(".0f" for _ in headers))))


def wire_ratio(costs: Costs, scenario: Scenario, ours: str, theirs: str) -> float:
    """Return our cost of a call's wire divided by theirs."""
    return costs[scenario, ours].us_per_call("wire") / costs[scenario, theirs].us_per_call("wire")

"""A comparison of this checkout with another one of the project, in alternating rounds of one run."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import cpu
from benchmarks.certificate import write_certificate
from benchmarks.comparison import (
    Results,
    cpu_ms_per_call,
    latency_ms,
    measure,
    measured,
    print_table,
    requests_per_s,
)
from benchmarks.gateways import Setup, gateway
from benchmarks.processes import LoadGenerator, Sample, upstream
from benchmarks.tables import table
from benchmarks.traffic import Scenario, Target

OURS: Final = "tollgate"
THEIRS: Final = "against"
AIMS: Final = {"whole": 1.25, "streamed": 1.4}
CONNECT: Final = Scenario("whole", connections=1, calls=200, fresh=True)


@dataclass(frozen=True, slots=True)
class Checkouts:
    """The checkouts to compare: this one, and ``theirs`` if there is another."""

    theirs: Path | None

    @property
    def setups(self) -> list[Setup]:
        """The setup of each gateway, ours first."""
        theirs = [Setup(THEIRS, checkout=self.theirs)] if self.theirs else []
        return [Setup(OURS), *theirs]

    @contextmanager
    def gateways(self, port: int, folder: Path, **changes: Path) -> Iterator[list[Target]]:
        """Yield each gateway in front of the upstream on ``port``, with ``changes`` to its setup."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(gateway(port, folder / setup.name, replace(setup, **changes)))  # type: ignore[arg-type]
                for setup in self.setups
            ]

    @contextmanager
    def sampled(self, port: int, folder: Path) -> Iterator[list[cpu.SampledGateway]]:
        """Yield each gateway under the stack sampler."""
        with ExitStack() as stack:
            running = []
            for setup in self.setups:
                samples = folder / f"{setup.name}.json"
                target = stack.enter_context(
                    gateway(port, folder / setup.name, replace(setup, samples=samples))
                )
                running.append(cpu.SampledGateway(target, samples))
            yield running


def run(
    load: LoadGenerator,
    alone: Target,
    folder: Path,
    checkouts: Checkouts,
    chosen: list[Scenario],
    rounds: int,
) -> None:
    """Print the ``chosen`` scenarios for both, the processor time of a call by area, and the ratios."""
    certificate = write_certificate(folder)
    with (
        checkouts.gateways(alone.port, folder / "plain") as plain,
        checkouts.gateways(alone.port, folder / "tls", certificate=certificate) as tls,
    ):
        results = measure(load, chosen, lambda scenario: tls if scenario.tls else plain, rounds)
    with checkouts.sampled(alone.port, folder / "sampled") as sampled:
        costs = cpu.measure(load, sampled, {scenario.kind for scenario in chosen})
    print_table(results)
    cpu.print_costs(costs)
    _print_ratios(results, costs)


def _ratio(figure: Callable[[Sequence[Sample]], float], ours: list[Sample], theirs: list[Sample]) -> float:
    """Return the median of the rounds' ratios. In each round both ran one after the other."""
    return statistics.median(
        figure([mine]) / figure([other]) for mine, other in zip(ours, theirs, strict=True)
    )


def _print_ratios(results: Results, costs: cpu.Costs) -> None:
    rows = []
    for scenario in measured(results):
        rounds = results[scenario, OURS], results[scenario, THEIRS]
        if scenario.kind != "alone":
            aim = f"≥ {AIMS[scenario.kind]}" if scenario.kind in AIMS else ""
            rows.append((f"requests/s: {scenario}", f"{_ratio(requests_per_s, *rounds):.2f}", aim))
        rows.append((f"CPU a call: {scenario}", f"{_ratio(cpu_ms_per_call, *rounds):.2f}", ""))
    for scenario in dict.fromkeys(scenario for scenario, _ in costs):
        ratio = cpu.wire_ratio(costs, scenario, OURS, THEIRS)
        aim = f"≤ {cpu.AIM_WIRE}" if scenario.kind == "whole" else ""
        rows.append((f"CPU of the wire: {scenario}", f"{ratio:.2f}", aim))
    print()
    print(table(rows, (f"{OURS} ÷ {THEIRS}", "measured", "aim")))


def run_connect(load: LoadGenerator, folder: Path, rounds: int, theirs: Path | None) -> None:
    """Print how long a call takes on a new client connection, with a provider that speaks TLS."""
    authority = write_certificate(folder)
    checkouts = Checkouts(theirs)
    with (
        upstream(authority) as alone,
        checkouts.gateways(alone.port, folder, authority=authority) as gateways,
    ):
        results = measure(load, [CONNECT], lambda _: [*gateways, alone], rounds)
    rows = [
        (
            name,
            latency_ms(samples, 50),
            latency_ms(samples, 99),
            cpu_ms_per_call(samples),
            sum(sample.answers.errors for sample in samples),
        )
        for (_, name), samples in results.items()
    ]
    print("a new client connection for each call, TLS to the provider\n")
    print(
        table(rows, ("target", "p50 ms", "p99 ms", "CPU ms/call", "errors"), ("", ".2f", ".2f", ".2f", ".0f"))
    )
    if theirs:
        ratio = _ratio(lambda one: latency_ms(one, 50), results[CONNECT, OURS], results[CONNECT, THEIRS])
        print(f"\nmedian, {OURS} ÷ {THEIRS}: {ratio:.2f}")

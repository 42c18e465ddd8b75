"""The command: interleaved rounds over all targets, medians in one table, then the comparison with the aims."""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tabulate import tabulate

from benchmarks import chunks, hostile, memory, stores
from benchmarks.processes import LoadGenerator, Sample, gateway, load_generator, stock_mitmdump, upstream
from benchmarks.traffic import Scenario, Target

SCENARIOS = (
    Scenario("whole", connections=1, calls=400),
    Scenario("whole", connections=32, calls=1200),
    Scenario("streamed", connections=1, calls=200),
    Scenario("streamed", connections=32, calls=600),
)
AIM_RATIO = 1.2
AIM_ADDED_MS = 1.0

Results = dict[tuple[Scenario, str], list[Sample]]


@dataclass(frozen=True, slots=True)
class Targets:
    """What is measured. ``streaming`` has a part in streamed scenarios only; ``gateway`` is None when left out."""

    gateway: Target | None
    stock: Target
    streaming: Target
    alone: Target

    def of(self, scenario: Scenario) -> list[Target]:
        """Return the targets of one scenario, in the order of a round."""
        streaming = self.streaming if scenario.kind == "streamed" else None
        return [target for target in (self.gateway, self.stock, streaming, self.alone) if target]


def measure(load: LoadGenerator, targets: Targets, rounds: int) -> Results:
    """Run every scenario ``rounds`` times on each target in turn, so that a slow minute hits all alike."""
    results: Results = {}
    for scenario in SCENARIOS:
        for target in targets.of(scenario):
            load.run(target, replace(scenario, calls=max(scenario.calls // 4, scenario.connections)))
        for _ in range(rounds):
            for target in targets.of(scenario):
                results.setdefault((scenario, target.name), []).append(load.run(target, scenario))
    return results


def requests_per_s(samples: Sequence[Sample]) -> float:
    """The median round's answers per second."""
    return statistics.median(
        len(sample.answers.latencies_ms) / sample.answers.elapsed_s for sample in samples
    )


def latency_ms(samples: Sequence[Sample], percent: int) -> float:
    """The median over rounds of each round's percentile; NaN where a round has too few answers."""
    return statistics.median(
        statistics.quantiles(sample.answers.latencies_ms, n=100, method="inclusive")[percent - 1]
        if len(sample.answers.latencies_ms) > 1
        else float("nan")
        for sample in samples
    )


def cpu_ms_per_call(samples: Sequence[Sample]) -> float:
    """The processor time that the target took for one call, over all rounds: what a busy machine can't change."""
    calls = sum(len(sample.answers.latencies_ms) for sample in samples)
    return 1000 * sum(sample.cpu_s for sample in samples) / calls if calls else float("nan")


def print_table(results: Results) -> None:
    """Print one row for each scenario and target."""
    rows = [
        (
            scenario.kind,
            scenario.connections,
            name,
            requests_per_s(samples),
            latency_ms(samples, 50),
            latency_ms(samples, 99),
            cpu_ms_per_call(samples),
            sum(sample.answers.errors for sample in samples),
        )
        for (scenario, name), samples in results.items()
    ]
    headers = ("answer", "connections", "target", "requests/s", "p50 ms", "p99 ms", "CPU ms/call", "errors")
    print(tabulate(rows, headers, floatfmt=(".0f", ".0f", "", ".0f", ".2f", ".2f", ".2f", ".0f")))


def print_comparison(results: Results, gateway: Target, targets: Targets) -> None:
    """Print what the gateway costs beside the others, and the aims."""
    rows: list[tuple[str, str, str]] = []
    for scenario in SCENARIOS:
        what = f"{scenario.kind}, {scenario.connections} connection{'s'[: scenario.connections > 1]}"
        ours = results[scenario, gateway.name]
        for other in targets.of(scenario)[1:-1]:
            ratio = requests_per_s(ours) / requests_per_s(results[scenario, other.name])
            rows.append((f"requests/s ÷ {other.name}: {what}", f"{ratio:.2f}", f"≥ {AIM_RATIO}"))
        if scenario.connections == 1:
            added_ms = latency_ms(ours, 50) - latency_ms(results[scenario, targets.alone.name], 50)
            rows.append((f"median added to a call: {what}", f"{added_ms:.2f} ms", f"≤ {AIM_ADDED_MS} ms"))
    print()
    print(tabulate(rows, (gateway.name, "measured", "aim"), disable_numparse=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 101), default=5, metavar="N", help="default: 5"
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--memory", action="store_true", help="resident memory over 50,000 calls instead")
    either.add_argument("--stores", action="store_true", help="what limits and money cost, on each store")
    either.add_argument("--chunks", action="store_true", help="what it costs to rewrite one streamed chunk")
    either.add_argument(
        "--hostile", action="store_true", help="what hostile requests and answers cost; Linux"
    )
    either.add_argument("--without-gateway", action="store_true", help="only stock mitmdump and the upstream")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="with --hostile: inputs with TEXT in their name"
    )
    options = parser.parse_args(arguments)
    if options.chunks:
        chunks.run(options.rounds)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tollgate-bench-")))
        if options.hostile:
            hostile.run(folder, options.only)
            return
        alone = stack.enter_context(upstream())
        load = stack.enter_context(load_generator())
        if options.stores:
            stores.run(load, alone, folder, options.rounds)
            return
        measured = None
        if not options.without_gateway:
            measured = stack.enter_context(gateway(alone.port, folder))
        if measured and options.memory:
            memory.run(load, measured)
            return
        stock = stack.enter_context(stock_mitmdump(alone.port, folder))
        streaming = stack.enter_context(stock_mitmdump(alone.port, folder, streaming=True))
        targets = Targets(measured, stock, streaming, alone)
        results = measure(load, targets, options.rounds)
        print_table(results)
        if measured:
            print_comparison(results, measured, targets)


if __name__ == "__main__":
    main()

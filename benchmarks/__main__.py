"""The command: interleaved rounds over all targets, medians in one table, then the comparison with the aims."""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from benchmarks import memory
from benchmarks.load import Sample
from benchmarks.processes import LoadGenerator, gateway, load_generator, stock_mitmdump, upstream
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


def measure(load: LoadGenerator, targets: Sequence[Target], rounds: int) -> Results:
    """Run every scenario ``rounds`` times on each target in turn, so that a slow minute hits all alike."""
    results: Results = {}
    for scenario in SCENARIOS:
        for target in targets:
            load.run(target, replace(scenario, calls=max(scenario.calls // 4, scenario.connections)))
        for _ in range(rounds):
            for target in targets:
                results.setdefault((scenario, target.name), []).append(load.run(target, scenario))
    return results


def requests_per_s(samples: Sequence[Sample]) -> float:
    """The median round's answers per second."""
    return statistics.median(len(sample.latencies_ms) / sample.elapsed_s for sample in samples)


def latency_ms(samples: Sequence[Sample], percent: int) -> float:
    """The median over rounds of each round's percentile; NaN where a round has too few answers."""
    return statistics.median(
        statistics.quantiles(sample.latencies_ms, n=100, method="inclusive")[percent - 1]
        if len(sample.latencies_ms) > 1
        else float("nan")
        for sample in samples
    )


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
            sum(sample.errors for sample in samples),
        )
        for (scenario, name), samples in results.items()
    ]
    headers = ("answer", "connections", "target", "requests/s", "p50 ms", "p99 ms", "errors")
    print(tabulate(rows, headers, floatfmt=(".0f", ".0f", "", ".0f", ".2f", ".2f", ".0f")))


def print_comparison(results: Results, stock: str, alone: str, name: str) -> None:
    """Print what the gateway costs beside the other two, and the aims."""
    rows: list[tuple[str, str, str]] = []
    for scenario in SCENARIOS:
        what = f"{scenario.kind}, {scenario.connections} connection{'s'[: scenario.connections > 1]}"
        ratio = requests_per_s(results[scenario, name]) / requests_per_s(results[scenario, stock])
        rows.append((f"requests/s, {name} / {stock}: {what}", f"{ratio:.2f}", f"≥ {AIM_RATIO}"))
        if scenario.connections == 1:
            added = latency_ms(results[scenario, name], 50) - latency_ms(results[scenario, alone], 50)
            rows.append((f"median added to a call: {what}", f"{added:.2f} ms", f"≤ {AIM_ADDED_MS} ms"))
    print()
    print(tabulate(rows, ("comparison", "measured", "aim"), disable_numparse=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 101), default=5, metavar="N", help="default: 5"
    )
    parser.add_argument("--memory", action="store_true", help="resident memory over 50,000 calls instead")
    parser.add_argument("--without-gateway", action="store_true", help="only stock mitmdump and the upstream")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tollgate-bench-")))
        alone = stack.enter_context(upstream())
        load = stack.enter_context(load_generator())
        if options.memory:
            memory.run(load, *stack.enter_context(gateway(alone.port, folder)))
            return
        targets = [stack.enter_context(stock_mitmdump(alone.port, folder)), alone]
        if not options.without_gateway:
            targets.insert(0, stack.enter_context(gateway(alone.port, folder))[0])
        results = measure(load, targets, options.rounds)
        print_table(results)
        if not options.without_gateway:
            print_comparison(results, stock=targets[1].name, alone=alone.name, name=targets[0].name)


if __name__ == "__main__":
    main()

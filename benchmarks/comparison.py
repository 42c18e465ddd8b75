"""The main benchmark: interleaved rounds over all targets, a table of medians, then a comparison with the aims."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.processes import LoadGenerator, Sample
from benchmarks.tables import table
from benchmarks.traffic import EVENTS, Scenario, Target

SCENARIOS = (
    Scenario("whole", connections=1, calls=400),
    Scenario("whole", connections=32, calls=1200),
    Scenario("streamed", connections=1, calls=200),
    Scenario("streamed", connections=32, calls=600),
    Scenario("alone", connections=4, calls=12),
    Scenario("alone", connections=4, calls=12, tls=True),
    Scenario("firehose", connections=1, calls=2),
)
AIM_RATE = {"whole": 3.0, "streamed": 2.5}
"""The requests per second over many connections, divided by those of the stock mitmdump that does the same."""
AIM_ADDED = 0.5
"""The median time added to a sequential call, divided by what that stock mitmdump adds."""
AIM_ALONE = {False: 0.65, True: 0.85}
"""The cost of a chunk that arrives alone, divided by stock mitmdump's; the key: whether the client uses TLS."""
AIM_EVENTS_PER_S = 20_000

Results = dict[tuple[Scenario, str], list[Sample]]


def scenarios(only: str) -> list[Scenario]:
    """Return the scenarios with ``only`` in their name. Raise ``SystemExit`` if there is none."""
    found = [scenario for scenario in SCENARIOS if only in str(scenario)]
    if not found:
        raise SystemExit(f"no scenario has {only!r} in its name: {'; '.join(map(str, SCENARIOS))}")
    return found


def measured(results: Results) -> list[Scenario]:
    """Return the scenarios of ``results``, in order."""
    return list(dict.fromkeys(scenario for scenario, _ in results))


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets, with plain clients and with TLS clients. A target that is None is left out.

    Where the time of each chunk matters, ``streaming`` is measured and ``stock`` is not.
    """

    gateway: Target | None
    gateway_tls: Target | None
    stock: Target
    streaming: Target
    alone: Target

    def of(self, scenario: Scenario) -> list[Target]:
        """Return the targets of one scenario, in the order of a round."""
        if scenario.tls:
            targets = [self.gateway_tls, replace(self.streaming, tls=True)]
        elif scenario.kind == "whole":
            targets = [self.gateway, self.stock, self.alone]
        elif scenario.kind == "streamed":
            targets = [self.gateway, self.stock, self.streaming, self.alone]
        else:
            targets = [self.gateway, self.streaming, self.alone]
        return [target for target in targets if target]


def measure(
    load: LoadGenerator,
    scenarios: Iterable[Scenario],
    targets_of: Callable[[Scenario], list[Target]],
    rounds: int,
) -> Results:
    """Run every scenario ``rounds`` times on each target in turn, so that a slow minute affects all targets."""
    results: Results = {}
    for scenario in scenarios:
        for target in targets_of(scenario):
            load.run(target, replace(scenario, calls=max(scenario.calls // 4, scenario.connections)))
        for _ in range(rounds):
            for target in targets_of(scenario):
                results.setdefault((scenario, target.name), []).append(load.run(target, scenario))
    return results


def requests_per_s(samples: Sequence[Sample]) -> float:
    """Return the answers per second of the median round."""
    return statistics.median(
        len(sample.answers.latencies_ms) / sample.answers.elapsed_s for sample in samples
    )


def latency_ms(samples: Sequence[Sample], percent: int) -> float:
    """Return the median over rounds of each round's percentile, or NaN if a round has too few answers."""
    return statistics.median(
        statistics.quantiles(sample.answers.latencies_ms, n=100, method="inclusive")[percent - 1]
        if len(sample.answers.latencies_ms) > 1
        else float("nan")
        for sample in samples
    )


def cpu_ms_per_call(samples: Sequence[Sample]) -> float:
    """Return the target's processor time for one call, over all rounds. A busy machine does not change it."""
    calls = sum(len(sample.answers.latencies_ms) for sample in samples)
    return 1000 * sum(sample.cpu_s for sample in samples) / calls if calls else float("nan")


def cpu_us_per_chunk(scenario: Scenario, samples: Sequence[Sample]) -> float:
    """Return the processor time of one streamed call divided by its chunks, in µs. Its head and end are included."""
    return 1000 * cpu_ms_per_call(samples) / EVENTS[scenario.kind]


def print_table(results: Results) -> None:
    """Print one row for each scenario and target."""
    rows = [_row(scenario, name, samples) for (scenario, name), samples in results.items()]
    headers = (
        *("answer", "connections", "target", "requests/s", "events/s", "p50 ms", "p99 ms", "CPU ms/call"),
        *("CPU µs/chunk", "errors"),
    )
    formats = ("", ".0f", "", ".0f", ".0f", ".2f", ".2f", ".2f", ".1f", ".0f")
    print(table(rows, headers, formats))


def _row(scenario: Scenario, name: str, samples: Sequence[Sample]) -> tuple[str | float | None, ...]:
    events = EVENTS.get(scenario.kind)
    per_s = requests_per_s(samples)
    return (
        f"{scenario.kind}{', TLS' if scenario.tls else ''}",
        scenario.connections,
        name,
        per_s,
        events and per_s * events,
        latency_ms(samples, 50),
        latency_ms(samples, 99),
        cpu_ms_per_call(samples),
        cpu_us_per_chunk(scenario, samples) if events else None,
        sum(sample.answers.errors for sample in samples),
    )


def print_comparison(results: Results, targets: Targets) -> None:
    """Print the gateway's cost relative to the other targets, and the aims."""
    rows: list[tuple[str, str, str]] = []
    for scenario in measured(results):
        ours, *others = targets.of(scenario)
        by_name = {target.name: results[scenario, target.name] for target in (ours, *others)}
        if scenario.kind in ("whole", "streamed"):
            peer = targets.streaming if scenario.kind == "streamed" else targets.stock
            rows += _rates(scenario, ours.name, peer.name, by_name)
        elif scenario.kind == "alone":
            chunk_us = {name: cpu_us_per_chunk(scenario, samples) for name, samples in by_name.items()}
            share = ratio(chunk_us[ours.name], chunk_us[targets.streaming.name])
            aim = f"≤ {AIM_ALONE[scenario.tls]}"
            rows.append((f"CPU a chunk ÷ {targets.streaming.name}: {scenario}", f"{share:.2f}", aim))
        else:
            per_s = requests_per_s(by_name[ours.name]) * EVENTS[scenario.kind]
            rows.append((f"events/s: {scenario}", f"{per_s:.0f}", f"≥ {AIM_EVENTS_PER_S}"))
    print()
    print(table(rows, ("tollgate", "measured", "aim")))


def _rates(
    scenario: Scenario, ours: str, peer: str, by_name: dict[str, list[Sample]]
) -> list[tuple[str, str, str]]:
    """Return the rows of a scenario that counts calls. The last target is the upstream alone."""
    *others, alone = [name for name in by_name if name != ours]
    if scenario.connections == 1:
        added_ms = {name: added_median_ms(by_name[name], by_name[alone]) for name in (ours, peer)}
        name = f"median added to a call ÷ {peer}: {scenario}"
        return [
            (f"median added to a call: {scenario}", f"{added_ms[ours]:.2f} ms", ""),
            (name, f"{ratio(added_ms[ours], added_ms[peer]):.2f}", f"≤ {AIM_ADDED}"),
        ]
    rows = []
    for other in others:
        measured = requests_per_s(by_name[ours]) / requests_per_s(by_name[other])
        aim = f"≥ {AIM_RATE[scenario.kind]}" if other == peer else ""
        rows.append((f"requests/s ÷ {other}: {scenario}", f"{measured:.2f}", aim))
    return rows


def added_median_ms(samples: Sequence[Sample], alone: Sequence[Sample]) -> float:
    """Return how much longer the median call takes than one to the upstream alone."""
    return latency_ms(samples, 50) - latency_ms(alone, 50)


def ratio(ours: float, theirs: float) -> float:
    """Return ours ÷ theirs, or NaN if theirs adds no time: noise can make a difference of medians negative."""
    return ours / theirs if theirs > 0 else math.nan

"""``--peers``: this gateway, stock mitmdump and other gateways in one run, in front of the same provider."""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.comparison import (
    Results,
    added_median_ms,
    cpu_ms_per_call,
    latency_ms,
    measure,
    requests_per_s,
)
from benchmarks.gateways import gateway
from benchmarks.peers.installation import NotInstalledError
from benchmarks.peers.servers import FEATURES, STOCK_FEATURES, TOLLGATE_FEATURES, Peer, peers, started
from benchmarks.processes import LoadGenerator, stock_mitmdump
from benchmarks.procfs import resident_mb
from benchmarks.tables import Cell, table
from benchmarks.traffic import Scenario, Target

SCENARIOS: Final = (
    Scenario("whole", connections=1, calls=100),
    Scenario("whole", connections=32, calls=320),
    Scenario("streamed", connections=1, calls=50),
    Scenario("streamed", connections=32, calls=160),
)
_CANNOT_START: Final = (NotInstalledError, RuntimeError, OSError, subprocess.SubprocessError)


@dataclass(slots=True)
class Running:
    """All targets of the run, and the features of each."""

    gateways: list[Target] = field(default_factory=list)
    streaming: Target | None = None
    features: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def add(self, target: Target, features: Mapping[str, str]) -> None:
        """Add a gateway."""
        self.gateways.append(target)
        self.features[target.name] = features


def run(load: LoadGenerator, alone: Target, folder: Path, rounds: int, otari_command: Path | None) -> None:
    """Print what a call costs in each gateway, its memory, and what it has on. Leave out peers that do not start."""
    with ExitStack() as stack:
        running = Running()
        running.add(stack.enter_context(gateway(alone.port, folder / "tollgate")), TOLLGATE_FEATURES)
        running.add(stack.enter_context(stock_mitmdump(alone.port, folder)), STOCK_FEATURES)
        running.streaming = stack.enter_context(stock_mitmdump(alone.port, folder, streaming=True))
        for peer in peers(otari_command):
            if target := start(stack, peer, alone.port, folder):
                running.add(target, peer.features)
        idle_mb = {target.name: resident_mb(target.pid) for target in running.gateways}
        results = measure(load, SCENARIOS, lambda scenario: _targets(running, alone, scenario), rounds)
        loaded_mb = {target.name: resident_mb(target.pid) for target in running.gateways}
    names = [target.name for target in running.gateways]
    print(_cost_table(results, alone.name))
    print(f"\n{_memory_table(names, idle_mb, loaded_mb)}\n\n{_feature_table(running.features)}")


def start(stack: ExitStack, peer: Peer, upstream_port: int, folder: Path) -> Target | None:
    """Return the peer while ``stack`` is open, or None after a line that says why not."""
    try:
        return stack.enter_context(started(peer, upstream_port, folder / peer.name.lower()))
    except _CANNOT_START as error:
        first = str(error).partition("\n")[0]
        print(f"{peer.name} is left out: {first[:300]}")
        return None


def _targets(running: Running, alone: Target, scenario: Scenario) -> list[Target]:
    """Return the targets of a scenario. Each stock mitmdump does what it is made for."""
    targets = list(running.gateways)
    if scenario.kind == "streamed" and running.streaming:
        targets[1] = running.streaming
    return [*targets, alone]


def _cost_table(results: Results, alone: str) -> str:
    rows: list[tuple[Cell, ...]] = []
    for (scenario, name), samples in results.items():
        added = added_median_ms(samples, results[scenario, alone]) if name != alone else None
        row = (scenario.kind, scenario.connections, name, requests_per_s(samples), latency_ms(samples, 50))
        errors = sum(sample.answers.errors for sample in samples)
        rows.append((*row, added, cpu_ms_per_call(samples), errors))
    headers = (
        "answer",
        "connections",
        "gateway",
        "requests/s",
        "p50 ms",
        "added ms",
        "CPU ms/call",
        "errors",
    )
    return table(rows, headers, ("", ".0f", "", ".0f", ".2f", ".2f", ".2f", ".0f"))


def _memory_table(names: Sequence[str], idle: Mapping[str, float], loaded: Mapping[str, float]) -> str:
    rows = [(name, idle[name], loaded[name]) for name in names]
    return table(rows, ("gateway", "resident MB, idle", "after the run"), ("", ".0f", ".0f"))


def _feature_table(features: Mapping[str, Mapping[str, str]]) -> str:
    rows = [[feature, *(has[feature] for has in features.values())] for feature in FEATURES]
    return table(rows, ("has on", *features))

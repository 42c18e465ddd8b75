"""The cost of a second worker: one worker and two on each store, under a light load generator."""

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.comparison import requests_per_s
from benchmarks.gateways import Setup, gateway
from benchmarks.light import tools
from benchmarks.processes import RedisServer, Sample, redis_server
from benchmarks.procfs import cpu_s
from benchmarks.tables import table
from benchmarks.traffic import Scenario, Target

CONNECTIONS: Final = 32
CALLS: Final = 2_000
STORES: Final = ("sqlite", "redis")
AIM_CPU: Final = 1.15
AIM_RATE: Final = 1.8

_FORMATS: Final = ("", ".0f", ".0f", ".0f", "", ".0f", ".0f", "", ".2f", ".0f")


class Case(NamedTuple):
    """One row: a store, how many workers, and the connections of all clients together."""

    store: str
    workers: int
    connections: int

    @property
    def one_worker(self) -> "Case":
        """The case that it is compared with."""
        return Case(self.store, 1, CONNECTIONS)


CASES: Final = tuple(
    Case(store, workers, connections)
    for store in STORES
    for workers, connections in ((1, CONNECTIONS), (2, CONNECTIONS), (2, 2 * CONNECTIONS))
)


def run(folder: Path, rounds: int) -> None:
    """Print the processor time of a call and the calls a second, with one worker and with two."""
    with contextlib.ExitStack() as running, tools(folder) as light:
        server = running.enter_context(redis_server(folder / "redis"))
        targets = running.enter_context(_gateways(folder, light.alone.port, server))
        samples: dict[Case, list[Sample]] = {}
        redis_s: dict[Case, float] = {}
        for number in range(rounds + 1):
            for case in CASES:
                before_s = cpu_s(server.pid)
                scenario = Scenario("whole", case.connections, CALLS)
                taken = light.load.run(targets[case.store, case.workers], scenario)
                if number:  # The first round is the warm-up.
                    samples.setdefault(case, []).append(taken)
                    redis_s[case] = redis_s.get(case, 0.0) + cpu_s(server.pid) - before_s
    print(f"load generator and upstream: {light.name}\n")
    print(cost_table(samples, redis_s))


@contextlib.contextmanager
def _gateways(
    folder: Path, upstream_port: int, server: RedisServer
) -> Iterator[dict[tuple[str, int], Target]]:
    """Yield a gateway for each store and number of workers. Each on Redis has a database of its own."""
    with contextlib.ExitStack() as running:
        targets = {}
        for store in STORES:
            for workers in (1, 2):
                redis_url = server.url(workers) if store == "redis" else ""
                setup = Setup(f"{store}-{workers}", workers=workers, redis_url=redis_url)
                started = gateway(upstream_port, folder / setup.name, setup)
                targets[store, workers] = running.enter_context(started)
        yield targets


def cost_table(samples: Mapping[Case, list[Sample]], redis_s: Mapping[Case, float]) -> str:
    """Return a row for each case, with ratios to one worker on the same store."""
    rows = []
    for case, taken in samples.items():
        one = samples[case.one_worker]
        cpu_ratio = _cpu_us(taken) / _cpu_us(one)
        rate_ratio = requests_per_s(taken) / requests_per_s(one)
        in_redis = 1e6 * redis_s[case] / _calls(taken) if case.store == "redis" else None
        p50_ms = statistics.median(statistics.median(sample.answers.latencies_ms) for sample in taken)
        errors = sum(sample.answers.errors for sample in taken)
        row = (*case, _cpu_us(taken), f"{cpu_ratio:.2f}", in_redis, requests_per_s(taken))
        rows.append((*row, f"{rate_ratio:.2f}", p50_ms, errors))
    headers = (
        *("store", "workers", "connections", "CPU µs/call", f"÷ one (aim ≤ {AIM_CPU})", "Redis CPU µs/call"),
        *("requests/s", f"÷ one (aim ≥ {AIM_RATE} on free cores)", "p50 ms", "errors"),
    )
    return table(rows, headers, _FORMATS)


def _calls(samples: list[Sample]) -> int:
    return sum(len(sample.answers.latencies_ms) for sample in samples)


def _cpu_us(samples: list[Sample]) -> float:
    """Return the processor time of one call in all processes of the gateway."""
    return 1e6 * sum(sample.cpu_s for sample in samples) / _calls(samples)

"""The cost of a second worker: one worker and two on each store, under a light load generator."""

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.gateways import Setup, gateway
from benchmarks.light import tools
from benchmarks.processes import RedisServer, Sample, redis_server
from benchmarks.procfs import cpu_s
from benchmarks.tables import table
from benchmarks.traffic import Scenario, Target

LOAD: Final = Scenario("whole", connections=32, calls=2_000)
STORES: Final = ("sqlite", "redis")
AIM_CPU: Final = 1.15
AIM_RATE: Final = 1.8

_FORMATS: Final = ("", ".0f", ".0f", "", ".0f", ".0f", "", ".2f", ".0f")

Key = tuple[str, int]


def run(folder: Path, rounds: int) -> None:
    """Print the processor time of a call and the calls a second, with one worker and with two."""
    with contextlib.ExitStack() as running, tools(folder) as light:
        server = running.enter_context(redis_server(folder / "redis"))
        targets = running.enter_context(_gateways(folder, light.alone.port, server))
        for target in targets.values():
            light.load.run(target, LOAD)
        samples: dict[Key, list[Sample]] = {}
        redis_s: dict[Key, float] = {}
        for _ in range(rounds):
            for key, target in targets.items():
                before_s = cpu_s(server.pid)
                samples.setdefault(key, []).append(light.load.run(target, LOAD))
                redis_s[key] = redis_s.get(key, 0.0) + cpu_s(server.pid) - before_s
    print(f"load generator and upstream: {light.name}\n")
    print(cost_table(samples, redis_s))


@contextlib.contextmanager
def _gateways(folder: Path, upstream_port: int, server: RedisServer) -> Iterator[dict[Key, Target]]:
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


def cost_table(samples: Mapping[Key, list[Sample]], redis_s: Mapping[Key, float]) -> str:
    """Return a row for each store and number of workers, with ratios to one worker."""
    rows = []
    for (store, workers), taken in samples.items():
        cpu_ratio = _cpu_us(taken) / _cpu_us(samples[store, 1])
        rate_ratio = _per_s(taken) / _per_s(samples[store, 1])
        in_redis = 1e6 * redis_s[store, workers] / _calls(taken) if store == "redis" else None
        p50_ms = statistics.median(statistics.median(sample.answers.latencies_ms) for sample in taken)
        errors = sum(sample.answers.errors for sample in taken)
        row = (store, workers, _cpu_us(taken), f"{cpu_ratio:.2f}", in_redis, _per_s(taken))
        rows.append((*row, f"{rate_ratio:.2f}", p50_ms, errors))
    headers = (
        *("store", "workers", "CPU µs/call", f"÷ one (aim ≤ {AIM_CPU})", "Redis CPU µs/call"),
        *("requests/s", f"÷ one (aim ≥ {AIM_RATE} on free cores)", "p50 ms", "errors"),
    )
    return table(rows, headers, _FORMATS)


def _calls(samples: list[Sample]) -> int:
    return sum(len(sample.answers.latencies_ms) for sample in samples)


def _cpu_us(samples: list[Sample]) -> float:
    """Return the processor time of one call in all processes of the gateway."""
    return 1e6 * sum(sample.cpu_s for sample in samples) / _calls(samples)


def _per_s(samples: list[Sample]) -> float:
    return statistics.median(
        len(sample.answers.latencies_ms) / sample.answers.elapsed_s for sample in samples
    )

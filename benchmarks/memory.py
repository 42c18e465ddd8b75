"""Resident memory of the gateway over many calls: it must stay small and must not grow."""

from collections.abc import Iterator

from benchmarks.processes import LoadGenerator
from benchmarks.procfs import resident_mb
from benchmarks.tables import table
from benchmarks.traffic import Scenario, Target

PHASES = (
    (Scenario("whole", connections=32, calls=2_500), (5_000, 10_000, 20_000, 30_000, 40_000, 50_000)),
    (Scenario("streamed", connections=32, calls=500), (1_000, 2_000, 3_000, 4_000, 5_000)),
)
AIM_MB = 150
AIM_GROWTH_MB = 5

Row = tuple[str, int, float, float, int]


def run(load: LoadGenerator, target: Target) -> None:
    """Make 50,000 calls, then 5,000 streams. Print the resident memory at each step."""
    rows = [("idle", 0, resident_mb(target.pid), 0.0, 0)]
    for scenario, steps in PHASES:
        rows += _phase(load, target, scenario, steps)
    headers = ("answer", "calls", "resident MB", "since the first step", "errors")
    print(table(rows, headers, ("", ".0f", ".1f", "+.1f", ".0f")))
    print(
        f"\naim: under {AIM_MB} MB, and from the first step of each kind on at most {AIM_GROWTH_MB} MB more"
    )


def _phase(load: LoadGenerator, target: Target, scenario: Scenario, steps: tuple[int, ...]) -> Iterator[Row]:
    made, errors, first_mb = 0, 0, 0.0
    for step in steps:
        while made < step:
            errors += load.run(target, scenario).answers.errors
            made += scenario.calls
        now_mb = resident_mb(target.pid)
        first_mb = first_mb or now_mb
        yield scenario.kind, made, now_mb, now_mb - first_mb, errors

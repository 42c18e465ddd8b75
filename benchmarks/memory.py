"""Resident memory of the gateway over many calls: it must stay small, and stay what it is."""

from tabulate import tabulate

from benchmarks.processes import LoadGenerator
from benchmarks.procfs import resident_mb
from benchmarks.traffic import Scenario, Target

STEPS = (5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
MIX = (Scenario("whole", connections=32, calls=2_000), Scenario("streamed", connections=32, calls=500))
AIM_MB = 150


def run(load: LoadGenerator, target: Target) -> None:
    """Make 50,000 calls, every fifth of them streamed; print the resident memory at each step."""
    rows, made, errors = [(0, resident_mb(target.pid), 0)], 0, 0
    for step in STEPS:
        while made < step:
            for scenario in MIX:
                errors += load.run(target, scenario).answers.errors
                made += scenario.calls
        rows.append((made, resident_mb(target.pid), errors))
    print(tabulate(rows, ("calls", "resident MB", "errors"), floatfmt=".1f"))
    print(f"\naim: under {AIM_MB} MB after 50,000 calls, and flat from 5,000 on")

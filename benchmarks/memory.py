"""Resident memory of the gateway over many calls: it must stay small, and stay what it is."""

import re
from pathlib import Path

from tabulate import tabulate

from benchmarks.processes import LoadGenerator
from benchmarks.traffic import Scenario, Target

STEPS = (5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
MIX = (Scenario("whole", connections=32, calls=2_000), Scenario("streamed", connections=32, calls=500))
AIM_MB = 150


def run(load: LoadGenerator, target: Target, pid: int) -> None:
    """Make 50,000 calls, every fifth of them streamed; print the resident memory at each step."""
    rows, made, errors = [(0, resident_mb(pid), 0)], 0, 0
    for step in STEPS:
        while made < step:
            for scenario in MIX:
                errors += load.run(target, scenario).errors
                made += scenario.calls
        rows.append((made, resident_mb(pid), errors))
    print(tabulate(rows, ("calls", "resident MB", "errors"), floatfmt=".1f"))
    print(f"\naim: under {AIM_MB} MB after 50,000 calls, and flat from 5,000 on")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process and all that it started, in MB (10⁶ bytes). Linux only."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    rss = re.search(r"^VmRSS:\s*([0-9]+) kB$", status, re.MULTILINE)
    assert rss is not None
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(rss[1]) * 1024 / 1e6 + sum(resident_mb(int(child)) for child in children)

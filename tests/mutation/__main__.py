"""``./run.sh mutate``: put small faults into the code, and say which of them no test catches.

With ``--since COMMIT`` only the lines that changed since then get faults. Exit 1 if a fault survived.
"""

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mutation.faults import Fault, find_faults
from mutation.planting import ROOT, shorten_waits
from mutation.report import read_report, write_report
from mutation.run import MutationRun

IN_PROCESS_TESTS = [
    "tests/unit",
    "tests/end_to_end/test_simulation.py",
    "tests/end_to_end/test_simulation_bodies.py",
]
"""Tests that run the product in their own process. What a test starts as another process has no fault."""


EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--since", metavar="COMMIT", help="Only lines that changed since this commit.")
@click.option("--again", type=EXISTING_FILE, help="Only faults that this report of an earlier run lists.")
@click.option("--sample", type=click.IntRange(1), help="At most this many faults, chosen at random.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of the sample and of the tests' random values."
)
@click.option(
    "--processes", type=click.IntRange(1), default=2, show_default=True, help="How many faults run at a time."
)
@click.option(
    "--tests", multiple=True, default=IN_PROCESS_TESTS, show_default=True, help="Files or folders of tests."
)
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the survivors to this file."
)
@click.argument("paths", nargs=-1)
def main(
    since: str | None,
    again: Path | None,
    sample: int | None,
    seed: int,
    processes: int,
    tests: tuple[str, ...],
    report: Path | None,
    paths: tuple[str, ...],
) -> None:
    """Put small faults into the files or folders PATHS (addon and policies), one at a time, and run their tests."""
    faults = _faults(paths or ("addon", "policies"), since)
    if again is not None:
        listed = read_report(again.read_text(encoding="utf-8"))
        faults = [fault for fault in faults if fault.name in listed]
    if sample is not None:
        # In this order: a larger sample contains a smaller one, and the first results of a run are a sample, too.
        random.Random(seed).shuffle(faults)
        faults = faults[:sample]
    if not faults:
        raise click.ClickException("there is no line to put a fault into")
    shorten_waits()
    run = MutationRun(faults, processes, ROOT / ".mutation" / f"{_digest(tests)}.pickle")
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", f"--hypothesis-seed={seed}", *tests]
    pytest.main(arguments, plugins=[run])
    text = write_report(run.outcomes)
    click.echo(text)
    if report is not None:
        report.write_text(text, encoding="utf-8")
    sys.exit("survived" in run.outcomes.values())


def _faults(paths: tuple[str, ...], since: str | None) -> list[Fault]:
    files = _git("ls-files", "--", *(f"{path}" for path in paths)).split()
    found: list[Fault] = []
    for path in files:
        if path.endswith(".py"):
            lines = None if since is None else _changed_lines(path, since)
            faults = find_faults(path, (ROOT / path).read_text(encoding="utf-8"))
            found += (fault for fault in faults if lines is None or fault.line in lines)
    return found


def _changed_lines(path: str, since: str) -> set[int]:
    """Return the lines of the file that ``git diff`` says were added or changed."""
    lines: set[int] = set()
    for line in _git("diff", "--unified=0", since, "--", path).splitlines():
        if line.startswith("@@"):
            first, _, count = line.split("+")[1].split(" ")[0].partition(",")
            lines.update(range(int(first), int(first) + int(count or 1)))
    return lines


def _digest(tests: tuple[str, ...]) -> str:
    """Return a hash of all Python files and of the names of the tests: what they cover is found anew after a change."""
    digest = hashlib.sha256(repr(tests).encode())
    for path in _git("ls-files", "--", "*.py").split():
        digest.update(path.encode() + (ROOT / path).read_bytes())
    return digest.hexdigest()[:16]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()

"""What a mutation run found, as Markdown."""

import re
from collections import Counter
from collections.abc import Mapping

from mutation.faults import Fault
from mutation.run import Outcome


def write_report(outcomes: Mapping[Fault, Outcome]) -> str:
    """Return a table of the rates by package, and a line for each fault that no test caught."""
    counts: dict[str, Counter[Outcome]] = {}
    for fault, outcome in outcomes.items():
        counts.setdefault(_package(fault.path), Counter())[outcome] += 1
    lines = ["| package | faults | caught | survived | on no line of a test |", "|---|---|---|---|---|"]
    for package, count in sorted(counts.items()):
        total = count.total()
        share = f"{count['caught']} ({100 * count['caught'] / total:.1f} %)"
        lines.append(f"| {package} | {total} | {share} | {count['survived']} | {count['uncovered']} |")
    lines += ["", *(f"- {outcome}: `{fault}`" for fault, outcome in outcomes.items() if outcome != "caught")]
    return "\n".join(lines) + "\n"


def read_report(text: str) -> set[tuple[str, str]]:
    """Return the names of the faults that a report lists: those that no test caught."""
    return {(path, name) for path, name in re.findall(r"^- [a-z]+: `(.+?):\d+ (.*)`$", text, re.MULTILINE)}


def _package(path: str) -> str:
    """Return ``addon/calls`` for a module of it, ``policies`` for one of that."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "addon" and len(parts) > 2 else parts[0]

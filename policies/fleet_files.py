"""In which files the machines of a fleet differ, and when that is worth a word. Pure.

A file is one that all machines should have alike: the catalog, sections of proxy.conf, workspace files. Source:
docs/operating.md, "One set of files".
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

PERSIST_S: Final = 60.0
"""How long machines may differ before it is reported: a roll-out takes its time."""

MAX_NAMED: Final = 10
"""The most differences that one report names."""
MAX_KNOWN: Final = 100
"""The most files of a machine that are remembered as reported. Further ones are no news."""


class Difference(NamedTuple):
    """A machine, and a file that it has not as most machines have it."""

    machine: str
    file: str


def find_differences(files: Mapping[str, Mapping[str, str]]) -> set[Difference]:
    """Return the differences of machines, whose ``files`` are digests by name.

    Where as many have the one as the other, the first machine by name counts as right.
    """
    held: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
    for name in {name for one in files.values() for name in one}:
        held[name] = {machine: files[machine].get(name) for machine in sorted(files)}
    found: set[Difference] = set()
    for name, by_machine in held.items():
        # The first of equals is the one that was counted first.
        [(usual, _)] = Counter(by_machine.values()).most_common(1)
        found.update(Difference(machine, name) for machine, digest in by_machine.items() if digest != usual)
    return found


type Since = Mapping[Difference, float]
"""Since when machines differ, in seconds of a clock that never goes back."""


def follow(before: Since, found: Collection[Difference], now_s: float) -> Since:
    """Return since when each of the differences that were ``found`` now is there."""
    return {one: before.get(one, now_s) for one in found}


def find_lasting(since: Since, now_s: float) -> Sequence[Difference]:
    """Return the differences that have lasted for ``PERSIST_S``."""
    return sorted(one for one, since_s in since.items() if now_s - since_s >= PERSIST_S)


class Reported(NamedTuple):
    """What was reported of a machine: since when it differs, as UTC text, and in which files."""

    since: str
    files: Sequence[str]


def find_news(
    known: Reported | None, found: Collection[str], lasting: Collection[str], since: str
) -> tuple[Sequence[str], Reported | None]:
    """Return the files of a machine to report now, and what is reported then; None where it differs in none.

    ``found`` are the files in which it differs now, ``lasting`` those that it has had for long.
    """
    still = [file for file in known.files if file in found] if known else []
    new = sorted(set(lasting) - set(still)) if len(still) < MAX_KNOWN else []
    if not found or not (known or new):
        return (), None
    return new, Reported(known.since if known else since, sorted([*still, *new])[:MAX_KNOWN])

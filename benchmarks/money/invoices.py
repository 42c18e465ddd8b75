"""The second table of ``--money``: what the vendor bills, and how far each gateway's books are from it."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.money.billing import AS_DOCUMENTED, Provider, provider
from benchmarks.money.bookkeepers import NANOUSD, Booked, Bookkeeper, LiteLLM, Otari, Tollgate
from benchmarks.money.invoice_calls import CASES, Case
from benchmarks.money.provider import Bill
from benchmarks.peers.installation import NotInstalledError
from benchmarks.tables import Cell, table
from benchmarks.traffic import Target

CALL_LIMIT_S: Final = 60.0
RECORD_LIMIT_S: Final = 10.0
"""How long a gateway has to record a call after its answer."""
QUIET_S: Final = 0.5
"""How long the records must stay as they are."""
_POLL_S: Final = 0.05
_CANNOT_RUN: Final = (RuntimeError, OSError, subprocess.SubprocessError, NotInstalledError)

type Start = Callable[[int, Path], Bookkeeper]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case on one gateway: what the client saw, what the vendor billed, and what the gateway booked."""

    statuses: tuple[int, ...]
    bill: Bill
    booked: Booked

    def __str__(self) -> str:
        """Return by how many nano-USD the books are too high, with what else is not as it should be."""
        notes = [f"status {status}" for status in sorted({*self.statuses} - {200})]
        if self.bill.calls != len(self.statuses):
            notes.append(f"{self.bill.calls} billed")
        off = f"{self.booked.nanousd - self.bill.nanousd:+,}".replace("+0", "0")
        return f"{off} ({', '.join(notes)})" if notes else off


def run(folder: Path, only: str, otari_command: Path | None) -> None:
    """Print a row for each case, with a column for each gateway."""
    cases = [case for case in CASES if only in case.name]
    starts: dict[str, Start] = {"tollgate": Tollgate, "LiteLLM": LiteLLM}
    if otari_command is not None:
        starts["Otari"] = lambda port, own: Otari(otari_command, port, own)
    columns: dict[str, list[Outcome]] = {}
    for name, start in starts.items() if cases else ():
        try:
            columns[name] = list(outcomes(start, folder / f"invoices-{name.lower()}", cases))
        except _CANNOT_RUN as error:
            print(f"{name} is left out of the invoices: {str(error).partition(chr(10))[0][:300]}")
    if columns:
        print("Portkey is left out of the invoices: it records no cost")
        print(table(_rows(cases, columns), ("calls", "billed $", *columns)))


def outcomes(start: Start, folder: Path, cases: Sequence[Case]) -> Iterator[Outcome]:
    """Run the cases one after the other, on one gateway and a vendor of its own."""
    with provider(AS_DOCUMENTED) as vendor:
        gateway = start(vendor.port, folder)
        with gateway.running() as target:
            for number, case in enumerate(cases):
                yield outcome_of(gateway, target, vendor, case, f"case-{number}")


def outcome_of(gateway: Bookkeeper, target: Target, vendor: Provider, case: Case, salt: str) -> Outcome:
    """Make the calls of a case. Return what changed on both sides."""
    billed, booked = vendor.bill(), gateway.booked()
    body = case.body(salt)
    payload = json.dumps(body | {"model": gateway.models[body["model"]]}).encode()
    statuses = tuple(_call(target, payload) for _ in range(case.repeats))
    now_booked = _settled(gateway, booked.calls + case.repeats)
    now_billed = vendor.bill()
    return Outcome(
        statuses,
        Bill(now_billed.calls - billed.calls, now_billed.nanousd - billed.nanousd),
        Booked(now_booked.calls - booked.calls, now_booked.nanousd - booked.nanousd),
    )


def _call(target: Target, payload: bytes) -> int:
    """Make one call, and read its whole answer. Return its status, 0 for none."""
    headers = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{target.port}/v1/chat/completions"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, payload, headers), timeout=CALL_LIMIT_S
        ) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.read()
        return error.code
    except OSError:
        return 0


def _settled(gateway: Bookkeeper, calls: int) -> Booked:
    """Return the records once they have so many calls and stay the same, or when the time for that is over."""
    deadline = time.monotonic() + RECORD_LIMIT_S
    booked, since = gateway.booked(), time.monotonic()
    while time.monotonic() < deadline and (booked.calls < calls or time.monotonic() - since < QUIET_S):
        time.sleep(_POLL_S)
        if (now := gateway.booked()) != booked:
            booked, since = now, time.monotonic()
    return booked


def _rows(cases: Sequence[Case], columns: dict[str, list[Outcome]]) -> Iterator[tuple[Cell, ...]]:
    for number, case in enumerate(cases):
        outcomes_here = [column[number] for column in columns.values()]
        yield (case.name, f"{outcomes_here[0].bill.nanousd / NANOUSD:.9f}", *map(str, outcomes_here))
    sums = [sum(one.booked.nanousd - one.bill.nanousd for one in column) for column in columns.values()]
    yield ("sum", "", *[f"{one:+,}".replace("+0", "0") for one in sums])

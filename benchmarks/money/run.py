"""``--money``: what goes wrong with money, and the provider's sum next to the gateway's."""

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.money import invoices
from benchmarks.money.billing import Provider, provider
from benchmarks.money.clients import ANSWERED, FAILED, REFUSED, burst, leave_at_finish, until_killed
from benchmarks.money.gateways import Otari, Payer, Recorded, Tollgate, kill
from benchmarks.money.provider import Bill
from benchmarks.tables import Cell, table
from benchmarks.traffic import Target

SETTLE_LIMIT_S: Final = 20.0
"""How long a gateway has to write what happened. Tollgate reads on for 5 s after a client left."""
_POLL_S: Final = 0.5
_CANNOT_START: Final = (RuntimeError, OSError, subprocess.SubprocessError)

HEADERS: Final = (
    *("demonstration", "gateway", "answered", "refused", "failed", "calls billed", "provider's sum $"),
    *("rows", "rows without cost", "recorded $", "not recorded $", "over budget $", "still held $"),
)
NANOUSD: Final = 10**9

Clients = Callable[[Target], Coroutine[Any, Any, Counter[str]]]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The work of the clients, on a gateway with a budget. With ``restarts`` the gateway is killed and starts again."""

    name: str
    budget_usd: int
    clients: Clients
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers to the clients, the bill of the provider, and the records of the gateway."""

    seen: Counter[str]
    bill: Bill
    recorded: Recorded


def _asking(tokens: int, **fields: int) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"Please count up to a number. [tokens {tokens}]"}],
        **fields,
    }


def _kill_in_the_middle(target: Target) -> Coroutine[Any, Any, Counter[str]]:
    body = _asking(1_000, max_tokens=1_000)
    return until_killed(target, 8, body, after_s=3.0, kill=lambda: kill(target))


DEMONSTRATIONS: Final = (
    Demonstration(
        "300 calls at once on $1, each costs 2 cents",
        1,
        lambda target: burst(target, 300, _asking(1_000, max_tokens=1_000)),
    ),
    Demonstration(
        "the same without max_tokens, the model writes 8 cents",
        1,
        lambda target: burst(target, 300, _asking(4_000)),
    ),
    Demonstration(
        "100 streams, the client leaves at finish_reason",
        1_000,
        lambda target: leave_at_finish(target, 100, _asking(1_000, max_tokens=1_000), clients=4),
    ),
    Demonstration("kill -9 under 8 clients, then a restart", 1_000, _kill_in_the_middle, restarts=True),
)


def run(folder: Path, only: str, otari_command: Path | None) -> None:
    """Print a row for each demonstration and gateway, and one for each case of the invoices."""
    rows: list[tuple[Cell, ...]] = []
    for number, demonstration in enumerate(DEMONSTRATIONS):
        if only in demonstration.name:
            rows += _rows(demonstration, folder / str(number), otari_command)
    if otari_command is None:
        print("Otari is left out: it is in no package registry; install it and add --otari COMMAND")
    if rows:
        print(table(rows, HEADERS, ("", "", *[".0f"] * 4, ".4f", ".0f", ".0f", *[".4f"] * 4)))
    invoices.run(folder, only, otari_command)


def _rows(
    demonstration: Demonstration, folder: Path, otari_command: Path | None
) -> Iterator[tuple[Cell, ...]]:
    folder.mkdir()
    budget_usd = demonstration.budget_usd
    with provider() as billing:
        ours = Tollgate(billing.port, folder / "tollgate", budget_usd)
        yield row_of(demonstration, ours.name, outcome_of(demonstration, ours, billing))
    if otari_command is None:
        return
    with provider() as billing:
        try:
            other = Otari(otari_command, billing.port, folder / "otari", budget_usd)
            yield row_of(demonstration, other.name, outcome_of(demonstration, other, billing))
        except _CANNOT_START as error:
            print(f"Otari is left out of {demonstration.name!r}: {str(error).partition(chr(10))[0][:300]}")


def outcome_of(demonstration: Demonstration, payer: Payer, billing: Provider) -> Outcome:
    """Run the clients on the gateway. Return what happened when nothing changes any more."""
    with payer.running() as target:
        seen = asyncio.run(demonstration.clients(target))
        if not demonstration.restarts:
            recorded = _settled(payer)
    if demonstration.restarts:
        with payer.running():
            recorded = _settled(payer)
    return Outcome(seen, billing.bill(), recorded)


def _settled(payer: Payer) -> Recorded:
    """Return the records once nothing is held and they stay the same, or when the time for that is over."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    before, recorded = None, payer.recorded()
    while (recorded.held_nanousd or recorded != before) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        before, recorded = recorded, payer.recorded()
    return recorded


def row_of(demonstration: Demonstration, name: str, outcome: Outcome) -> tuple[Cell, ...]:
    """Return the row of the table, as in ``HEADERS``."""
    seen, bill, recorded = outcome.seen, outcome.bill, outcome.recorded
    over_nanousd = max(0, bill.nanousd - demonstration.budget_usd * NANOUSD)
    counts = (seen[ANSWERED], seen[REFUSED], seen[FAILED], bill.calls)
    sums = (bill.nanousd - recorded.nanousd, over_nanousd, recorded.held_nanousd)
    return (
        *(demonstration.name, name, *counts, bill.nanousd / NANOUSD),
        *(recorded.rows, recorded.free_rows, recorded.nanousd / NANOUSD),
        *(nanousd / NANOUSD for nanousd in sums),
    )

"""The gateways with a budget: how each starts on a budget, dies, starts again, and what it recorded."""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from benchmarks import gateways
from benchmarks.gateways import Configured, Money, Setup
from benchmarks.money.provider import INPUT_NANOUSD, OUTPUT_NANOUSD
from benchmarks.peers import otari
from benchmarks.procfs import process_ids
from benchmarks.traffic import Target

_MILLION_TOKENS_USD: Final = 1e6 / 1e9
_NANOUSD: Final = 10**9


@dataclass(frozen=True, slots=True)
class Recorded:
    """The records of a gateway: the rows of calls, their cost, the rows without one, and what is still held."""

    rows: int
    nanousd: int
    free_rows: int
    held_nanousd: int


class Payer(Protocol):
    """A gateway with a budget, on files that survive its process."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    def running(self) -> AbstractContextManager[Target]:
        """Start it, again if it ran before."""

    def recorded(self) -> Recorded:
        """Read its records."""


def kill(target: Target) -> None:
    """End all processes of the gateway with SIGKILL."""
    for pid in process_ids(target.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Tollgate:
    """This gateway on SQLite. Without a markup, what it charges is what the provider bills."""

    name = "tollgate"

    def __init__(self, upstream_port: int, folder: Path, budget_usd: int) -> None:
        money = Money(
            input_usd=str(INPUT_NANOUSD * _MILLION_TOKENS_USD),
            output_usd=str(OUTPUT_NANOUSD * _MILLION_TOKENS_USD),
            markup_percent="0",
            budget_usd=str(budget_usd),
        )
        self._files: Configured = gateways.configure(upstream_port, folder, Setup(money=money))

    def running(self) -> AbstractContextManager[Target]:
        """Start it, again if it ran before."""
        return self._files.running()

    def recorded(self) -> Recorded:
        """Read its ledger."""
        rows = "SELECT count(*), total(retail_nanousd), total(retail_nanousd = 0) FROM usage"
        held = "SELECT total(amount_nanousd) FROM holds"
        return read_records(self._files.ledger, rows, held)


class Otari:
    """Otari on SQLite, with a user who has a budget."""

    name = "Otari"

    def __init__(self, program: Path, upstream_port: int, folder: Path, budget_usd: int) -> None:
        folder.mkdir()
        prices = otari.Prices(INPUT_NANOUSD * _MILLION_TOKENS_USD, OUTPUT_NANOUSD * _MILLION_TOKENS_USD)
        self._files = otari.configure(program, upstream_port, folder, prices)
        self._budget_usd = budget_usd
        self._key = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Start it, again if it ran before."""
        with self._files.running() as pid:
            self._key = self._key or self._files.new_key(self._budget_usd)
            yield Target(self.name, pid, self._files.port, self._key, model=otari.MODEL)

    def recorded(self) -> Recorded:
        """Read its usage log and what it reserves of the budget."""
        cost = f"total(cost) * {_NANOUSD}, total(coalesce(cost, 0) = 0)"
        rows = f"SELECT count(*), {cost} FROM usage_logs WHERE status = 'success'"
        return read_records(self._files.database, rows, f"SELECT total(reserved) * {_NANOUSD} FROM users")


def read_records(database: Path, rows: str, held: str) -> Recorded:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20)) as connection:
        count, nanousd, free = connection.execute(rows).fetchone()
        (held_nanousd,) = connection.execute(held).fetchone()
    return Recorded(int(count), round(nanousd), int(free), round(held_nanousd))

"""What a fleet's money costs: processes that hold and settle at the same time in one PostgreSQL, and one on SQLite.

Each process runs as ``python -m benchmarks.fleet PLACE NAME WORKSPACES CLIENTS SECONDS`` and prints what it measured.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import SecretStr

from addon.store.money.engine import Statement
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.protocol import HoldRequest, Settlement, WalletEntry
from benchmarks.processes import running
from benchmarks.procfs import cpu_s
from benchmarks.stores import PRICES, make_row
from benchmarks.tables import table
from policies.limits import limits_of
from policies.model import Key, Workspace
from policies.spend import Hold, compute_max_cost

PROCESSES: Final = 4
CLIENTS: Final = 12
"""The calls in flight of one process. Each begins the next one at once."""
SECONDS: Final = 5.0
AIMS: Final = {50: 8_000, 1: 4_000}
"""Calls (a hold and its settlement) a second with so many workspaces, on two quiet cores."""


class Measured(NamedTuple):
    """What one process measured. Times are those of a call's two steps, in ms."""

    calls: int
    seconds: float
    own_cpu_s: float
    server_cpu_s: float
    hold_ms: list[float]
    settle_ms: list[float]


class Gateway:
    """The money of one process, and the clients that use it."""

    def __init__(self, place: str, name: str, workspaces: int) -> None:
        self._money: PostgresMoney | SqliteMoney = (
            PostgresMoney(SecretStr(place))
            if place.startswith("postgres")
            else SqliteMoney(Path(place, "ledger.db"))
        )
        self._name = name
        self._workspaces = [_workspace(number) for number in range(workspaces)]
        self._count = 0
        self._hold_ms: list[float] = []
        self._settle_ms: list[float] = []

    async def measure(self, clients: int, seconds: float) -> Measured:
        """Let clients call for so long."""
        await self._money.check()
        for one in self._workspaces:
            await self._money.credit(WalletEntry(one.id, datetime.now(UTC), one.id, 10**15, "benchmark"))
        for _ in range(100):
            await self._call()
        pid = await self._server_pid()
        self._hold_ms, self._settle_ms = [], []
        own_s, server_s, began_s = time.process_time(), _cpu_of(pid), time.perf_counter()
        await asyncio.gather(*[self._call_until(began_s + seconds) for _ in range(clients)])
        took_s = time.perf_counter() - began_s
        own_s, server_s = time.process_time() - own_s, _cpu_of(pid) - server_s
        await self._money.close()
        return Measured(len(self._hold_ms), took_s, own_s, server_s, self._hold_ms, self._settle_ms)

    async def _call_until(self, end_s: float) -> None:
        while time.perf_counter() < end_s:
            await self._call()

    async def _call(self) -> None:
        self._count += 1
        workspace, now = self._workspaces[self._count % len(self._workspaces)], datetime.now(UTC)
        [key] = workspace.keys
        row = make_row(f"{self._name}-{self._count}", now) | {"workspace": workspace.id}
        max_cost = compute_max_cost(PRICES, 200, 1_000, 1, is_protected=True)
        limits = limits_of(workspace, key, "payg", now)
        began_s = time.perf_counter()
        held = await self._money.hold(
            HoldRequest(row["id"], now, workspace.id, key.id, max_cost, limits, row)
        )
        held_s = time.perf_counter()
        if not isinstance(held, Hold):
            raise RuntimeError(f"a call was refused: {held}")
        await self._money.settle(Settlement(row, from_wallet=True))
        self._hold_ms.append((held_s - began_s) * 1000)
        self._settle_ms.append((time.perf_counter() - held_s) * 1000)

    async def _server_pid(self) -> int | None:
        """Return the process that serves this one, if it is on this machine."""
        if not isinstance(self._money, PostgresMoney):
            return None
        [[[pid]]] = await self._money._transactions.read(Statement("SELECT pg_backend_pid()"))
        return int(pid)


def _workspace(number: int) -> Workspace:
    key = Key("bench", "00", spend_cap_nanousd=10**15, request_cap=10**9)
    return Workspace(f"bench-{number}", "Benchmark", "standard", (key,), monthly_spend_cap_nanousd=10**15)


def _cpu_of(pid: int | None) -> float:
    with suppress(OSError):
        return cpu_s(pid) if pid else 0.0
    return float("nan")


def _measure(place: str, processes: int, workspaces: int, run: str) -> list[Measured]:
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                running(
                    [
                        *(sys.executable, "-m", "benchmarks.fleet", place, f"{run}-{number}"),
                        *(str(workspaces), str(CLIENTS), str(SECONDS)),
                    ],
                    pipes=True,
                )
            )
            for number in range(processes)
        ]
        return [_read(process) for process in started]


def _read(process: subprocess.Popen[str]) -> Measured:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of the fleet ended")
    return Measured(*json.loads(line))


def _row(name: str, workspaces: int, found: list[Measured], aim: float) -> tuple[Any, ...]:
    calls = sum(one.calls for one in found)
    hold_ms = statistics.median([one for process in found for one in process.hold_ms])
    settle_ms = statistics.median([one for process in found for one in process.settle_ms])
    own_us = sum(one.own_cpu_s for one in found) / calls * 1e6
    server_us = sum(one.server_cpu_s for one in found) / calls * 1e6
    a_second = sum(one.calls / one.seconds for one in found)
    return name, len(found), workspaces, a_second, aim, hold_ms, settle_ms, own_us, server_us


def run(folder: Path, url: str) -> None:
    """Print what a call costs on the PostgreSQL at ``url`` and on SQLite."""
    run_id, rows = f"{time.time_ns():x}", []
    for workspaces, aim in AIMS.items():
        found = _measure(url, PROCESSES, workspaces, f"{run_id}-{workspaces}")
        rows.append(_row("PostgreSQL", workspaces, found, aim))
    for workspaces in AIMS:
        place = folder / f"sqlite-{workspaces}"
        place.mkdir()
        found = _measure(str(place), 1, workspaces, run_id)
        rows.append(_row("SQLite", workspaces, found, float("nan")))
    headers = (
        *("ledger", "processes", "workspaces", "calls/s", "aim", "hold p50 ms", "settle p50 ms"),
        *("CPU µs/call", "PostgreSQL's"),
    )
    print(table(rows, headers, ("", "", "", ",.0f", ",.0f", ".2f", ".2f", ".0f", ".0f")))


if __name__ == "__main__":
    _place, _name, *_numbers = sys.argv[1:]
    _gateway = Gateway(_place, _name, int(_numbers[0]))
    print(json.dumps(asyncio.run(_gateway.measure(int(_numbers[1]), float(_numbers[2])))), flush=True)

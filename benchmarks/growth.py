"""The costs of growth: a ledger of two million calls, and 10,000 keys in 1,000 workspaces."""

import asyncio
import hashlib
import http.client
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlite_utils import Database, Migrations

from addon.store.money.sqlite.early_migration_steps import m0007_rollups
from addon.store.money.sqlite.migration_steps import STEPS
from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.sums.rollup_builder import LOOK_S, RollupBuilder
from benchmarks.gateways import ROOT, Setup, configure, new_key
from benchmarks.processes import upstream
from benchmarks.procfs import cpu_s, resident_mb
from benchmarks.stores import measure_steps
from benchmarks.tables import Cell, table
from benchmarks.traffic import SLUG, Target

CALLS: Final = 2_000_000
WORKSPACES: Final = 1_000
KEYS: Final = 10
REPORTS: Final = (
    "",
    "--by workspace",
    "--by model",
    "--by day",
    "--by key",
    "--by key,day",
    "--by provider,status",
    "--by hour",
    "--since 7d",
    "--model vendor/model-5",
)
EDITS: Final = 5
_IDLE_S: Final = 10
_SEEN: Final = 8
"""How many calls in a row must be accepted until an edit counts as live: with two workers, in both."""

_OLDER = """
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :calls),
    draws AS (SELECT n, abs(random()) % 1000000 AS a, abs(random()) % 1000000 AS b, abs(random()) % 1000000 AS c
              FROM numbers)
    INSERT INTO usage SELECT
        printf('call-%08x-%05x', n, a),
        strftime('%Y-%m-%dT%H:%M:%S', :now - 60 * 86400 + n * 60 * 86400 / :calls, 'unixepoch')
            || printf('.%03d+00:00', a % 1000),
        printf('workspace-%02d', a * a / 1000000 % 50), 'key-' || (b % 2), 'model',
        'vendor/model-' || (c * c / 1000000 % 6), 'vendor-' || (c * c / 1000000 % 3), 'model', 'payg', 0, 1, b % 2,
        iif(c % 50, 200, 502), NULL, 'stop', 100 + a % 4000, 10 + b % 900, 110 + a % 4000 + b % 900, a % 50, NULL,
        'provider', 1000 + b, 1040 + b,
        200 + c % 2000, 300 + c % 20000, NULL, NULL
    FROM draws
"""
"""Calls of 50 workspaces with 2 keys, 6 models, over the last 60 days."""


def run(folder: Path) -> None:
    """Print what a large ledger and many keys cost, each next to a small one."""
    print(_ledgers_table(folder))
    with upstream() as alone:
        print(_workspaces_table(folder, alone))


# The ledger.


def _ledgers_table(folder: Path) -> str:
    columns = [list(_measure_ledger(folder / name, calls)) for name, calls in (("empty", 0), ("full", CALLS))]
    rows = [(name, empty, full) for (name, empty), (_, full) in zip(*columns, strict=True)]
    return table(rows, ("of a ledger with", "no calls", f"{CALLS:,} calls"), ("", ".2f", ".2f"))


def _measure_ledger(folder: Path, calls: int) -> Iterator[tuple[str, float]]:
    conf, ledger = folder / "proxy.conf", folder / "var" / "tollgate.db"
    ledger.parent.mkdir(parents=True)
    conf.write_text('[paths]\ndatabase = "var/tollgate.db"\n')
    write_older_ledger(ledger, calls)
    began_s = time.perf_counter()
    asyncio.run(SqliteStore(ledger).close())
    yield "first start after the upgrade, ms", (time.perf_counter() - began_s) * 1000
    yield "steps of a call during the build, ms", statistics.median(asyncio.run(measure_steps(conf)).together)
    began_s, longest_s = time.process_time(), build(ledger)
    yield "build of the rollups, s of CPU", time.process_time() - began_s
    yield "its longest step, ms", longest_s * 1000
    began_s = time.perf_counter()
    asyncio.run(SqliteStore(ledger).close())
    yield "next start, ms", (time.perf_counter() - began_s) * 1000
    yield "steps of a call, ms", statistics.median(asyncio.run(measure_steps(conf)).together)
    for report in REPORTS:
        yield (
            f"tollgate usage {report}, ms".replace(" ,", ","),
            _time_command(conf, "usage", *report.split()) * 1000,
        )
    yield "tollgate ledger verify, s", _time_command(conf, "ledger", "verify", rounds=1)


def write_older_ledger(ledger: Path, calls: int) -> None:
    """Write a ledger of the version before there were rollups."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        older = Migrations("tollgate")
        for step in STEPS[: STEPS.index(m0007_rollups)]:
            older()(step)
        older.apply(Database(connection))
        if calls:
            connection.execute(_OLDER, {"calls": calls, "now": int(time.time())})


def build(ledger: Path) -> float:
    """Build without a rest. Return the time of the longest step."""
    builder, longest_s, pause_s = RollupBuilder(ledger), 0.0, 0.0
    while pause_s != LOOK_S:
        began_s = time.perf_counter()
        pause_s = builder.step()
        longest_s = max(longest_s, time.perf_counter() - began_s)
    builder.close()
    return longest_s


def _time_command(conf: Path, *arguments: str, rounds: int = 3) -> float:
    """Return the least processor time of a command, its start and imports included."""
    used_s = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "addon.cli", *arguments, "--conf", str(conf)]
        subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(used_s)


# The workspaces.


def _workspaces_table(folder: Path, alone: Target) -> str:
    headers = (
        "keys",
        "workers",
        "start s",
        "CPU of it s",
        "resident MB",
        "idle CPU %",
        "edit s",
        "longest s",
    )
    rows = [
        _measure_workspaces(folder / f"keys-{workspaces}-{workers}", alone.port, workspaces, workers)
        for workers in (1, 2)
        for workspaces in (1, WORKSPACES)
    ]
    return table(rows, headers, (",d", "d", ".1f", ".1f", ".0f", ".1f", ".2f", ".2f"))


def _measure_workspaces(folder: Path, port: int, workspaces: int, workers: int) -> Sequence[Cell]:
    configured = configure(port, folder, Setup(workers=workers))
    files = [folder / f"policies/workspaces/many-{number:04}.toml" for number in range(workspaces)]
    for file in files:
        file.write_text(_workspace([new_key() for _ in range(KEYS)]))
    began_s = time.perf_counter()
    with configured.running() as target:
        start_s, start_cpu_s = time.perf_counter() - began_s, cpu_s(target.pid)
        time.sleep(_IDLE_S / 2)
        before_s, resident = cpu_s(target.pid), resident_mb(target.pid)
        time.sleep(_IDLE_S)
        idle = (cpu_s(target.pid) - before_s) / _IDLE_S * 100
        edits = [_time_edit(target, files[-1]) for _ in range(EDITS)]
    return (
        workspaces * KEYS,
        workers,
        start_s,
        start_cpu_s,
        resident,
        idle,
        statistics.median(edits),
        max(edits),
    )


def _workspace(keys: Sequence[str]) -> str:
    tables = [
        f'[[keys]]\nid = "key-{number}"\nhash = "sha256:{hashlib.sha256(key.encode()).hexdigest()}"\n'
        'spend_cap_usd = "100"\nrequest_cap = 10000\n'
        for number, key in enumerate(keys)
    ]
    return f'name = "One of many"\nplan = "pro"\nmonthly_spend_cap_usd = "250"\n{"".join(tables)}'


def _time_edit(target: Target, file: Path) -> float:
    """Return how long after its edit a workspace's new key is accepted by every worker."""
    time.sleep(2)  # An edit that follows another one at once would wait for the same look.
    key, accepted = new_key(), 0
    began_s = time.perf_counter()
    replaced = file.with_suffix(".new")
    replaced.write_text(_workspace([key, *(new_key() for _ in range(KEYS - 1))]))
    os.replace(replaced, file)
    while accepted < _SEEN:
        is_accepted = _call(target, key)
        accepted = accepted + 1 if is_accepted else 0
        if not is_accepted:
            time.sleep(0.01)
    return time.perf_counter() - began_s


def _call(target: Target, key: str) -> bool:
    """Make a call on a connection of its own. Return whether the key was accepted."""
    with closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)) as connection:
        body = f'{{"model": "{SLUG}", "messages": [{{"role": "user", "content": "Hi"}}]}}'
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        return connection.getresponse().status != 401

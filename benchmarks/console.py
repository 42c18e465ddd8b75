"""What the console's front page costs on a ledger of two million calls, and what calls next to it notice."""

import asyncio
import http.client
import json
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from addon.store.money.sqlite.store import SqliteStore
from benchmarks.gateways import Configured, Setup, configure
from benchmarks.growth import CALLS, build, write_older_ledger
from benchmarks.processes import START_LIMIT_S, LoadGenerator
from benchmarks.procfs import cpu_s
from benchmarks.tables import Cell, table
from benchmarks.traffic import Scenario, Target

PAGES: Final = 10
"""How many pages make one figure."""
WORKSPACES: Final = 50
_SCENARIO: Final = Scenario("whole", calls=2_000, connections=4)
_READERS: Final = {
    "while twenty open pages update themselves": 0.5,
    "while the page is reloaded all the time": 0.0,
}
"""How long a reader waits before the next page. An open page updates itself every ten seconds."""
_LIMIT_S: Final = 60
_LOOPS: Final = 5


def run(load: LoadGenerator, alone: Target, folder: Path, rounds: int, ledger: Path | None) -> None:
    """Print both tables. ``ledger`` is one that ``bench --growth`` or an earlier run made; else a new one is made."""
    configured = configure(alone.port, folder, Setup())
    _write_workspaces(configured.conf.parent / "policies" / "workspaces")
    _place_ledger(configured.ledger, ledger)
    with configured.running() as target:
        admin = _find_admin(configured)
        print(_pages_table(target, admin))
        print(_calls_table(load, target, admin, rounds))


def _place_ledger(database: Path, ledger: Path | None) -> None:
    database.parent.mkdir(parents=True, exist_ok=True)
    if ledger:
        shutil.copy(ledger, database)
    else:
        write_older_ledger(database, CALLS)
    asyncio.run(SqliteStore(database).close())
    build(database)


def _write_workspaces(folder: Path) -> None:
    """Write the workspaces of the ledger, each with a wallet or a monthly cap, and two keys with caps."""
    for number in range(WORKSPACES):
        keys = "".join(
            f'[[keys]]\nid = "key-{key}"\nhash = "sha256:{number:032x}{key:032x}"\n'
            'spend_cap_usd = "100"\nspend_reset = "monthly"\nrequest_cap = 100000\n'
            for key in range(2)
        )
        plan = "pro" if number % 2 else "standard"
        text = f'name = "Workspace {number}"\nplan = "{plan}"\nmonthly_spend_cap_usd = "250"\n{keys}'
        (folder / f"workspace-{number:02}.toml").write_text(text, encoding="utf-8")


def _find_admin(configured: Configured) -> str:
    """Return the host and the port of the console, which the log names."""
    log = configured.conf.parent / "gateway.log"
    end_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end_s:
        for line in log.read_text(encoding="utf-8").splitlines():
            if "admin listening" in line:
                return str(urlsplit(json.loads(line)["url"]).netloc)
        time.sleep(0.01)
    raise RuntimeError("the gateway did not name its admin port")


# The pages.


def _paths() -> Iterator[tuple[str, str]]:
    begin = datetime.now(UTC) - timedelta(days=60)
    for name, query in (
        ("last hour", "range=hour"),
        ("last 24 hours (the usual page)", ""),
        ("last 24 hours, by key", "by=key"),
        ("last 24 hours of a workspace", "workspace=workspace-03"),
        ("last 24 hours of a model", "model=vendor/model-5"),
        ("last 7 days", "range=7d"),
        ("this month", "range=month"),
        ("60 days", f"from={begin:%Y-%m-%d}"),
        ("60 days, by key", f"from={begin:%Y-%m-%d}&by=key"),
        ("60 days of a workspace", f"from={begin:%Y-%m-%d}&workspace=workspace-03"),
    ):
        yield name, f"/?{query}"


def _pages_table(target: Target, admin: str) -> str:
    measured, loops_s = [], list[list[float]]()
    for name, path in _paths():
        size = len(_get(admin, path))
        before_s, loop_s = cpu_s(target.pid), list[float]()
        for _ in range(PAGES):
            _get(admin, path)
            loop_s += [_time_loop() for _ in range(_LOOPS)]
        measured.append((name, (cpu_s(target.pid) - before_s) / PAGES * 1000, size / 1000))
        loops_s.append(loop_s)
    quiet_s = min(map(min, loops_s))
    rows = [
        (name, used_ms, used_ms * quiet_s / statistics.median(loop_s), size_kb)
        for (name, used_ms, size_kb), loop_s in zip(measured, loops_s, strict=True)
    ]
    return table(rows, ("the front page", "CPU ms", "when quiet", "kB"), ("", ".0f", ".0f", ".0f"))


def _time_loop() -> float:
    """Return the processor time of a short loop. Other programs on the machine make it longer, as they do pages."""
    began_s, number = time.process_time(), 0
    for step in range(20_000):
        number += step
    return time.process_time() - began_s


def _get(admin: str, path: str) -> bytes:
    with closing(http.client.HTTPConnection(admin, timeout=_LIMIT_S)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return body


# The calls.


def _calls_table(load: LoadGenerator, target: Target, admin: str, rounds: int) -> str:
    """Return the latencies of calls alone, and next to one page after the other, in alternating rounds."""
    load.run(target, _SCENARIO)
    alone = list[Sequence[float]]()
    beside = {name: list[Sequence[float]]() for name in _READERS}
    pages = {name: list[float]() for name in _READERS}
    for _ in range(rounds):
        alone.append(load.run(target, _SCENARIO).answers.latencies_ms)
        for name, pause_s in _READERS.items():
            with _reloading(admin, pause_s) as reloaded:
                began_s = time.perf_counter()
                beside[name].append(load.run(target, _SCENARIO).answers.latencies_ms)
                pages[name].append(len(reloaded) / (time.perf_counter() - began_s))
    rows: list[tuple[Cell, ...]] = [("alone", *_percentiles(alone), 0.0)]
    rows += [(name, *_percentiles(beside[name]), statistics.median(pages[name])) for name in _READERS]
    return table(rows, ("calls", "p50 ms", "p99 ms", "most ms", "pages/s"), ("", ".2f", ".2f", ".1f", ".1f"))


def _percentiles(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return p50, p99 and the longest, each the median of the rounds."""
    cuts = [statistics.quantiles(latencies_ms, n=100) for latencies_ms in rounds]
    longest = [max(latencies_ms) for latencies_ms in rounds]
    return [
        statistics.median(values)
        for values in ([cut[49] for cut in cuts], [cut[98] for cut in cuts], longest)
    ]


@contextmanager
def _reloading(admin: str, pause_s: float) -> Iterator[list[int]]:
    """Get the page again and again, with pauses, until the block ends. The list grows with each."""
    sizes, has_ended = list[int](), threading.Event()

    def reload() -> None:
        while not has_ended.is_set():
            sizes.append(len(_get(admin, "/")))
            has_ended.wait(pause_s)

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        yield sizes
    finally:
        has_ended.set()
        thread.join(_LIMIT_S)

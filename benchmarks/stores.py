"""The cost of limits and money: the three steps of a call, each alone, on each store."""

import asyncio
import statistics
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from addon.settings.settings import load_conf
from addon.store.backends import open_store
from addon.store.protocol import HoldRequest, Settlement, Store
from benchmarks.processes import redis_server
from benchmarks.tables import Cell, table
from policies.limits import limits_of
from policies.model import Key, Workspace
from policies.prices import Prices
from policies.spend import compute_max_cost

CALLS = 3_000
AIMS_MS = {"sqlite": 0.25, "redis": 0.6}

_KEY = Key("bench", "00", spend_cap_nanousd=10**15, request_cap=10**9)
_WORKSPACE = Workspace("bench", "Benchmark", "standard", (_KEY,), monthly_spend_cap_nanousd=10**15)
PRICES = Prices(150_000, 75_000, 600_000)


@dataclass(slots=True)
class Steps:
    """The duration of each step in ms, call by call."""

    take: list[float] = field(default_factory=list)
    hold: list[float] = field(default_factory=list)
    settle: list[float] = field(default_factory=list)

    @property
    def together(self) -> list[float]:
        return [sum(call) for call in zip(self.take, self.hold, self.settle, strict=True)]


async def _time[T](into: list[float], step: Awaitable[T]) -> T:
    started = time.perf_counter()
    result = await step
    into.append((time.perf_counter() - started) * 1000)
    return result


async def _one_call(store: Store, number: int, steps: Steps) -> None:
    call_id, now = f"bench-{number}", datetime.now(UTC)
    row = make_row(call_id, now)
    request = HoldRequest(
        id=call_id,
        created_at=now,
        workspace=_WORKSPACE.id,
        key_id=_KEY.id,
        max_cost=compute_max_cost(PRICES, 200, 1_000, 1, is_protected=True),
        limits=limits_of(_WORKSPACE, _KEY, "payg", now),
        interrupted_row=row,
    )
    await _time(steps.take, store.take_token(_WORKSPACE.id, 10**9))
    await _time(steps.hold, store.hold(request))
    await _time(steps.settle, store.settle(Settlement(row, from_wallet=True)))


def make_row(call_id: str, now: datetime) -> dict[str, Any]:
    counts = {"prompt_tokens": 24, "completion_tokens": 60, "total_tokens": 84, "cached_tokens": None}
    costs = {"wholesale_nanousd": 39_600, "retail_nanousd": 41_184}
    return {
        "id": call_id,
        "created_at": now.isoformat(timespec="milliseconds"),
        "workspace": _WORKSPACE.id,
        "key_id": _KEY.id,
        **dict.fromkeys(("requested_model", "model_slug", "provider", "upstream_model_id"), "bench-chat"),
        **{"mode": "payg", "fallback": 0, "attempts": 1, "stream": 0, "status": 200},
        **dict.fromkeys(
            ("error_code", "finish_reason", "reasoning_tokens", "end_user", "client_request_id"), None
        ),
        **counts,
        "usage_source": "provider",
        **costs,
        **{"first_byte_ms": 1, "duration_ms": 2},
    }


async def measure_steps(conf_file: Path) -> Steps:
    """Return the cost of the steps on the store that ``conf_file`` selects."""
    store = open_store(load_conf(conf_file))
    steps, warm = Steps(), Steps()
    try:
        await store.check()
        for number in range(CALLS // 10):
            await _one_call(store, -1 - number, warm)
        for number in range(CALLS):
            await _one_call(store, number, steps)
    finally:
        await store.close()
    return steps


def _steps_table(folder: Path, urls: dict[str, str]) -> str:
    rows: list[tuple[Cell, ...]] = []
    for backend, url in urls.items():
        conf = folder / f"{backend}-steps" / "proxy.conf"
        conf.parent.mkdir()
        conf.write_text(f'[state]\nbackend = "{backend}"\n' + (f'redis_url = "{url}"\n' if url else ""))
        steps = asyncio.run(measure_steps(conf))
        medians = [statistics.median(took) for took in (steps.take, steps.hold, steps.settle)]
        p99 = statistics.quantiles(steps.together, n=100)[98]
        rows.append((backend, *medians, statistics.median(steps.together), p99, AIMS_MS[backend]))
    headers = ("store", "limiter ms", "hold ms", "settle ms", "together ms", "p99 ms", "aim ms")
    return table(rows, headers, ("", *[".3f"] * 5, ""))


def run(folder: Path) -> None:
    """Print the cost of the steps, on SQLite and on Redis."""
    with redis_server(folder / "redis") as server:
        print(_steps_table(folder, {"sqlite": "", "redis": server.url()}))

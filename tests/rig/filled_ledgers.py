"""The same calls, credits, refusals and changes in a ledger of SQLite and in one of PostgreSQL, by their stores."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from pydantic import SecretStr

from addon.store.money.audit.audit_chain import append
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.protocol import Settlement, WalletEntry
from addon.text.tags import recordable_tags
from policies.attempt_ends import ATTEMPT_ENDS
from policies.budgets import budget_limits, encode_scopes
from policies.exchange import KNOWN_APIS
from policies.model import Budget, Workspace
from policies.prices import Prices
from rig.ledger import make_priced_row, make_row
from rig.stores import request

ODD: tuple[str, ...] = (
    "50% of {it} :name ? ?? %s %%",
    'it\'s "quoted" \\ and \\n',
    "🎈 Ünïcode",
    "Zebra",
    "apple",
    "_under",
    "a b\tc\nd",
)
"""Names that a statement must not take for a part of itself, and that languages sort in other ways than bytes."""
WORKSPACES = ("acme", "Beta", "beta-2", *ODD[:3])
KEYS = ("ci", "Web", ODD[3])
MODELS = (("tester-large", "TESTER"), ("Tester-small", "TESTER"), (ODD[2], "other"), ("_x", "Zed"))
NOW = datetime(2026, 3, 2, 10, 20, tzinfo=UTC)
MOMENTS = (
    "2026-01-31T23:59:59.999+00:00",
    "2026-02-01T00:00:00.000+00:00",
    "2026-02-28T23:00:00.000+00:00",
    "2026-03-01T05:59:59.999+00:00",
    "2026-03-01T06:00:00.000+00:00",
    "2026-03-02T09:04:59.999+00:00",
    "2026-03-02T09:05:00.000+00:00",
    "2026-03-02T10:00:00.000+00:00",
)
INTERRUPTED: dict[str, Any] = {
    **{"status": 499, "error_code": "interrupted", "usage_source": "none", "duration_ms": 0},
    **dict.fromkeys(("first_byte_ms", "prompt_tokens", "completion_tokens", "total_tokens", "finish_reason")),
    **{"wholesale_nanousd": 0, "retail_nanousd": 0},
}


BUDGETED = Workspace(
    "acme", "Acme", "pro", (), budgets=(Budget("user", 10**9), Budget("tag:team", 10**6, "daily"))
)


def _budgets_of(row: dict[str, Any]) -> str | None:
    at = datetime.fromisoformat(row["created_at"])
    limits = budget_limits(BUDGETED, row["end_user"], row["tags"], at) if row["workspace"] == "acme" else ()
    return encode_scopes([limit.counter.scope for limit in limits]) if limits else None


def _rows(number: int) -> Iterator[dict[str, Any]]:
    random = Random(7)
    for place in range(number):
        model, provider = random.choice(MODELS)
        at = NOW - timedelta(milliseconds=random.randrange(70 * 24 * 3_600_000))
        if place % 3:
            at = NOW - timedelta(milliseconds=random.randrange(30 * 3_600_000))
        moment = random.choice(MOMENTS) if place % 4 == 0 else at.isoformat(timespec="milliseconds")
        row = make_row(f"call-{random.randrange(10**9)}-{place}")
        if place % 9 == 0:
            row = make_priced_row(
                row["id"], Prices(place % 5 + 1, 2, 3), wholesale_nanousd=25, retail_nanousd=25
            )
        row |= {"created_at": moment, "workspace": random.choice(WORKSPACES), "key_id": random.choice(KEYS)}
        row |= {"model_slug": model, "provider": provider, "requested_model": random.choice([None, *ODD])}
        row |= {
            "mode": random.choice(["payg", "payg", "byok"]),
            "end_user": random.choice([None, "ann", *ODD]),
        }
        row |= {"first_byte_ms": random.choice([None, 0, 4, 90_000]), "duration_ms": random.randrange(9_000)}
        row |= {
            "cached_tokens": random.choice([None, 0, 3]),
            "client_request_id": random.choice([None, *ODD]),
        }
        row["tags"] = random.choice([None, recordable_tags({"team": random.choice(ODD), "a b": "\0x\ud800"})])
        row["deployment"] = random.choice([None, None, "Zed/a", ODD[0]])
        row["api"] = random.choice(KNOWN_APIS)
        row |= {"stream": place % 2, "fallback": place % 5 == 0, "attempts": 2 if place % 5 == 0 else 1}
        if place % 10 == 0:  # Rows of earlier versions have none.
            row[ATTEMPT_ENDS] = [
                (number, provider, f"{provider}/{random.choice(ODD)}", "payg", None, *end, 7)
                for number, end in ((1, (502, "upstream_error")), (2, (200, None)))
            ]
        if place % 6 == 0:
            row |= {"status": random.choice([200, 400, 429, 503]), "error_code": random.choice(["a_b", *ODD])}
        row["budgets"] = _budgets_of(row)
        yield row | (INTERRUPTED if place % 17 == 1 else {})


async def fill(store: SqliteMoney | PostgresMoney, calls: int) -> None:
    """Write the same into any store. It is left with calls in flight."""
    await store.check()
    for place, workspace in enumerate((*WORKSPACES, "only-a-wallet") * 2):
        at = NOW - timedelta(days=3, minutes=place % 4)
        await store.credit(WalletEntry(f"credit-{place}", at, workspace, 10**12 + place, ODD[place % 7]))
    for place, row in enumerate(_rows(calls)):
        row["fallback"] = int(row["fallback"])
        await store.settle(Settlement(row, from_wallet=place % 2 == 0))
    for place, code in zip(range(30), ["rate_limited", "invalid_key", ODD[1]] * 10, strict=True):
        workspace = WORKSPACES[place % 5] if place % 3 else ""
        for _ in range(place % 4 + 1):
            api = KNOWN_APIS[place // 2 % 4]
            store.count_refusal(workspace, KEYS[place % 3] if workspace else "", code, api)
    for place in range(6):
        limits = budget_limits(BUDGETED, ODD[place % 2], None, NOW) if place % 3 == 0 else ()
        held = request(f"held-{place}", *limits, workspace=WORKSPACES[place % 3], key_id="ci", created_at=NOW)
        await store.hold(held)
    await store.maintain()


class StoppedClock:
    """A clock whose time of day stands still, so that counts of refusals are of the same hour."""

    def __init__(self) -> None:
        self._steps = count()

    def now(self) -> datetime:
        return NOW

    def monotonic_s(self) -> float:
        return 1.0

    def boottime_s(self) -> float:
        return 1.0


def fill_both(path: Path, url: str, calls: int = 160) -> None:
    """Write the same into a new ledger at ``path``, and into the database at ``url``.

    The numbers of rows, from which a page counts newer calls, are those of SQLite in both.
    """
    clock: Any = StoppedClock()

    async def work() -> None:
        for store in (SqliteMoney(path, clock), PostgresMoney(SecretStr(url), clock)):
            await fill(store, calls)
            # Its calls stay in flight: nothing is closed in order.
            if isinstance(store, PostgresMoney):
                await store._transactions.close()
            else:
                store._file.close()

    asyncio.run(work())
    with closing(sqlite3.connect(path)) as sqlite, psycopg.connect(url) as postgres:
        numbers = sqlite.execute("SELECT rowid, id FROM usage ORDER BY rowid").fetchall()
        written = postgres.execute("SELECT id FROM usage ORDER BY rowid").fetchall()
        assert written == [(call_id,) for _, call_id in numbers]
        postgres.cursor().executemany("UPDATE usage SET rowid = %s WHERE id = %s", numbers)
    for place in (SqlitePlace(path), PostgresPlace(SecretStr(url))):
        with place.write() as ledger:
            for number, name in enumerate(ODD * 9):
                append(ledger, _audit_line(number, name))


def _audit_line(number: int, name: str) -> dict[str, str | None]:
    action = ("edit limits", "credit", "ledger archive")[number % 3]
    words = {
        "source": "console",
        "user": "",
        "address": "127.0.0.1",
        "session": f"{number:08x}",
        "action": action,
    }
    line = {"workspace": name, "subject": None if number % 2 else name, "change": f"{name}\n-a\n+b\n"}
    return {**words, **line, "at": MOMENTS[0], "outcome": "made", "id": f"line-{number}"}

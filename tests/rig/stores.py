"""Stores of all kinds for tests: calls to use them with, and a view of their data."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import redis
from msgspec.structs import replace
from psycopg.rows import dict_row
from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, monotonic_us
from addon.store.money.engine import Asked, Statement
from addon.store.money.postgres.engine import POSTGRES
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.reports.report import ledger_counters
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.verify.verify import verify
from addon.store.paired import PairedStore
from addon.store.protocol import HoldRequest, Settlement, Store, WalletEntry
from addon.store.rates.redis.keys import CIRCUITS
from addon.store.rates.redis.rates import RedisRates
from policies.ledger_row import PRICE_SET_CONTENT
from policies.limits import Counter, Limit, LimitKind, counters_of, wallet_counter
from policies.prices import Prices
from policies.spend import CounterUse, Denial, Hold, MaxCost
from policies.token_limits import TokenRequest
from policies.token_rate import WINDOW_MS
from rig.bounds import BOUND_S
from rig.ledger import locked_by_another, make_priced_row, make_row
from rig.redis_server import NO_RETRY
from rig.redis_takes import move_buckets, move_takes, read_buckets

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
USD = 10**9  # In nano-USD.
WORKSPACE, KEY = "acme", "ci"
MAX_COST = MaxCost(prompt_nanousd=1_000, token_picousd=624_000, cap_tokens=100, is_protected=True)
"""A prompt of 1,000 nano-USD and 624 a token: at most 63,400."""

LOOSE = replace(MAX_COST, is_protected=False)
EVER = Counter("key:acme/ci", "ever")
DAY = Counter("key:acme/ci", "2026-11-21")
MONTH = Counter("workspace:acme", "2026-11")


def call_row(call_id: str, created_at: datetime = NOW, **changes: Any) -> dict[str, Any]:
    """Return the row of a call of ``WORKSPACE`` and ``KEY``, with ``changes``."""
    moment = created_at.isoformat(timespec="milliseconds")
    return make_row(call_id, created_at=moment, workspace=WORKSPACE, key_id=KEY) | changes


def request(
    call_id: str,
    *limits: Limit,
    max_cost: MaxCost = MAX_COST,
    workspace: str = WORKSPACE,
    key_id: str = KEY,
    created_at: datetime = NOW,
    attempt: int = 1,
    tokens: TokenRequest | None = None,
) -> HoldRequest:
    """Return the hold request of a call. Another ``attempt`` has another interrupted row."""
    nothing = {"status": 499, "error_code": "interrupted", "wholesale_nanousd": 0, "retail_nanousd": 0}
    uncounted = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "finish_reason"))
    row = call_row(call_id, created_at, workspace=workspace, key_id=key_id, **nothing, **uncounted)
    row |= {"usage_source": "none", "first_byte_ms": None, "duration_ms": 0}
    row |= {"attempts": attempt, "fallback": int(attempt > 1)}
    return HoldRequest(call_id, created_at, workspace, key_id, max_cost, limits, row, tokens)


def price_fields(prices: Prices) -> dict[str, Any]:
    """Return what a row has of its price set."""
    row = make_priced_row(prices=prices)
    return {name: row[name] for name in ("price_set", PRICE_SET_CONTENT)}


def priced_request(call_id: str, prices: Prices) -> HoldRequest:
    """Return the hold request of a call with these prices."""
    unpriced = request(call_id)
    return replace(unpriced, interrupted_row={**unpriced.interrupted_row, **price_fields(prices)})


def settlement(
    call_id: str, cost_nanousd: int = 1560, *, from_wallet: bool = True, **changes: Any
) -> Settlement:
    """Return the end of a call."""
    costs = {"retail_nanousd": cost_nanousd, "wholesale_nanousd": cost_nanousd}
    return Settlement(call_row(call_id) | costs | changes, from_wallet)


def credit(entry_id: str, amount_nanousd: int, workspace: str = WORKSPACE) -> WalletEntry:
    return WalletEntry(entry_id, NOW, workspace, amount_nanousd, f"reference of {entry_id}")


def wallet(workspace: str = WORKSPACE) -> Limit:
    return Limit("wallet", wallet_counter(workspace), 0)


def all_counters(
    workspace: str = WORKSPACE, key_id: str = KEY, created_at: datetime = NOW
) -> tuple[Counter, ...]:
    """Return every counter of a call, the wallet's last."""
    return (*counters_of(workspace, key_id, created_at.date()), wallet_counter(workspace))


type OpenStore = Callable[[], Awaitable[Store]]


@dataclass(frozen=True)
class StoreLocation:
    """A location where any number of stores of one kind can be opened, in any process. They share their data.

    With ``url``, the rates are in that Redis, else in the file. With ``postgres``, money is in that PostgreSQL. With
    ``client`` and ``reader``, Redis and the file are read over these connections. Without, each read opens a new one.
    """

    path: Path
    url: str | None = None
    client: redis.Redis | None = None
    reader: sqlite3.Connection | None = None
    postgres: str | None = None

    def open(self) -> Store:
        if self.url is None:
            return SqliteStore(self.path)
        money = self._open_money()
        return PairedStore(RedisRates(SecretStr(self.url), lambda: money.ledger_id, "tests"), money)

    def _open_money(self) -> SqliteMoney | PostgresMoney:
        if not self.postgres:
            return SqliteMoney(self.path)
        money = PostgresMoney(SecretStr(self.postgres))
        money._leases.quiet_s = 0
        return money

    def used(self, counter: Counter) -> CounterUse:
        """Return the value of a counter."""
        return self.used_now([counter])[0]

    def used_now(self, counters: Sequence[Counter]) -> list[CounterUse]:
        """Return the value of each of ``counters``."""
        with self._reading() as read_used:
            return [read_used(*_asked(counter)) for counter in counters]

    def holds(self) -> list[str]:
        """Return the ids of the calls that have a hold."""
        return sorted(row["id"] for row in self.select("SELECT id FROM holds"))

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the ledger's rows by id."""
        rows = self.select("SELECT * FROM usage ORDER BY rowid")
        return {row["id"]: {name: row[name] for name in row.keys() if name != "rowid"} for row in rows}  # noqa: SIM118

    def entries(self) -> dict[str, int]:
        """Return the amounts of the wallet entries by id."""
        return {
            row["id"]: row["amount_nanousd"]
            for row in self.select("SELECT id, amount_nanousd FROM wallet_entries")
        }

    def age_circuits(self, seconds: float) -> None:
        """Make the circuits older by ``seconds``, so that no clock has to change."""
        by_us = round(seconds * 1_000_000)
        if not self.url:
            with self._connected() as connection:
                connection.execute(
                    "UPDATE circuits SET began_at_us = began_at_us - ?, retry_at_us = retry_at_us - ?",
                    (by_us, by_us),
                )
            return
        with self._redis() as client:
            for name, text in client.hgetall(CIRCUITS).items():
                failures, began_us, retry_us = map(int, text.split(":"))
                client.hset(CIRCUITS, name, f"{failures}:{began_us - by_us}:{max(retry_us - by_us, 0)}")

    def now_us(self) -> int:
        """Return the time of the clock that counts tokens, in µs."""
        if not self.url:
            return monotonic_us(SYSTEM_CLOCK)
        with self._redis() as client:
            seconds, micros = client.time()
        return int(seconds) * 1_000_000 + int(micros)

    def age_takes(self, workspaces: Iterable[str], by_us: int) -> None:
        """Make the takes of tokens older by ``by_us``, so that no clock has to change."""
        if not self.url:
            with self._connected() as connection:
                connection.execute(
                    "UPDATE takes SET began_at_us = began_at_us - ?, taken_at_us = taken_at_us - ?",
                    (by_us, by_us),
                )
            return
        with self._redis() as client:
            for workspace in workspaces:
                move_takes(client, workspace, -by_us)

    def age_buckets(self, by_ms: int) -> None:
        """Make the buckets of tokens a minute older by ``by_ms``, so that no clock has to change."""
        if not self.url:
            with self._connected() as connection:
                connection.execute("UPDATE token_buckets SET at_ms = at_ms - ?", (by_ms,))
            return
        with self._redis() as client:
            move_buckets(client, -by_ms)

    def levels(self) -> dict[str, float]:
        """Return how many tokens are in each bucket of tokens a minute, by scope, as they were at its last change."""
        if not self.url:
            rows = self.select("SELECT scope, level FROM token_buckets")
            return {row["scope"]: row["level"] / WINDOW_MS for row in rows}
        with self._redis() as client:
            return {scope: bucket.level / WINDOW_MS for scope, bucket in read_buckets(client).items()}

    def circuits(self) -> list[str]:
        """Return the names of the stored circuits."""
        if not self.url:
            return [row["name"] for row in self.select("SELECT name FROM circuits ORDER BY name")]
        with self._redis() as client:
            return sorted(client.hkeys(CIRCUITS))

    async def discrepancies(self) -> list[str]:
        if self.postgres:
            with PostgresPlace(SecretStr(self.postgres)).read() as ledger:
                return verify(ledger)
        with self._connected() as connection:
            return verify(connection)

    def select(self, sql: str) -> Sequence[Any]:
        if self.postgres:
            with psycopg.connect(self.postgres, row_factory=dict_row) as ledger:
                return ledger.execute(sql.removesuffix(" ORDER BY rowid")).fetchall()  # type: ignore[arg-type]
        with self._connected() as connection:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row  # type: ignore[assignment]
            return cursor.execute(sql).fetchall()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the stores from writing counts of refusals in the block, and with SQLite from writing anything."""
        if not self.postgres:
            with locked_by_another(self.path):
                yield
            return
        with psycopg.connect(self.postgres) as ledger:
            ledger.execute("LOCK TABLE refusal_batches")
            yield
            ledger.rollback()

    def _redis(self) -> AbstractContextManager[redis.Redis]:
        if self.client:
            return nullcontext(self.client)
        assert self.url
        return redis.Redis.from_url(self.url, decode_responses=True, retry=NO_RETRY)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if self.reader:
            yield self.reader
            return
        connection = sqlite3.connect(self.path, timeout=BOUND_S, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _reading(self) -> Iterator[Callable[[Limit, str, str], CounterUse]]:
        if self.postgres:
            with psycopg.connect(self.postgres, cursor_factory=psycopg.ClientCursor) as ledger:
                yield lambda *asked: _read_postgres(ledger, *asked)
        else:
            with self._connected() as connection:
                yield ledger_counters(connection)


def _read_postgres(ledger: psycopg.Connection[Any], *asked: Any) -> CounterUse:
    sql, values = POSTGRES.read_used([Asked(*asked)])
    rows = ledger.execute(sql.replace("?", "%s"), values).fetchall()  # type: ignore[arg-type]
    return POSTGRES.find_used(rows, 1)[0]


def _asked(counter: Counter) -> tuple[Limit, str, str]:
    """Return a limit that uses ``counter``, its workspace and its key."""
    scope, _, name = counter.scope.partition(":")
    workspace, _, key_id = name.partition("/")
    kinds: dict[str, LimitKind] = {"key": "spend_cap", "workspace": "monthly_spend_cap", "wallet": "wallet"}
    return Limit(kinds[scope], counter, 0), workspace, key_id


async def takes(store: Store, workspace: str, limit_rpm: int) -> bool:
    """Take a token and return whether there was one."""
    return await store.take_token(workspace, limit_rpm) == 0


def reason_of(decided: Hold | Denial) -> str | None:
    """Return the reason of a denial, None for a hold."""
    return decided.reason if isinstance(decided, Denial) else None


async def die(store: Store) -> None:
    """End a store like a process that dies: release its lock and close its connections, and do nothing else."""
    money: object = store
    if isinstance(store, PairedStore):
        await store.rates.close()
        money = store.money
    if isinstance(money, PostgresMoney):
        aged = "UPDATE leases SET renewed_at = renewed_at - interval '2 minutes' WHERE owner = ?"
        await money._transactions.read(Statement(aged, (money._owner,)))
        await money._transactions.close()
        return
    assert isinstance(money, SqliteMoney)
    money._process.close()
    money._file.close()


def cap(kind: LimitKind, most: int, counter: Counter = EVER) -> Limit:
    return Limit(kind, counter, most)

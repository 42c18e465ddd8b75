"""Redis as commands use it: opened with the ledger's file for one command's work, or alone to read its counters."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from addon.store.money.reports.report import ReadUsed
from addon.store.money.sqlite.file import LedgerFile
from addon.store.protocol import LedgerPlace, StoreUnavailable
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import LEDGER, OUTBOXES, STATE, keys_of
from addon.store.redis.outbox import Outbox
from addon.store.redis.refusals import SharedRefusals
from addon.store.redis.state import EMPTY, OTHER, LedgerIdentity, RedisState, read_identity
from policies.limits import Limit
from policies.spend import CounterUse

COMMAND_TIMEOUT_S = 5.0
"""The timeout of one step of a command. No call waits for it."""

_SCAN = 1000
REPORT_TIMEOUT_S = 2.0
"""The timeout of one step of a report."""
_FIELDS = ("spent", "requests", "held", "in_flight")


@dataclass(frozen=True, slots=True)
class RedisSession:
    """Redis and the ledger, open for one command."""

    client: RedisClient
    file: LedgerFile
    state: RedisState
    outbox: Outbox
    refusals: SharedRefusals

    def ledger(self) -> LedgerIdentity:
        """Return the identity of the ledger. Raises ``sqlite3.Error``."""
        return read_identity(self.file.connection)

    async def claim_ledger(self, *, take_over: bool = False) -> None:
        """Make this the ledger that calls are recorded in. Raise ``StoreUnavailable`` when another one is."""
        ledger_id = self.ledger().id
        async with self.client.timeout(COMMAND_TIMEOUT_S):
            await self.client.command("SET", LEDGER, ledger_id, *([] if take_over else ["NX"]))
            if await self.client.command("GET", LEDGER) != ledger_id:
                raise StoreUnavailable(
                    f"calls are recorded in another ledger than {self.file.path}; only if that one is lost,"
                    " run `tollgate state rebuild --take-over`"
                )

    async def find_keys(self) -> dict[str, list[str]]:
        """Return all keys in Redis by workspace."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        cursor = "0"
        while True:
            async with self.client.timeout(COMMAND_TIMEOUT_S):
                cursor, names = await self.client.command(
                    "SCAN", cursor, "MATCH", "tollgate:{*}:*", "COUNT", _SCAN
                )
            for name in names:
                found[name[len("tollgate:{") : name.index("}")]].append(name)
            if int(cursor) == 0:
                # SCAN may return a key twice.
                return {workspace: list(dict.fromkeys(keys)) for workspace, keys in found.items()}


@asynccontextmanager
async def redis_session(url: SecretStr, database: Path) -> AsyncIterator[RedisSession]:
    """Open Redis and the ledger. Raises ``StoreUnavailable``."""
    with closing(LedgerFile(database)) as file:
        client = RedisClient(url)
        try:
            state = RedisState(client, file)
            yield RedisSession(client, file, state, Outbox(client, file, state), SharedRefusals(client, file))
        finally:
            await client.close()


async def drain(url: SecretStr, database: Path, *, take_over: bool = False) -> int:
    """Write the calls and credits that wait in Redis to the ledger. Return how many there were.

    This becomes the ledger that calls are recorded in; with ``take_over`` it replaces another one. It may run any
    number of times, also while gateways run. Raises ``StoreUnavailable``.
    """
    async with redis_session(url, database) as session:
        await session.claim_ledger(take_over=take_over)
        await session.refusals.move(COMMAND_TIMEOUT_S)
        return sum(
            [await session.outbox.empty(workspace, stale_s=0) for workspace in await session.find_keys()]
        )


@contextmanager
def redis_counters(
    url: SecretStr, state: str | None = None, timeout_s: float = REPORT_TIMEOUT_S
) -> Iterator[ReadUsed]:
    """Give a function that reads the counters in Redis. It and this raise ``StoreUnavailable``.

    ``state`` is the id of the state that the ledger works with, if it has one: the counters of another state, or of
    none, are refused. No event loop may run in this thread.
    """
    client = RedisClient(url)
    with asyncio.Runner() as runner:

        def ask(*words: str) -> Any:
            return runner.run(_ask(client, timeout_s, *words))

        def read_used(limit: Limit, workspace: str, key_id: str) -> CounterUse:  # noqa: ARG001  (the counter names the key)
            found = ask("HMGET", keys_of(workspace).counter(limit.counter), *_FIELDS)
            return CounterUse(*(int(value or 0) for value in found))

        try:
            found = ask("GET", STATE)
            if state is not None and found != state:
                raise StoreUnavailable(OTHER if found else EMPTY)
            yield read_used
        finally:
            runner.run(client.close())


def find_place(url: SecretStr, ledger_id: str, timeout_s: float) -> LedgerPlace:
    """Return where calls are recorded. Raises ``StoreUnavailable``. No event loop may run in this thread."""
    client = RedisClient(url)
    with asyncio.Runner() as runner:
        try:
            owner = runner.run(_ask(client, timeout_s, "GET", LEDGER))
            waiting = runner.run(_ask(client, timeout_s, "SCARD", OUTBOXES))
        finally:
            runner.run(client.close())
    return LedgerPlace(owner in (None, ledger_id), int(waiting))


async def _ask(client: RedisClient, timeout_s: float, *words: str) -> Any:
    async with client.timeout(timeout_s):
        return await client.command(*words)

"""The outboxes: settled calls wait in Redis, in their workspace's outbox, until the ledger's SQLite file has them.

An entry is written to the ledger first and deleted from Redis then. Writing it twice changes nothing. So any process
may write it, and any process may die in between. All processes read as one consumer.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from addon.store.money.pending_writes import log_lost_row
from addon.store.money.rows import encode_row
from addon.store.money.sqlite.connection import NEVER_WRITABLE
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.rows import write_call, write_entry
from addon.store.protocol import Settlement, StoreUnavailable, WalletEntry
from addon.store.redis.client import RedisClient, has_error_code
from addon.store.redis.keys import OUTBOXES, WORKSPACES, keys_of
from addon.store.redis.scripts import FORGET_ENTRIES
from addon.store.redis.state import GROUP, RedisState, make_group
from policies.utc_time import format_utc

log = logging.getLogger("tollgate.store")

type Entry = tuple[str, Mapping[str, str] | None]
"""An entry of a stream: its id and its fields."""

ROUND_TIMEOUT_S = 2.0
"""The timeout of one round. No call waits for it."""
GATHER_S = 0.01
"""How long a round waits for more entries."""
STALE_S = 10
"""The age of an entry that was read but not deleted: the process that read it has died."""

_CONSUMER = "gateway"
_BATCH = 200


def pack_call(settlement: Settlement) -> str:
    """Return a settlement in the format of an outbox entry."""
    return f"[{encode_row(settlement.row)}, {json.dumps(settlement.from_wallet)}]"


def pack_entry(entry: WalletEntry) -> str:
    """Return a wallet entry in the format of an outbox entry."""
    created_at = format_utc(entry.created_at)
    return json.dumps([entry.id, created_at, entry.workspace, entry.amount_nanousd, entry.reference])


def _write(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    for _, fields in entries:
        if fields and "booking" in fields:
            write_call(connection, Settlement(*json.loads(fields["booking"])))
        elif fields:
            entry_id, created_at, *rest = json.loads(fields["entry"])
            write_entry(connection, WalletEntry(entry_id, datetime.fromisoformat(created_at), *rest))


def _entries(found: Sequence[Any]) -> list[Entry]:
    """Return entries as Redis sends them, each with its fields by name. A deleted one has none."""
    return [
        (entry_id, dict(zip(fields[::2], fields[1::2], strict=True)) if fields else None)
        for entry_id, fields in found
    ]


class Outbox:
    """The outboxes of all workspaces, and the ledger that they are emptied into. Raises ``StoreUnavailable``."""

    def __init__(self, client: RedisClient, file: LedgerFile, state: RedisState) -> None:
        self._client = client
        self._file = file
        self._state = state
        self._scheduled: set[str] = set()
        self._unacknowledged: set[str] = set()
        self._emptying: asyncio.Task[None] | None = None
        self._is_blocked = False
        self._lock = asyncio.Lock()

    def schedule(self, workspace: str) -> None:
        """Empty a workspace's outbox soon, in the background: it has a new entry."""
        self._scheduled.add(workspace)
        if self._emptying is None or self._emptying.done():
            self._emptying = asyncio.get_running_loop().create_task(self._empty_soon())

    async def empty_scheduled(self) -> None:
        """Empty the scheduled outboxes, or announce them to the gateway that has the ledger."""
        async with self._lock:  # When this returns, no other round is half done.
            while self._scheduled:
                workspace = self._scheduled.pop()
                try:
                    await self._empty_or_announce(workspace)
                except StoreUnavailable:
                    self._scheduled.add(workspace)
                    # The answer may be lost after Redis marked entries as read. They would wait until they are stale.
                    self._unacknowledged.add(workspace)
                    raise

    async def empty_announced(self) -> None:
        """Empty the outboxes that gateways on other machines have announced."""
        async with self._client.timeout(ROUND_TIMEOUT_S):
            announced = await self._client.command("SMEMBERS", OUTBOXES)
            if announced:
                # Remove them first: an entry that comes now is announced again.
                await self._client.command("SREM", OUTBOXES, *announced)
        self._scheduled.update(announced)
        await self.empty_scheduled()

    async def empty_all(self, stale_s: float = STALE_S) -> int:
        """Empty every outbox, including entries that dead processes had read. Return how many were written."""
        async with self._client.timeout(ROUND_TIMEOUT_S):
            workspaces = await self._client.command("HKEYS", WORKSPACES)
        return sum([await self.empty(workspace, stale_s) for workspace in workspaces])

    async def empty(self, workspace: str, stale_s: float | None = None) -> int:
        """Empty one outbox, and return how many entries it had.

        With ``stale_s``, also write entries that another process read so long ago.
        """
        written = 0
        while True:
            async with self._client.timeout(ROUND_TIMEOUT_S):
                entries = await self._read(workspace, stale_s)
            if not entries:
                return written
            await self._write(entries)
            ids = [entry_id for entry_id, _ in entries]
            await self._client.run(FORGET_ENTRIES, [keys_of(workspace).outbox], GROUP, *ids)
            written += len(entries)
            if stale_s is None and len(entries) < _BATCH:
                return written  # An entry that comes now is scheduled by its call.

    async def close(self) -> None:
        """Wait for the round that is running."""
        if self._emptying:
            await self._emptying

    async def _empty_or_announce(self, workspace: str) -> None:
        if self._state.owns_ledger:
            await self.empty(workspace, 0 if workspace in self._unacknowledged else None)
            self._unacknowledged.discard(workspace)
            return
        async with self._client.timeout():
            await self._client.command("SADD", OUTBOXES, workspace)

    async def _empty_soon(self) -> None:
        await asyncio.sleep(GATHER_S)
        try:
            await self.empty_scheduled()
        except StoreUnavailable as error:
            if not self._is_blocked:
                log.warning("calls wait in Redis to be recorded: %s", error, extra={"event": "outbox waits"})
            self._is_blocked = True
        else:
            self._is_blocked = False

    async def _read(self, workspace: str, stale_s: float | None) -> Sequence[Entry]:
        outbox = keys_of(workspace).outbox
        try:
            if stale_s is not None:
                stale_ms = round(stale_s * 1000)
                stale = ("XAUTOCLAIM", outbox, GROUP, _CONSUMER, stale_ms, "0-0", "COUNT", _BATCH)
                _, claimed, *_ = await self._client.ask(*stale)
                if claimed:
                    return _entries(claimed)
            new = ("XREADGROUP", "GROUP", GROUP, _CONSUMER, "COUNT", _BATCH, "STREAMS", outbox, ">")
            found = await self._client.ask(*new)
        except StoreUnavailable as error:
            if not has_error_code(error, "NOGROUP"):
                raise
            await make_group(self._client, workspace)
            return await self._read(workspace, stale_s)
        return _entries(found[0][1]) if found else []

    async def _write(self, entries: Sequence[Entry]) -> None:
        try:
            await self._file.write(lambda connection: _write(connection, entries), ROUND_TIMEOUT_S)
        except NEVER_WRITABLE:
            for entry in entries:
                await self._write_one(entry)

    async def _write_one(self, entry: Entry) -> None:
        """Write one entry, or log it as lost. An entry of another version must not block the others."""
        try:
            await self._file.write(lambda connection: _write(connection, [entry]), ROUND_TIMEOUT_S)
        except NEVER_WRITABLE as error:
            fields = entry[1] or {}
            if "booking" in fields:
                log_lost_row(Settlement(*json.loads(fields["booking"])), str(error))
            else:
                log.error("a wallet entry is lost: %s: %s", error, fields, extra={"event": "ledger row lost"})

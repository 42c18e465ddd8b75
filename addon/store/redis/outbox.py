"""From Redis to the ledger: what was settled waits in its workspace's outbox until one SQLite file has it, once.

An entry is written first and deleted then, and writing it again changes nothing. So it does not matter which process
writes it, nor how often one dies in between. All of them read as one consumer.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from addon.store.ledger.file import NEVER_WRITABLE, LedgerFile
from addon.store.ledger.rows import iso, write_call, write_entry
from addon.store.pending_writes import log_lost_row
from addon.store.protocol import Settlement, StoreUnavailable, WalletEntry
from addon.store.redis.client import RedisClient, has_error_code
from addon.store.redis.keys import OUTBOXES, WORKSPACES, keys_of
from addon.store.redis.state import GROUP, RedisState, make_group

log = logging.getLogger("tollgate.store")

type Entry = tuple[str, Mapping[str, str] | None]
"""The id of an entry in its stream, and its fields."""

ROUND_TIMEOUT_S = 2.0
"""For one round; no call waits for it."""
GATHER_S = 0.01
"""How long a round waits for more to come."""
STALE_S = 10
"""An entry that was read so long ago, and still is there, was read by a process that died."""

_CONSUMER = "gateway"
_BATCH = 200


def pack_call(settlement: Settlement) -> str:
    """Return a booking as an outbox has it."""
    return json.dumps([dict(settlement.row), settlement.from_wallet])


def pack_entry(entry: WalletEntry) -> str:
    """Return a wallet's entry as an outbox has it."""
    return json.dumps(
        [
            entry.id,
            iso(entry.created_at),
            entry.workspace,
            entry.amount_nanousd,
            entry.reference,
        ]
    )


def _write(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    for _, fields in entries:
        if fields and "booking" in fields:
            write_call(connection, Settlement(*json.loads(fields["booking"])))
        elif fields:
            entry_id, created_at, *rest = json.loads(fields["entry"])
            write_entry(connection, WalletEntry(entry_id, datetime.fromisoformat(created_at), *rest))


class Outbox:
    """Every workspace's outbox, and the ledger that they are emptied into. Raises ``StoreUnavailable``."""

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
        """Something was put into a workspace's outbox: see to it, beside the calls."""
        self._scheduled.add(workspace)
        if self._emptying is None or self._emptying.done():
            self._emptying = asyncio.get_running_loop().create_task(self._empty_soon())

    async def empty_scheduled(self) -> None:
        """Empty what was noted, or tell the gateway that has the ledger."""
        async with self._lock:  # Who returns from here knows that nothing is half done.
            while self._scheduled:
                workspace = self._scheduled.pop()
                try:
                    await self._empty_or_announce(workspace)
                except StoreUnavailable:
                    self._scheduled.add(workspace)
                    # What Redis gave out with an answer that never came would wait for somebody to find it stale.
                    self._unacknowledged.add(workspace)
                    raise

    async def empty_announced(self) -> None:
        """Empty what gateways on other machines have told of."""
        async with self._client.timeout(ROUND_TIMEOUT_S):
            told = await self._client.command("SMEMBERS", OUTBOXES)
            if told:
                # Forgotten first: what comes in from now on is told again.
                await self._client.command("SREM", OUTBOXES, *told)
        self._scheduled.update(told)
        await self.empty_scheduled()

    async def empty_all(self, stale_s: float = STALE_S) -> int:
        """Empty every outbox, also of what dead processes had read; return how many entries were written."""
        async with self._client.timeout(ROUND_TIMEOUT_S):
            workspaces = await self._client.command("HKEYS", WORKSPACES)
        return sum([await self.empty(workspace, stale_s) for workspace in workspaces])

    async def empty(self, workspace: str, stale_s: float | None = None) -> int:
        """Empty one outbox, with ``stale_s`` also of what was read so long ago; return how many entries it had."""
        written = 0
        while True:
            async with self._client.timeout(ROUND_TIMEOUT_S):
                entries = await self._read(workspace, stale_s)
            if not entries:
                return written
            await self._write(entries)
            outbox, ids = keys_of(workspace).outbox, [entry_id for entry_id, _ in entries]
            async with self._client.timeout(ROUND_TIMEOUT_S):
                await self._client.transaction(
                    [("XACK", outbox, GROUP, *ids), ("XDEL", outbox, *ids)],
                )
            written += len(entries)

    async def close(self) -> None:
        """Wait for what is being emptied."""
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
                log.warning("calls wait in Redis to be booked: %s", error, extra={"event": "outbox waits"})
            self._is_blocked = True
        else:
            self._is_blocked = False

    async def _read(self, workspace: str, stale_s: float | None) -> Sequence[Entry]:
        outbox = keys_of(workspace).outbox
        try:
            if stale_s is not None:
                stale = (
                    "XAUTOCLAIM",
                    outbox,
                    GROUP,
                    _CONSUMER,
                    round(stale_s * 1000),
                    "0-0",
                    "COUNT",
                    _BATCH,
                )
                claimed: Sequence[Any] = await self._client.command(*stale)
                if claimed[1]:
                    return list(claimed[1])
            new = ("XREADGROUP", "GROUP", GROUP, _CONSUMER, "COUNT", _BATCH, "STREAMS", outbox, ">")
            found = await self._client.command(*new)
        except StoreUnavailable as error:
            if not has_error_code(error, "NOGROUP"):
                raise
            await make_group(self._client, workspace)
            return await self._read(workspace, stale_s)
        return list(found[0][1]) if found else []

    async def _write(self, entries: Sequence[Entry]) -> None:
        try:
            await self._file.write(lambda connection: _write(connection, entries), ROUND_TIMEOUT_S)
        except NEVER_WRITABLE:
            for entry in entries:
                await self._write_one(entry)

    async def _write_one(self, entry: Entry) -> None:
        """What another version booked may be what this one can't write: it must not hold up the others."""
        try:
            await self._file.write(lambda connection: _write(connection, [entry]), ROUND_TIMEOUT_S)
        except NEVER_WRITABLE as error:
            fields = entry[1] or {}
            if "booking" in fields:
                log_lost_row(Settlement(*json.loads(fields["booking"])), str(error))
            else:
                log.error("a wallet entry is lost: %s: %s", error, fields, extra={"event": "ledger row lost"})

"""The state in Redis, and the check that it is the one of this ledger. Any other state is refused until a rebuild.

A state has a random id. Redis has it once for everything and once for each workspace, and every script checks the id
of its workspace in the same step. The ledger remembers the id that it works with. So three cases are found:

| Redis came back | found by |
|---|---|
| empty | no id |
| with a state that someone else created | another id |
| older than a living process has seen it | its pulse, a counter that only grows |
"""

import asyncio
import logging
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from addon.store.money.archives.archives import has_archives
from addon.store.money.sqlite.file import LedgerFile
from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.scripts import Script
from addon.store.redis.client import RedisClient, has_error_code
from addon.store.redis.keys import LEDGER, PULSE, STATE, WORKSPACES, keys_of
from addon.store.redis.scripts import CHECK_STATE, REGISTER_WORKSPACE

log = logging.getLogger("tollgate.store")

GROUP = "ledger"
"""The consumer group of every outbox."""

_REBUILD = "run `tollgate state rebuild` where the ledger is"
EMPTY = f"Redis came back empty; {_REBUILD}"
OLDER = f"Redis came back with older data; {_REBUILD}"
LOST = f"Redis has lost a part of its data; {_REBUILD}"
OTHER = (
    "Redis has another state than the one that this ledger works with;"
    f" if that is a mistake, {_REBUILD}, otherwise give this gateway a new database"
)
UNCOUNTED = f"this ledger has calls or credits that Redis does not count; {_REBUILD}"
EVICTS = "Redis may delete the data of limits when its memory is full; set maxmemory-policy to noeviction"
TOO_OLD = "Redis 7 or newer is needed"


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """The id of a ledger, the id of the state in Redis that it works with (None: none yet), and whether it has rows."""

    id: str
    state: str | None
    is_empty: bool


_MISSING = ("missing", ["missing"])
"""The answer of scripts when a workspace has no state."""

_HAS_NO_ROWS = "NOT EXISTS (SELECT 1 FROM usage) AND NOT EXISTS (SELECT 1 FROM wallet_entries)"
_HAS_NO_ARCHIVES = " AND NOT EXISTS (SELECT 1 FROM archives)"


def read_identity(connection: sqlite3.Connection) -> LedgerIdentity:
    """Return the identity of the ledger. Raises ``sqlite3.Error``."""
    condition = _HAS_NO_ROWS + (_HAS_NO_ARCHIVES if has_archives(connection) else "")
    ledger_id, state, is_empty = connection.execute(
        f"SELECT id, redis_state, {condition} FROM ledger"  # noqa: S608
    ).fetchone()
    return LedgerIdentity(ledger_id, state, bool(is_empty))


def set_redis_state(connection: sqlite3.Connection, state: str) -> None:
    """Record that the ledger works with ``state`` from now on. Raises ``sqlite3.Error``."""
    connection.execute("UPDATE ledger SET redis_state = ?", (state,))


class RedisState:
    """The state that this process works with. Its methods raise ``StoreUnavailable``; the caller sets the timeout."""

    def __init__(self, client: RedisClient, file: LedgerFile) -> None:
        self._client = client
        self._file = file
        self._id: str | None = None
        self._opening = asyncio.Lock()
        self._fault: str | None = None
        self._pulse = (0, 0)
        self._checking = asyncio.Lock()
        self.was_lost = False
        """Whether a part of the state was missing, so that holds of this process may be lost. The store resets it."""
        self.owns_ledger = False
        """Whether calls are recorded in the ledger of this machine."""

    async def id(self) -> str:
        """Return the id that scripts must find in Redis."""
        if self._fault:
            raise StoreUnavailable(self._fault)
        if self._id is None:
            async with self._opening:
                self._id = self._id or await self._open()
        return self._id

    async def check(self) -> None:
        """Prove that the state is still there and that Redis can be written."""
        async with self._checking:  # Only one check at a time, so that the pulse grows between two of them.
            await self._check()

    async def _check(self) -> None:
        state = await self.id() if self._fault is None else self._id
        found, ledger, epoch, beat = await self._client.run(CHECK_STATE, [STATE, LEDGER, PULSE])
        pulse = (int(epoch), int(beat))
        self._fault = None if found == state else OTHER if found else EMPTY
        if not self._fault and pulse <= self._pulse:
            # Spending is missing. Without its id no process can mistake this state for a valid one, now or later.
            await self._client.command("DEL", STATE)
            self._fault = OLDER
        if self._fault:
            self.was_lost = True
            raise StoreUnavailable(self._fault)
        self._pulse = pulse
        self._update_ledger_owner(ledger, (await self._read()).id)

    async def run(self, script: Script, workspace: str, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script on a workspace. Create the workspace's state first if it is new.

        The answer comes within ``TIMEOUT_S``.
        """
        began_s = time.monotonic()
        if self._id is not None and self._fault is None:
            # One command, which has a timeout of its own.
            answer = await self._client.run(script, keys, self._id, *arguments)
            if answer not in _MISSING:
                return answer
        async with self._client.timeout(spent_s=time.monotonic() - began_s):
            for is_last in (False, True):
                answer = await self._client.run(script, keys, await self.id(), *arguments)
                if answer not in _MISSING:
                    return answer
                if not is_last:
                    await self.register_workspace(workspace)
        raise StoreUnavailable("the state in Redis disappeared again right after it was created")

    async def register_workspace(self, workspace: str) -> None:
        """Create the state of a workspace that has none. Raise ``StoreUnavailable`` when it had one before."""
        state = await self.id()
        keys = keys_of(workspace)
        answer = await self._client.run(REGISTER_WORKSPACE, [STATE, WORKSPACES], state, workspace)
        if answer == "lost" and await self._client.command("GET", keys.state) == state:
            return  # Another process has created it in the meantime.
        if answer != "new":
            self.was_lost = True
            raise StoreUnavailable({"empty": EMPTY, "other": OTHER}.get(answer, LOST))
        await make_group(self._client, workspace)
        await self._client.command("SET", keys.state, state, "NX")
        await self._client.command("HSET", WORKSPACES, workspace, "ready")

    async def _read(self) -> LedgerIdentity:
        return await self._file.read(lambda: read_identity(self._file.connection))

    async def _open(self) -> str:
        await self._check_server()
        ledger = await self._read()
        if ledger.state is None and not ledger.is_empty:
            raise StoreUnavailable(UNCOUNTED)
        found = await self._client.command("GET", STATE)
        if ledger.state is None:
            if found is None:
                found = await self._create_state(ledger)
            await self._file.write(lambda connection: set_redis_state(connection, found))
        elif found != ledger.state:
            raise StoreUnavailable(OTHER if found else EMPTY)
        await self._client.command("SET", LEDGER, ledger.id, "NX")
        self._update_ledger_owner(await self._client.command("GET", LEDGER), ledger.id, is_first=True)
        return str(found)

    async def _create_state(self, ledger: LedgerIdentity) -> str:
        """Create the first state. When several gateways start at once, only one succeeds."""
        log.info("Redis and the ledger are empty: a new state is created", extra={"event": "state begun"})
        await self._client.command("SET", LEDGER, ledger.id, "NX")
        await self._client.command("SET", STATE, secrets.token_hex(8), "NX")
        return str(await self._client.command("GET", STATE))

    async def _check_server(self) -> None:
        try:
            facts = await self._client.command("INFO")
        except StoreUnavailable as error:
            if has_error_code(error, "this user has no permissions"):
                return  # A hosted Redis that hides these facts.
            raise
        if int(str(facts["redis_version"]).partition(".")[0]) < 7:
            raise StoreUnavailable(TOO_OLD)
        if facts.get("maxmemory") and facts.get("maxmemory_policy") != "noeviction":
            raise StoreUnavailable(EVICTS)

    def _update_ledger_owner(self, owner: str | None, ledger_id: str, *, is_first: bool = False) -> None:
        owns = owner == ledger_id
        if not owns and (is_first or self.owns_ledger):
            log.warning(
                "calls are recorded in the ledger of another machine, not in %s",
                self._file.path,
                extra={"event": "ledger elsewhere"},
            )
        self.owns_ledger = owns


async def make_group(client: RedisClient, workspace: str) -> None:
    """Create the consumer group of a workspace's outbox if it is missing."""
    try:
        await client.command("XGROUP", "CREATE", keys_of(workspace).outbox, GROUP, "0", "MKSTREAM")
    except StoreUnavailable as error:
        if not has_error_code(error, "BUSYGROUP"):
            raise

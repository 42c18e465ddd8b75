"""Which state in Redis counts: one that is empty, older or another than this ledger's is refused until it is rebuilt.

A state has a random id, which stands in Redis once for all and once for each workspace. Every script checks its
workspace's in the same step. A ledger remembers the id that it has worked with, so a Redis that came back empty is
noticed, and one that somebody else began anew is, too. One that came back older than a living process has seen it is
known by its pulse.
"""

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from addon.store.ledger.file import LedgerFile
from addon.store.protocol import StoreUnavailable
from addon.store.redis.client import RedisClient, has_error_code
from addon.store.redis.keys import LEDGER, PULSE, STATE, WORKSPACES, keys_of
from addon.store.redis.scripts import CHECK_STATE, REGISTER_WORKSPACE, Script

log = logging.getLogger("tollgate.store")

GROUP = "ledger"
"""The consumer group of every outbox."""

_REBUILD = "run `tollgate state rebuild` where the ledger is"
EMPTY = f"Redis came back empty; {_REBUILD}"
OLDER = f"Redis came back as it was some time ago; {_REBUILD}"
LOST = f"Redis has lost a part of what it kept; {_REBUILD}"
OTHER = (
    "Redis holds another state than the one that this ledger has worked with;"
    f" if that is not meant to be, {_REBUILD}, otherwise give this gateway a new database"
)
UNCOUNTED = f"this ledger has calls or credits that Redis does not count; {_REBUILD}"
EVICTS = "Redis may delete what limits rest on when its memory is full; set maxmemory-policy to noeviction"
TOO_OLD = "Redis 7 or newer is needed"


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """What a ledger knows of itself. ``state`` is the id of the state that it works with, None while it has none."""

    id: str
    state: str | None
    is_empty: bool


_HAS_NO_ROWS = "NOT EXISTS (SELECT 1 FROM usage) AND NOT EXISTS (SELECT 1 FROM wallet_entries)"


def read_identity(connection: sqlite3.Connection) -> LedgerIdentity:
    """Return what the ledger knows of itself. Raises ``sqlite3.Error``."""
    ledger_id, state, is_empty = connection.execute(
        f"SELECT id, redis_state, {_HAS_NO_ROWS} FROM ledger"  # noqa: S608
    ).fetchone()
    return LedgerIdentity(ledger_id, state, bool(is_empty))


def set_redis_state(connection: sqlite3.Connection, state: str) -> None:
    """Let the ledger work with ``state`` from now on. Raises ``sqlite3.Error``."""
    connection.execute("UPDATE ledger SET redis_state = ?", (state,))


class RedisState:
    """The state that this process works with. Its methods raise ``StoreUnavailable`` and are called within a bound."""

    def __init__(self, client: RedisClient, file: LedgerFile) -> None:
        self._client = client
        self._file = file
        self._id: str | None = None
        self._opening = asyncio.Lock()
        self._fault: str | None = None
        self._pulse = (0, 0)
        self._checking = asyncio.Lock()
        self.was_lost = False
        """Whether something was missing, so that what this process had there may be gone; for others to reset."""
        self.owns_ledger = False
        """Whether calls are booked in the ledger of this machine."""

    async def id(self) -> str:
        """Return the id that scripts shall find."""
        if self._fault:
            raise StoreUnavailable(self._fault)
        if self._id is None:
            async with self._opening:
                self._id = self._id or await self._open()
        return self._id

    async def check(self) -> None:
        """Prove that the state is still there, and that Redis can be written."""
        async with self._checking:  # One beat after the other.
            await self._check()

    async def _check(self) -> None:
        state = await self.id() if self._fault is None else self._id
        found, ledger, epoch, beat = await self._client.run(CHECK_STATE, [STATE, LEDGER, PULSE])
        pulse = (int(epoch), int(beat))
        self._fault = None if found == state else OTHER if found else EMPTY
        if not self._fault and pulse <= self._pulse:
            # What was spent meanwhile is missing. Without its state nobody takes it for good, now or later.
            await self._client.command("DEL", STATE)
            self._fault = OLDER
        if self._fault:
            self.was_lost = True
            raise StoreUnavailable(self._fault)
        self._pulse = pulse
        self._update_ledger_owner(ledger, (await self._read()).id)

    async def run(self, script: Script, workspace: str, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script on a workspace whose state is there, or can be made."""
        for is_last in (False, True):
            answer = await self._client.run(script, keys, await self.id(), *arguments)
            if answer not in ("missing", ["missing"]):
                return answer
            if not is_last:
                await self.register_workspace(workspace)
        raise StoreUnavailable("the state in Redis comes and goes")

    async def register_workspace(self, workspace: str) -> None:
        """Make the state of a workspace that has none, if it is new."""
        state = await self.id()
        keys = keys_of(workspace)
        answer = await self._client.run(REGISTER_WORKSPACE, [STATE, WORKSPACES], state, workspace)
        if answer == "lost" and await self._client.command("GET", keys.state) == state:
            return  # Somebody else has made it since it was missed.
        if answer != "new":
            self.was_lost = True
            raise StoreUnavailable({"empty": EMPTY, "other": OTHER}.get(answer, LOST))
        await make_group(self._client, workspace)
        await self._client.command("SET", keys.state, state, "NX")
        await self._client.command("HSET", WORKSPACES, workspace, "ready")

    async def _read(self) -> LedgerIdentity:
        return await self._file.run(lambda: read_identity(self._file.connection))

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
        """Make the first state that there ever was; of several gateways that begin at once, one does."""
        log.info("Redis is empty and so is the ledger: a state is begun", extra={"event": "state begun"})
        await self._client.command("SET", LEDGER, ledger.id, "NX")
        await self._client.command("SET", STATE, secrets.token_hex(8), "NX")
        return str(await self._client.command("GET", STATE))

    async def _check_server(self) -> None:
        try:
            facts = await self._client.command("INFO")
        except StoreUnavailable as error:
            if has_error_code(error, "this user has no permissions"):
                return  # A service that does not show them.
            raise
        if int(str(facts["redis_version"]).partition(".")[0]) < 7:
            raise StoreUnavailable(TOO_OLD)
        if facts.get("maxmemory") and facts.get("maxmemory_policy") != "noeviction":
            raise StoreUnavailable(EVICTS)

    def _update_ledger_owner(self, owner: str | None, ledger_id: str, *, is_first: bool = False) -> None:
        owns = owner == ledger_id
        if not owns and (is_first or self.owns_ledger):
            log.warning(
                "calls are booked in the ledger of another machine, not in %s",
                self._file.path,
                extra={"event": "ledger elsewhere"},
            )
        self.owns_ledger = owns


async def make_group(client: RedisClient, workspace: str) -> None:
    """Make the consumer group of a workspace's outbox, if it is missing."""
    try:
        await client.command("XGROUP", "CREATE", keys_of(workspace).outbox, GROUP, "0", "MKSTREAM")
    except StoreUnavailable as error:
        if not has_error_code(error, "BUSYGROUP"):
            raise

"""``Follower``: brings this machine what the others have changed: once a second it asks the ledger for its version.

It runs in the process that watches the files. What it finds it writes to files next to the ledger's other copies, so
the settings are made of files whoever changed them, also after a restart while the ledger is away.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final

import psycopg
from pydantic import SecretStr

from addon.fleet import tables
from addon.fleet.copies import Copies
from addon.fleet.machines import Differences, Machine
from addon.fleet.tables import Version
from addon.runtime.atomic_files import write_atomically
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import describe_error
from addon.settings.fleet_keys import FleetKeys, find_file
from addon.store.money.engine import Rows, Statement
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import StoreUnavailable
from policies.fleet_files import MAX_NAMED

log = logging.getLogger("tollgate.fleet")

LOOK_S: Final = 1.0
DESCRIBE_S: Final = 10.0
"""The time between two descriptions of this machine."""
OWNERS_S: Final = 60.0
"""How soon the claims of a machine that is gone are noticed."""
_BATCH: Final = 100
"""The most texts of one round trip."""


class Follower:
    """A task that follows the ledger. ``fault`` says why it can't, or is None. It calls ``wake`` after a change."""

    def __init__(
        self, conf: ProxyConf, url: SecretStr, describe: Callable[[], Machine], wake: Callable[[], None]
    ) -> None:
        self._transactions = Transactions(url)
        self._copies = Copies(conf.paths.workspaces) if conf.paths.are_workspaces_in_ledger else None
        self._keys_file = find_file(conf.paths.database)
        self._describe, self._wake = describe, wake
        self._known: Version | None = None
        self._keys: FleetKeys | None = None
        self._claims: str | None = None
        self._described_s = self._owners_s = float("-inf")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fleet")
        self._task: asyncio.Task[None] | None = None
        self.fault: str | None = None
        self.differences = Differences(monotonic)

    @property
    def lasting_differences(self) -> Sequence[tuple[str, str]]:
        """Machine and file of the differences that are worth a report, at most ``MAX_NAMED``."""
        return self.differences.find_lasting()[:MAX_NAMED]

    @property
    def check(self) -> str:
        """The result of the check "fleet"."""
        if self.fault:
            return f"the last copies count: {self.fault}"
        found = [f"{machine}: {file} differs" for machine, file in self.differences.find_lasting()]
        more = [f"{len(found) - MAX_NAMED} more"] if len(found) > MAX_NAMED else []
        return "; ".join([*found[:MAX_NAMED], *more]) or "ok"

    def start(self) -> None:
        """Start to follow, on the running event loop."""
        self._task = asyncio.create_task(self._follow(), name="fleet")

    async def stop(self) -> None:
        """Stop, and disconnect."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._transactions.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        while True:
            try:
                await self._look(self._transactions)
            except (StoreUnavailable, OSError, psycopg.Error, ValueError) as error:
                self._note_fault(describe_error(error))
            else:
                self._note_fault(None)
            await asyncio.sleep(LOOK_S)

    def _note_fault(self, fault: str | None) -> None:
        if fault and not self.fault:
            log.warning("the ledger is not followed, the last copies of its files and keys stay: %s", fault)
        elif self.fault and not fault:
            log.info("the ledger is followed again")
        self.fault = fault

    async def _look(self, transactions: Transactions) -> None:
        now_s = asyncio.get_running_loop().time()
        must_describe = now_s - self._described_s >= DESCRIBE_S
        if must_describe:
            if now_s - self._described_s > OWNERS_S:
                self._claims = None  # One that was silent for long may have been forgotten.
            await self._publish(transactions, self._describe())
            self._described_s = now_s
        [[row]] = await transactions.read(Statement(tables.VERSION))
        version = Version(*row)
        if must_describe and self._copies:
            await self._run(self._copies.confirm, version)
        if version == self._known and now_s - self._owners_s < OWNERS_S:
            return
        if version != self._known and self._copies:
            await self._copy_files(transactions, version, self._copies)
        revoked, owners = await transactions.read(Statement(tables.REVOKED), Statement(tables.OWNERS))
        await self._run(
            self._write_keys, FleetKeys(frozenset(one for (one,) in revoked), dict(_pairs(owners)))
        )
        self._known, self._owners_s = version, now_s

    async def _copy_files(self, transactions: Transactions, version: Version, copies: Copies) -> None:
        if self._known is not None and await self._run(copies.read_state) == version:
            return  # A command or the console of this machine has made the change.
        [rows] = await transactions.read(Statement(tables.FILES))
        digests = dict(_pairs(rows))
        missing, texts = await self._run(copies.find_missing, digests), dict[str, str]()
        for first in range(0, len(missing), _BATCH):
            [rows] = await transactions.read(Statement(tables.TEXTS, (missing[first : first + _BATCH],)))
            texts |= dict(_pairs(rows))
        if self._known is None or self._known.version > version.version:
            await self._run(copies.forget_lower, version)
        await self._run(copies.write, version, digests, texts)
        if texts:
            self._wake()

    def _write_keys(self, keys: FleetKeys) -> None:
        if keys != self._keys:
            write_atomically(self._keys_file, keys.format())
            self._keys = keys

    async def _publish(self, transactions: Transactions, machine: Machine) -> None:
        """Tell the others of this machine, and which keys its files claim."""
        files = json.dumps(dict(machine.files), sort_keys=True)
        values = (machine.name, machine.version, machine.settings, machine.workers, machine.calls, files)
        statements = [Statement(tables.DESCRIBE, values)]
        claims = "[]" if self._copies else tables.encode_claims(self._find_claims(machine))
        if claims != self._claims:
            statements += [
                Statement(tables.UNCLAIM, (machine.name, claims)),
                Statement(tables.CLAIM, (machine.name, claims)),
                Statement(tables.BUMP),
            ]
        last = Statement(tables.FORGET_MACHINES), Statement(tables.MACHINES)
        *_, machines = await transactions.read(*statements, *last)
        self.differences.note(dict(_pairs(machines)))
        self._claims = claims

    def _find_claims(self, machine: Machine) -> Mapping[str, set[str]]:
        """Return the hashes that each workspace has, and those that it would have if another had not had them first."""
        owners = self._keys.owners if self._keys else {}
        return {
            name: {*hashes, *(one for one in machine.texts[name].refused if owners.get(one, name) != name)}
            for name, hashes in machine.hashes.items()
        }

    async def _run[*Values, Answer](self, work: Callable[[*Values], Answer], *values: *Values) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *values)


def _pairs(rows: Rows) -> list[tuple[Any, Any]]:
    return [(row[0], row[1]) for row in rows]

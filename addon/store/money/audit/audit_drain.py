"""The background task that writes the lines that commands could not write to the audit log themselves."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.ledger import LedgerPlace
from addon.store.protocol import StoreUnavailable

log = logging.getLogger("tollgate.store")

LOOK_S: Final = 2.0
"""The time between two looks. A look at an empty spool reads one folder."""
_TIMEOUT_S: Final = 2.0


class AuditDrain:
    """The drain of one process. Several with one ledger write each line once.

    It writes in a thread, so the event loop never waits for it.
    """

    def __init__(self, database: Path, place: LedgerPlace) -> None:
        self._spool = AuditSpool(database)
        self._place = place
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def start(self) -> None:
        """Start to write, on the running event loop."""
        self._task = asyncio.create_task(self._run(), name="audit")

    async def stop(self) -> None:
        """Stop after the current look."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Write what waits. A fault is logged once, and what waits is kept."""
        try:
            if not self._spool.is_empty():
                await asyncio.to_thread(self._spool.drain, self._place, _TIMEOUT_S)
            self._has_failed = False
        except (OSError, StoreUnavailable) as error:
            if not self._has_failed:
                log.warning("changes of commands are not in the audit log yet: %s", error)
            self._has_failed = True

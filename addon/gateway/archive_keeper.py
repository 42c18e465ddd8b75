"""``ArchiveKeeper``: archives the months that are older than ``[ledger] keep_months``, in a process of its own.

Of all processes that share a ledger, one looks at a time. Nothing is deleted that is not in a checked file. What can't
be archived stays, is an alert, and is tried again. Source: docs/retention.md.
"""

import asyncio
import logging
from asyncio.subprocess import Process
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec

from addon.alerts import events
from addon.alerts.service import Alerts
from addon.gateway.archive_order import ArchiveOrder, ArchiveReport
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.runtime.module_process import start_module
from addon.settings.code_version import find_code_version
from addon.settings.conf_schema import ProxyConf
from addon.store.backends import find_ledger, find_ledger_url
from addon.store.protocol import StoreUnavailable
from policies.retention import first_kept_month

log = logging.getLogger("tollgate.archives")

LOOK_S: Final = 3600.0
"""The time between two looks."""
ARCHIVE_S: Final = 6 * 3600.0
"""How long one run may take. What it has done by then stays done."""

_PROCESS: Final = "addon.gateway.archive_process"
_DUE: Final = "SELECT 1 FROM usage WHERE created_at < ? LIMIT 1"


class ArchiveKeeper:
    """The keeper of one gateway process. ``conf`` has ``keep_months``. The ledger exists."""

    def __init__(self, conf: ProxyConf, alerts: Alerts, clock: Clock = SYSTEM_CLOCK) -> None:
        self._conf = conf
        self._place = find_ledger(conf)
        self._lead = self._place.lead("archives")
        self._alerts = alerts
        self._clock = clock
        self._code_version = find_code_version()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archives")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to look, on the running event loop."""
        self._task = asyncio.create_task(self._run(), name="archives")

    async def stop(self) -> None:
        """Stop. A run that is killed is finished by the next one."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._place.close()  # A thread that waits for an answer ends.
        with suppress(StoreUnavailable):
            await asyncio.get_running_loop().run_in_executor(self._thread, self._lead.end)
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except (OSError, StoreUnavailable) as error:
                log.warning("old months can't be looked for: %s", error)
            except Exception:
                log.exception("old months can't be looked for")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Archive what is due, unless another process does. Raises ``StoreUnavailable``, OSError."""
        now = self._clock.now()
        before = first_kept_month(now, self._conf.ledger.keep_months)
        if not await asyncio.get_running_loop().run_in_executor(self._thread, self._is_due, before):
            return
        if reason := await self._archive(before):
            await self._alerts.add(events.not_archived(reason, now))

    def _is_due(self, before: str) -> bool:
        """Return whether this process should archive."""
        if not self._lead.take():
            return False
        with self._place.read() as ledger:
            is_due = ledger.execute(_DUE, (before,)).fetchone() is not None
        if is_due and find_code_version() != self._code_version:
            log.warning("old months are archived after a restart: the program's files have changed")
            return False
        return is_due

    async def _archive(self, before: str) -> str | None:
        """Archive, and return why that has failed. Each month is in the log once it is done."""
        process = await start_module(_PROCESS)
        try:
            async with asyncio.timeout(ARCHIVE_S):
                failure = await _read_reports(process, self._make_order(before))
        except TimeoutError:
            return f"it took longer than {ARCHIVE_S / 3600:g} hours"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return failure or (f"its process has ended with {process.returncode}" if process.returncode else None)

    def _make_order(self, before: str) -> bytes:
        conf = self._conf
        url = find_ledger_url(conf.ledger.url, conf).get_secret_value() if conf.ledger.url else ""
        order = ArchiveOrder(str(conf.paths.database), url, str(conf.paths.archives), before)
        return msgspec.json.encode(order)


async def _read_reports(process: Process, order: bytes) -> str | None:
    """Give a process its order, and read its reports until it ends. Return why it failed, if it says so."""
    failure = None
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a process without pipes")
    with suppress(ConnectionError):  # It has ended: its status says so.
        process.stdin.write(order)
        process.stdin.write_eof()
        await process.stdin.drain()
    async for line in process.stdout:
        report = msgspec.json.decode(line, type=ArchiveReport)
        if report.kind == "done":
            log.info("archived %s", report.text, extra={"event": "month archived"})
        elif report.kind == "failed":
            failure = report.text
    await process.wait()
    return failure

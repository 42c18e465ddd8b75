"""The ledger as alerts use it: in a thread of its own, for the one process of all with this ledger that leads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any, Concatenate, Final

from addon.store.money.ledger import Ledger, LedgerPlace
from addon.store.protocol import StoreUnavailable

WORK: Final = "alerts"
_TIMEOUT_S: Final = 1.0
_ANSWER_S: Final = 5.0
"""How long a step may take. PostgreSQL may be frozen."""


class LedgerThread:
    """The ledger at ``place``, which exists. All methods raise ``StoreUnavailable``."""

    def __init__(self, place: LedgerPlace) -> None:
        self.newest_row = place.newest_row
        self._place = place.kept_open()
        self._lead = self._place.lead(WORK)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="alerts")

    @property
    def is_leader(self) -> bool:
        """Whether this process finds and sends alerts for all processes with this ledger."""
        return self._lead.is_held()

    async def become_leader(self) -> bool:
        """Become the leader if there is none, or stay it. Return whether this process is it."""
        return await self._call(self._lead.take)

    async def read[**P, T](
        self, step: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``step`` on a view of the ledger, in the thread."""
        return await self._run(self._place.read, lambda ledger: step(ledger, *args, **kwargs))

    async def write[**P, T](
        self, step: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``step`` in a transaction, in the thread."""
        return await self._run(
            lambda: self._place.write(_TIMEOUT_S), lambda ledger: step(ledger, *args, **kwargs)
        )

    async def _run[T](
        self, open_ledger: Callable[[], AbstractContextManager[Any]], step: Callable[[Ledger], T]
    ) -> T:
        def run() -> T:
            with open_ledger() as ledger:
                return step(ledger)

        return await self._call(run)

    async def _call[T](self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        await asyncio.wait({future}, timeout=_ANSWER_S)
        if not future.done():
            self._place.close()  # The work then fails at once.
        return await future

    async def close(self) -> None:
        """Let another process lead."""
        with suppress(StoreUnavailable):
            await self._call(self._lead.end)
        self._place.close()
        self._thread.shutdown(wait=False)

"""What a store keeps for the gateway, whichever database stands behind it: every booked call exactly once."""

from collections.abc import Mapping
from typing import Any, Protocol


class StoreUnavailable(Exception):  # noqa: N818  (a state that callers answer to, not a fault of theirs)
    """The store can't write now. The message is one line for operators and holds no value of any row."""


class IllegalRowError(ValueError):
    """A programming error: the row breaks a rule of its table and will never be written."""


class Store(Protocol):
    """What the gateway asks of a store. Its methods belong to one event loop; every process opens a store of its own.

    Source: docs/ledger.md.
    """

    async def settle(self, row: Mapping[str, Any]) -> None:
        """Book one row of the table ``usage``, as ``Exchange.ledger_row`` returns it; an id is booked once only.

        Returns when the row is committed. Raises ``StoreUnavailable`` when it can't be written now: the store keeps
        it and writes it later, so the caller need not. Raises ``IllegalRowError`` for a row that never can be.
        """

    async def check(self) -> None:
        """Write what was kept, and prove that more can be written. Raises ``StoreUnavailable`` otherwise."""

    def close(self) -> None:
        """Write what was kept, log what can't be, and let go of the database. Closing twice is harmless."""

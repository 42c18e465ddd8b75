"""What archiving needs of a ledger beside its ``LedgerPlace``: what SQLite and PostgreSQL do in ways of their own."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from addon.store.money.ledger import Ledger, LedgerPlace


class ArchiveRefused(Exception):  # noqa: N818  (the state of a file, no fault of the program)
    """A month can't be archived now. The message is one line for operators."""


class ArchiveBusy(ArchiveRefused):
    """Another process archives the ledger right now."""


class Step(NamedTuple):
    """A step of archiving that was made, and what it did in one line. None: nothing that an operator needs to know."""

    text: str | None = None


class NamedCall(NamedTuple):
    """A call that names a user, and its month."""

    id: str
    month: str


class ArchivedLedger(Protocol):
    """A ledger whose months are archived. Its methods raise ``ArchiveRefused``, ``StoreUnavailable`` and OSError."""

    @property
    def place(self) -> LedgerPlace:
        """Where the ledger is."""

    @property
    def file_name(self) -> str:
        """The name that the names of its archives are made of, such as "tollgate.db"."""

    def alone(self) -> AbstractContextManager[None]:
        """Let no other process archive this ledger, or change its archives, in the block. Raises ``ArchiveBusy``."""

    def build_sums(self, now: datetime) -> Iterator[Step]:
        """Build the sums that no gateway has built yet."""

    def wait_for_writers(self, ledger: Ledger, month: str) -> None:
        """Let no call of a month be written until the transaction of ``ledger`` ends. Its sums must be built."""

    def remove_calls(self, file: Path, month: str) -> Iterator[Step]:
        """Remove the calls of a month, with the costs that wallets paid. Each must be equal in the file.

        Refuse calls that differ: they stay. So do calls that came later.
        """

    def empty_calls(self, calls: Sequence[NamedCall], workspace: str, user: str) -> None:
        """Empty what names a user in calls of the user, in short steps beside calls, and what the disk has of it."""

    def find_copies(self) -> Sequence[Path]:
        """Return the files beside the ledger that are copies of it."""

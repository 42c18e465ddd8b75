"""What the keeper of archives and its process tell each other: one order, and a report a line."""

from typing import Literal

from msgspec import Struct
from pydantic import SecretStr


class ArchiveOrder(Struct):
    """What to archive: the months before ``before`` of the ledger at ``url``, or in the file ``database`` without it.

    The names of the files in ``folder`` are made of that of ``database``, and audit lines wait next to it. Never log
    an order: its URL may have a password.
    """

    database: str
    url: str
    folder: str
    before: str

    def secret_url(self) -> SecretStr:
        """Return the URL."""
        return SecretStr(self.url)


class ArchiveReport(Struct):
    """What became of an order. ``text`` says which month is ``done``, or why it has ``failed``."""

    kind: Literal["done", "busy", "failed"]
    text: str = ""

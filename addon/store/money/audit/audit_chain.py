"""The chain of the audit log: each line has a hash of itself and of the line before. Source: docs/ledger.md.

Who changes, removes, inserts or moves a line must make all later hashes again. A head that was written down elsewhere
before is then no longer in the chain, and neither is it after lines were cut off.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from addon.store.money.audit.audit_schema import BEFORE_CHAIN, CHAIN_SCHEMA
from addon.store.money.ledger import Ledger

GENESIS: Final = "0" * 64
"""The hash before the first line."""

HASHED: Final = (
    *("number", "at", "source", "user", "address", "session"),
    *("action", "workspace", "subject", "change", "outcome", "id"),
)
"""The columns of a line that its hash is made of, in order."""

MAX_FAULTS: Final = 20


def hash_line(before: str, values: Sequence[Any]) -> str:
    """Return the hash of a line, in hexadecimal: SHA-256 of a JSON array, of ``before`` and the values of ``HASHED``.

    The JSON is in ASCII and without blanks.
    """
    encoded = json.dumps([before, *values], ensure_ascii=True, separators=(",", ":"))
    return sha256(encoded.encode()).hexdigest()


def name_columns(names: Sequence[str]) -> str:
    """Return columns for SQL, separated by commas. ``user`` is a word of PostgreSQL."""
    return ", ".join(f'"{name}"' if name == "user" else name for name in names)


def has_chain(ledger: Ledger) -> bool:
    """Return False for a ledger that an earlier version has used last, before a gateway has opened it."""
    sql = "SELECT 1 FROM pragma_table_info('audit') WHERE name = 'hash'"
    return ledger.execute(sql).fetchone() is not None


def append(ledger: Ledger, line: Mapping[str, Any]) -> None:
    """Write a line at the end of the chain, unless one with its ``id`` is there. ``line`` has no number.

    The caller has a transaction of ``LedgerPlace.write``, so no other process appends at the same time.
    """
    if ledger.execute("SELECT 1 FROM audit WHERE id = ?", (line["id"],)).fetchone():
        return
    (given,) = ledger.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'audit'"
    ).fetchone()
    last = ledger.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, before = last or (0, GENESIS)
    write_line(ledger, {**line, "number": max(number, given) + 1}, before)


def write_line(ledger: Ledger, line: Mapping[str, Any], before: str) -> str:
    """Write a line with its number after the line with the hash ``before``. Return its own hash."""
    values = [line[name] for name in HASHED]
    made = hash_line(before, values)
    names, marks = name_columns((*HASHED, "hash")), ", ".join("?" * (len(HASHED) + 1))
    ledger.execute(f"INSERT INTO audit ({names}) VALUES ({marks})", (*values, made))  # noqa: S608
    return made


def chain_earlier_lines(connection: sqlite3.Connection) -> None:
    """Make the table of the version before to one with a chain. The caller has a transaction."""
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'audit'").fetchone()
    for statement in (*BEFORE_CHAIN, *CHAIN_SCHEMA):
        connection.execute(statement)
    cursor = connection.execute("SELECT * FROM audit_before ORDER BY number")
    names, head = [column[0] for column in cursor.description], GENESIS
    for row in cursor.fetchall():
        head = write_line(connection, dict(zip(names, row, strict=True)) | {"user": "", "id": None}, head)
    if given is not None:
        # The numbers of lines that someone has removed stay missing.
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'audit'")
        connection.execute("INSERT INTO sqlite_sequence VALUES ('audit', ?)", given)
    connection.execute("DROP TABLE audit_before")


class Chain(NamedTuple):
    """The chain of a ledger.

    | field | is |
    |---|---|
    | ``head`` | the hash of the last line, ``GENESIS`` when there is none |
    | ``line`` | the number of the last line, 0 when there is none |
    | ``faults`` | the first ``MAX_FAULTS`` lines that do not continue the chain, one text each |
    | ``wanted_line`` | the number of the line with the wanted head, if the chain is whole up to there; else None |
    """

    head: str
    line: int
    faults: Sequence[str]
    wanted_line: int | None


def read_chain(ledger: Ledger, wanted: str | None = None) -> Chain:
    """Check the chain from its first line on, and look for a head."""
    head, last, faults = GENESIS, 0, list[str]()
    wanted_line = 0 if wanted == GENESIS else None
    if has_chain(ledger):
        sql = f"SELECT hash, {name_columns(HASHED)} FROM audit ORDER BY number"  # noqa: S608
        for found, *values in ledger.execute(sql):
            if found != hash_line(head, values):
                faults.append(f"audit: line {values[0]} does not follow from the line before it")
            head, last = found, values[0]
            if found == wanted and not faults:
                wanted_line = last
    return Chain(head, last, faults[:MAX_FAULTS], wanted_line)

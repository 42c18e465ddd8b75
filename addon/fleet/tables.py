"""The statements over the tables that machines share. Each function that writes needs ``LedgerPlace.write``."""

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from addon.edits.workspace_files import EditError, hash_content
from addon.store.money.ledger import Ledger
from policies.utc_time import format_utc

VERSION: Final = "SELECT ledger.id, fleet_version.version, mark FROM ledger CROSS JOIN fleet_version"
FILES: Final = "SELECT id, digest FROM workspace_files WHERE deleted = 0 ORDER BY id"
TEXTS: Final = "SELECT id, text FROM workspace_files WHERE deleted = 0 AND id = ANY(?)"
REVOKED: Final = "SELECT hash FROM revoked_keys"
OWNERS: Final = """
    SELECT hash, (array_agg(workspace ORDER BY since, workspace))[1] FROM (
        SELECT hash, workspace, min(claimed_at) AS since FROM key_claims LEFT JOIN machines ON name = machine
        WHERE machine = '' OR seen_at > clock_timestamp() - interval '10 minutes'
        GROUP BY hash, workspace
    ) AS claims GROUP BY hash HAVING count(*) > 1
"""
"""The first workspace of each hash that several claim. A machine that is gone claims nothing any more."""
DESCRIBE: Final = """
    INSERT INTO machines VALUES (?, clock_timestamp(), ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, version = excluded.version,
        settings = excluded.settings, workers = excluded.workers, calls = excluded.calls, files = excluded.files
"""
MACHINES: Final = "SELECT name, files FROM machines WHERE seen_at > clock_timestamp() - interval '1 minute'"
"""The files of each machine that lives."""
_SEEN: Final = """
    SELECT name, version, settings, workers, calls,
        to_char(seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"+00:00"'),
        seen_at > clock_timestamp() - interval '1 minute', files
    FROM machines ORDER BY name
"""
FORGET_MACHINES: Final = """
    WITH gone AS (DELETE FROM machines WHERE seen_at < clock_timestamp() - interval '7 days' RETURNING name)
    DELETE FROM key_claims USING gone WHERE machine = name
"""
"""Forget the machines that were not seen for a week: each pod has a name of its own."""
CLAIM: Final = """
    INSERT INTO key_claims (hash, workspace, machine)
    SELECT hash, workspace, ? FROM json_to_recordset(?::json) AS given (hash text, workspace text)
    ORDER BY hash COLLATE "C" ON CONFLICT DO NOTHING
"""
UNCLAIM: Final = """
    DELETE FROM key_claims WHERE machine = ? AND NOT EXISTS (
        SELECT 1 FROM json_to_recordset(?::json) AS given (hash text, workspace text)
        WHERE given.hash = key_claims.hash AND given.workspace = key_claims.workspace
    )
"""
BUMP: Final = "UPDATE fleet_version SET version = version + 1, mark = gen_random_uuid()::text"


class Version(NamedTuple):
    """A state of the tables. Two that are equal have the same content."""

    ledger: str
    version: int
    mark: str


class SeenMachine(NamedTuple):
    """A machine as it last described itself: within the last minute if it is alive. ``files`` are digests by name."""

    name: str
    version: str
    settings: str
    workers: int
    calls: int
    seen_at: str
    is_alive: bool
    files: Mapping[str, str]


class SharedFile(NamedTuple):
    """A workspace file in the ledger. ``version`` is that of its last change."""

    id: str
    text: str
    version: int
    changed_at: str
    changed_by: str


class FileWrite(NamedTuple):
    """A file to write where it has the content ``before`` still; None is no file."""

    id: str
    text: str | None
    before: bytes | None


def read_version(ledger: Ledger) -> Version:
    """Return the state of the tables."""
    return Version(*ledger.execute(VERSION).fetchone())


def read_digests(ledger: Ledger) -> dict[str, str]:
    """Return the digest of each workspace file."""
    return dict(ledger.execute(FILES).fetchall())


def read_texts(ledger: Ledger, ids: Collection[str]) -> dict[str, str]:
    """Return the texts of these files."""
    return dict(ledger.execute(TEXTS, (list(ids),)).fetchall())


def read_files(ledger: Ledger) -> dict[str, SharedFile]:
    """Return all workspace files by the id of the workspace."""
    sql = (
        "SELECT id, text, version, changed_at, changed_by FROM workspace_files WHERE deleted = 0 ORDER BY id"
    )
    return {row[0]: SharedFile(*row) for row in ledger.execute(sql).fetchall()}


def read_machines(ledger: Ledger) -> list[SeenMachine]:
    """Return all machines that were seen in the last week, by name."""
    found = ledger.execute(_SEEN).fetchall()
    return [SeenMachine._make([*row[:-1], json.loads(row[-1])]) for row in found]


def read_machine_files(ledger: Ledger) -> dict[str, Mapping[str, str]]:
    """Return the digests of the files of each machine that lives."""
    return {name: json.loads(files) for name, files in ledger.execute(MACHINES).fetchall()}


def write_files(ledger: Ledger, writes: Iterable[FileWrite], user: str) -> Version:
    """Write files. Raise ``EditError`` where one has changed meanwhile: then nothing may be committed."""
    ledger.execute(BUMP)
    version, now = read_version(ledger), format_utc(datetime.now(UTC))
    for one in writes:
        found = ledger.execute("SELECT digest FROM workspace_files WHERE id = ? AND deleted = 0", (one.id,))
        before = None if one.before is None else hash_content(one.before)
        if (found.fetchone() or (None,))[0] != before:
            raise find_conflict(ledger, one.id)
        text = one.text or ""
        values = (
            one.id,
            text,
            hash_content(text.encode()),
            version.version,
            now,
            user,
            int(one.text is None),
        )
        ledger.execute(_WRITE, values)
    return version


def find_conflict(ledger: Ledger, workspace: str) -> EditError:
    """Return the error of a file that someone else has changed. It says when, and who."""
    sql = "SELECT changed_at, changed_by, deleted FROM workspace_files WHERE id = ?"
    found = ledger.execute(sql, (workspace,)).fetchone()
    if found is None:
        return EditError(f"the ledger has no file of {workspace}; nothing was written, so try again")
    at, user, is_deleted = found
    verb = "removed" if is_deleted else "changed"
    return EditError(
        f"the file of {workspace} was {verb} at {at} by {user}; nothing was written, so try again"
    )


def revoke(ledger: Ledger, hashes: Iterable[str], workspace: str, key_id: str, user: str) -> None:
    """Refuse these keys on all machines."""
    now = format_utc(datetime.now(UTC))
    for one in sorted(hashes):
        ledger.execute(
            "INSERT INTO revoked_keys VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (one, workspace, key_id, now, user),
        )


def allow(ledger: Ledger, hashes: Iterable[str]) -> None:
    """Take back the revocation of these keys."""
    ledger.execute("DELETE FROM revoked_keys WHERE hash = ANY(?)", (list(hashes),))


def encode_claims(claims: Mapping[str, Iterable[str]]) -> str:
    """Return the hashes of each workspace as JSON."""
    rows = [{"hash": one, "workspace": name} for name, hashes in claims.items() for one in sorted(hashes)]
    return json.dumps(rows)


_WRITE: Final = """
    INSERT INTO workspace_files VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET text = excluded.text, digest = excluded.digest, version = excluded.version,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by, deleted = excluded.deleted
"""

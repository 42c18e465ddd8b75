"""Money that an earlier version left in Redis. One release: this file goes with the next version.

That version counted and held money in Redis, and calls waited there, in outboxes, to be recorded. At a start they are
written to the ledger, calls that were in flight become interrupted rows, and all counters are counted from the rows.
"""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from itertools import batched
from pathlib import Path
from typing import Any, Final

import redis
from pydantic import SecretStr
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from addon.runtime.folder_lock import locked
from addon.settings.redis_topology import parse_redis_topology
from addon.store.money.pending_writes import log_lost_row
from addon.store.money.refusal_counts import RefusalBatch, RefusalGroup
from addon.store.money.refusals import record_refusals
from addon.store.money.settlements import follow_rows, write_entries, write_rows
from addon.store.money.sqlite.connection import NEVER_WRITABLE, raising_unavailable
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.process_lock import find_running
from addon.store.money.sqlite.recount import count_again
from addon.store.protocol import IllegalRowError, Settlement, StoreUnavailable, WalletEntry
from addon.store.rates.redis.nodes import reason_of

log = logging.getLogger("tollgate.store")

STATE: Final = "{tollgate}:state"
LEDGER: Final = "{tollgate}:ledger"
WORKSPACES: Final = "{tollgate}:workspaces"
"""A hash of all workspaces. It is deleted last, so that a start that was cut short is repeated."""
LEASES: Final = "{tollgate}:leases"
REFUSALS: Final = "{tollgate}:refusals"
TAKEN: Final = "{tollgate}:refusals:taken"
_OTHERS: Final = (LEDGER, LEASES, REFUSALS, TAKEN, "{tollgate}:pulse", "{tollgate}:outboxes")

_TIMEOUT_S: Final = 5.0
_BATCH: Final = 500


def adopt(path: Path, url: SecretStr) -> None:
    """Move what an earlier version left in Redis into the ledger ``path``, unless nothing is there.

    Raise ``StoreUnavailable`` while that version still serves, or where another ledger has the calls.
    """
    with raising_unavailable(path), closing(LedgerFile(path)) as file:
        ledger_id, state = file.connection.execute("SELECT id, redis_state FROM ledger").fetchone()
        try:
            with closing(_connect(url, state)) as client:
                if not client.exists(WORKSPACES):
                    return
                if client.get(LEDGER) not in (None, ledger_id):
                    raise StoreUnavailable(_ELSEWHERE)
                owners = path.with_name(f"{path.name}-owners")
                owners.mkdir(mode=0o700, parents=True, exist_ok=True)
                with locked(owners):  # No process of this version starts to serve in the meantime.
                    _move(client, file, owners, is_first=state is not None)
        except (RedisError, OSError) as error:
            if state is not None:
                raise StoreUnavailable(f"Redis: {reason_of(error)}") from error


def refuse(url: SecretStr) -> None:
    """Raise ``StoreUnavailable`` when an earlier version left money in Redis, and the ledger is in PostgreSQL."""
    try:
        with closing(_connect(url, None)) as client:
            if client.exists(WORKSPACES):
                raise StoreUnavailable(_NOT_HERE)
    except (RedisError, OSError):
        return  # The rates tell that Redis is away.


def _connect(
    url: SecretStr, state: str | None
) -> Any:  # The types of its commands are those of texts and bytes.
    """Return a client of the server at ``url``. An earlier version knew no Sentinels and no clusters."""
    if parse_redis_topology(url).kind != "alone":
        if state is None:
            raise RedisError("an earlier version was never here")
        raise StoreUnavailable(
            "calls of an earlier version may wait in Redis: start once with the URL of the server that it used"
        )
    try:
        return redis.Redis.from_url(
            url.get_secret_value(),
            decode_responses=True,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        # The message may contain a part of the URL.
        raise StoreUnavailable("the URL of Redis can't be understood") from None


def _move(client: Any, file: LedgerFile, owners: Path, *, is_first: bool) -> None:
    if is_first and (running := find_running(owners)):
        processes = ", ".join(sorted(owner.partition("-")[0] for owner in running))
        raise StoreUnavailable(f"{_RUNNING}, in process {processes}: stop it first")
    workspaces = list(client.hkeys(WORKSPACES))
    _require_no_leases(client, workspaces, owners)
    # From now on, a gateway of that version can change nothing.
    client.delete(STATE, *(_key(workspace, "state") for workspace in workspaces))
    [(calls, interrupted)] = file.transact(lambda ledger: _write_all(client, ledger, workspaces))
    old = [
        key
        for key in client.scan_iter("tollgate:{*}:*", count=_BATCH)
        if not key.endswith("}:tokens")  # These are rates of this version.
    ]
    for keys in batched([*old, *_OTHERS], _BATCH):
        client.delete(*keys)
    client.delete(WORKSPACES)
    log.warning(
        "the ledger has the money that was in Redis: %d calls and credits, %d interrupted calls",
        *(calls, interrupted),
        extra={"event": "state moved"},
    )


def _require_no_leases(client: Any, workspaces: Sequence[str], owners: Path) -> None:
    """Raise ``StoreUnavailable`` while a gateway of another machine may have calls in flight."""
    machine_file = owners / ".machine"
    here = machine_file.read_text(encoding="ascii") if machine_file.exists() else ""
    seconds, _ = client.time()
    for workspace in workspaces:
        for owner, _ in _holds(client, workspace):
            end_us = client.zscore(LEASES, f"{owner} {workspace}") or 0.0
            if owner.partition("/")[0] != here and end_us > seconds * 1_000_000:
                raise StoreUnavailable(
                    f"{_RUNNING} on another machine, or did so a minute ago: stop it first"
                )


def _write_all(client: Any, ledger: sqlite3.Connection, workspaces: Sequence[str]) -> tuple[int, int]:
    """Write everything, and count all counters again. Each part may have been written before."""
    calls = interrupted = 0
    for workspace in workspaces:
        for fields in _outbox(client, workspace):
            calls += _write(ledger, fields)
        for _, row in _holds(client, workspace):
            interrupted += _write(ledger, {"booking": f"[{row}, false]"})
    _write_refusals(client, ledger)
    count_again(ledger)
    return calls, interrupted


def _outbox(client: Any, workspace: str) -> Iterator[dict[str, str]]:
    """Return the entries of an outbox, also those that a process has read and not written."""
    after = "-"
    while found := client.xrange(_key(workspace, "outbox"), after, count=_BATCH):
        yield from (fields for _, fields in found)
        after = f"({found[-1][0]}"


def _holds(client: Any, workspace: str) -> Iterator[tuple[str, str]]:
    """Return the owner and the interrupted row of each call in flight."""
    for record in client.hvals(_key(workspace, "holds")):
        _, _, owner, row = record.split(":", 3)
        yield owner, row


def _write(ledger: sqlite3.Connection, fields: dict[str, str]) -> bool:
    """Write one call or entry, or log it as lost: it must not block the others."""
    ledger.execute("SAVEPOINT one")
    try:
        _write_one(ledger, fields)
    except (IllegalRowError, *NEVER_WRITABLE, OverflowError, UnicodeEncodeError) as error:
        ledger.execute("ROLLBACK TO one")
        if "booking" in fields:
            log_lost_row(Settlement(*json.loads(fields["booking"])), str(error))
        else:
            log.error("a wallet entry is lost: %s: %s", error, fields, extra={"event": "ledger row lost"})
        return False
    finally:
        ledger.execute("RELEASE one")
    return True


def _write_one(ledger: sqlite3.Connection, fields: dict[str, str]) -> None:
    if "booking" in fields:
        written = run(ledger, write_rows([Settlement(*json.loads(fields["booking"]))], SQLITE))
        for one in follow_rows(written, SQLITE):
            ledger.execute(*one)
    else:
        entry_id, created_at, *rest = json.loads(fields["entry"])
        entry = WalletEntry(entry_id, datetime.fromisoformat(created_at), *rest)
        run(ledger, write_entries([entry], SQLITE))


def _write_refusals(client: Any, ledger: sqlite3.Connection) -> None:
    taken: dict[str, str] = client.hgetall(TAKEN)
    waiting: dict[str, str] = client.hgetall(REFUSALS)
    digest = hashlib.sha256(json.dumps(sorted(waiting.items())).encode()).hexdigest()
    for batch_id, counts in ((taken.pop("id", ""), taken), (digest, waiting)):
        groups = {RefusalGroup(*json.loads(group)): int(count) for group, count in counts.items()}
        if groups:
            run(ledger, record_refusals([RefusalBatch(batch_id, groups)], SQLITE))


def _key(workspace: str, name: str) -> str:
    return f"tollgate:{{{workspace}}}:{name}"


_RUNNING: Final = "a gateway of the version that kept money in Redis still serves"
_ELSEWHERE: Final = (
    "Redis has calls for another ledger: start this version first where that ledger is;"
    " gateways on several machines need one ledger: give each the same [ledger] url"
)
_NOT_HERE: Final = (
    "Redis has calls for a ledger in SQLite: start this version once without [ledger] url where that ledger is,"
    " then copy it with `tollgate ledger copy`"
)

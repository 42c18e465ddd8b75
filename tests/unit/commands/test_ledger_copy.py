"""``tollgate ledger copy``: from SQLite into PostgreSQL and back, checked on both sides."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import Result
from rig.archives import make_ledger
from rig.ledger import second_connection
from rig.ledger_commands import INVOICE, conf_in, live, path_of, run, use
from rig.postgres_server import PostgresServer

from addon.store.money.copying.source import BATCH_ROWS, order_distribution, read_batches
from addon.store.money.copying.tables import COPIED
from addon.store.money.ledger import Ledger
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.sqlite.place import SqlitePlace

ODD = "a NUL \0, a tab \t, a backslash \\N, a ' and “quotes” 😀"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A ledger with calls of four months, two of them archived, a wallet, a hold, refusals and odd texts."""
    made = conf_in(tmp_path / "one")
    make_ledger(path_of(made))
    (tmp_path / "archive").mkdir()
    assert run(made, "archive", "--before", "2024-02", str(tmp_path / "archive")).exit_code == 0
    use(made, lambda store: live(store, datetime(2024, 2, 29, 23, 59, tzinfo=UTC)))
    with second_connection(path_of(made)) as connection:
        connection.execute(
            "UPDATE usage SET end_user = ?, client_request_id = ? WHERE id = 'call-1'", (ODD, "c")
        )
        connection.execute(
            "INSERT INTO refusals (hour, workspace, key_id, code, count)"
            " VALUES ('2024-02-29T23', 'acme', 'ci', 'payment_required', 7)"
        )
        connection.execute("INSERT INTO alert_marks VALUES ('month acme', '80')")
    return made


def copy(conf: Path, *arguments: str) -> Result:
    return run(conf, "copy", *arguments)


def read_all(ledger: Ledger) -> Mapping[str, Sequence[Sequence[Any]]]:
    """Return the rows of all copied tables, and the ledger's id."""
    columns = {table.name: _columns(ledger, table.name) for table in COPIED}
    rows = {
        table.name: [
            tuple(row) for batch in read_batches(ledger, table, columns[table.name]) for row in batch
        ]
        for table in COPIED
    }
    return {**rows, "id": ledger.execute("SELECT id FROM ledger").fetchall()}


def _columns(ledger: Ledger, table: str) -> list[str]:
    found = ledger.execute(f"SELECT * FROM {table} LIMIT 0").description
    return sorted(column[0] for column in found if column[0] != "rowid")


def read_file(path: Path) -> Mapping[str, Sequence[Sequence[Any]]]:
    with SqlitePlace(path).read() as ledger:
        ledger.create_function("buckets_text", 1, order_distribution)
        return read_all(ledger)


def test_a_ledger_goes_to_postgresql_and_back(conf: Path, postgres_url: str, tmp_path: Path) -> None:
    before = read_file(path_of(conf))
    there = copy(conf, "--to", postgres_url)
    assert (there.exit_code, there.stderr) == (0, "")
    assert "both sides have the same sums; verify found no discrepancies in both" in there.stdout
    with PostgresPlace.of_text(postgres_url).read() as ledger:
        copied = read_all(ledger)
    as_text = {name: [tuple(map(_without_nul, row)) for row in rows] for name, rows in before.items()}
    assert copied == as_text
    assert len(copied["usage"]) > 10
    assert all(
        copied[table.name] for table in COPIED if table.name not in {"alerts", "audit_intents", "late_calls"}
    )

    conf.write_text(f'{conf.read_text()}\n[state]\nbackend = "redis"\n\n[ledger]\nurl = "{postgres_url}"\n')
    back = copy(conf, "--to", str(tmp_path / "back.db"))
    assert (back.exit_code, back.stderr) == (0, "")
    assert read_file(tmp_path / "back.db") == copied
    with second_connection(tmp_path / "back.db") as connection:
        found = connection.execute("SELECT count(*) FROM client_requests WHERE id = 'call-1'").fetchone()
        assert found[0] == 1


def _without_nul(value: Any) -> Any:
    return value.replace("\0", "") if isinstance(value, str) else value


def test_the_rows_of_a_sum_are_read_once_however_many_they_are(postgres_ledger_url: str) -> None:
    [hours] = (table for table in COPIED if table.name == "key_hours")
    with psycopg.connect(postgres_ledger_url) as connection:
        made = connection.execute(
            """
            INSERT INTO key_hours_merged
            SELECT '2024-02-29T23', 'acme', 'key ' || number, 1, 0, 0, 0, 0, 0, 0 FROM generate_series(1, %s) AS number
            """,
            (4 * BATCH_ROWS + 1,),
        ).rowcount
    with PostgresPlace.of_text(postgres_ledger_url).read() as ledger:
        batches = list(read_batches(ledger, hours, ["hour", "workspace", "key_id", "calls"]))
        read = ledger.execute(
            "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
            " WHERE relname = 'key_hours_merged'"
        ).fetchone()[0]
    assert [*map(len, batches)] == [BATCH_ROWS] * 4 + [1]
    # The view reads them for itself, and may look among them for sums that came later.
    assert made <= read <= 2 * made


def test_a_gateway_goes_on_with_the_copy(conf: Path, postgres_url: str, redis_url: str) -> None:
    assert copy(conf, "--to", postgres_url).exit_code == 0
    state = f'[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n'
    conf.write_text(f'{conf.read_text()}\n{state}\n[ledger]\nurl = "{postgres_url}"\n')

    async def spend(store: Any) -> None:
        assert not await store.credit(INVOICE)  # It was entered before the copy.
        await live(store, datetime(2024, 2, 29, 23, 59, tzinfo=UTC))  # As were its calls.

    use(conf, spend)
    with psycopg.connect(postgres_url) as connection:
        calls = connection.execute("SELECT count(*) FROM usage WHERE id IN ('call-1', 'call-2')").fetchone()
    assert calls is not None
    assert calls[0] == 2


def test_what_a_fleet_shares_goes_into_another_database_and_is_named_for_a_file(
    conf: Path, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    assert copy(conf, "--to", postgres_url).exit_code == 0
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO revoked_keys VALUES (repeat('a', 64), 'acme', 'ci', 'now', 'me')")
        connection.execute("INSERT INTO workspace_files VALUES ('acme', 'x', 'y', 1, 'now', 'me', 0)")
        connection.execute("INSERT INTO key_claims VALUES (repeat('a', 64), 'acme', 'one')")
    conf.write_text(f'{conf.read_text()}\n[state]\nbackend = "redis"\n\n[ledger]\nurl = "{postgres_url}"\n')
    into_file = copy(conf, "--to", str(tmp_path / "back.db"), "--rehearse")
    assert into_file.exit_code == 0
    assert [line for line in into_file.stdout.splitlines() if line.startswith("not copied")] == [
        "not copied: the file of acme must say active = false of the key ci: it is revoked here",
        "not copied: the file of acme is only here: tollgate workspaces pull DIR",
    ]
    name = postgres_server.create_database()
    other = postgres_server.url_of(name)
    done = copy(conf, "--to", other)
    assert (done.exit_code, "not copied" in done.stdout) == (0, False)
    for table in ("revoked_keys", "workspace_files", "key_claims"):
        sql = f"SELECT * FROM {table}"
        with psycopg.connect(postgres_url) as here, psycopg.connect(other) as there:
            assert here.execute(sql).fetchall() == there.execute(sql).fetchall() != []
    postgres_server.drop_database(name)


def test_a_rehearsal_keeps_nothing(conf: Path, postgres_url: str, tmp_path: Path) -> None:
    for target in (postgres_url, str(tmp_path / "new.db")):
        for _ in range(2):
            done = copy(conf, "--to", target, "--rehearse")
            assert (done.exit_code, "rehearsal: nothing was kept" in done.stdout) == (0, True)
    assert not list(tmp_path.glob("new.db*"))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regclass('usage')").fetchone() == (None,)


def test_a_target_that_is_not_empty_is_refused(conf: Path, postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "there.db").write_bytes(b"mine")
    assert copy(conf, "--to", postgres_url).exit_code == 0
    for target, message in (
        (str(tmp_path / "there.db"), "exists already; a ledger is copied into a new file"),
        (postgres_url, "has a ledger already; a ledger is copied into an empty database"),
    ):
        refused = copy(conf, "--to", target)
        assert (refused.exit_code, message in refused.stderr) == (1, True)
    assert (tmp_path / "there.db").read_bytes() == b"mine"


def test_a_ledger_in_use_is_only_rehearsed(conf: Path, postgres_url: str) -> None:
    async def try_it(_: Any) -> None:
        refused = copy(conf, "--to", postgres_url)
        assert (
            refused.exit_code,
            "gateways use it (processes: 1); stop them first, or --rehearse" in refused.stderr,
        ) == (
            1,
            True,
        )
        assert copy(conf, "--to", postgres_url, "--rehearse").exit_code == 0

    use(conf, try_it)


def test_a_copy_with_a_fault_shows_it(conf: Path, postgres_url: str) -> None:
    with second_connection(path_of(conf)) as connection:
        connection.execute("UPDATE spend SET spent_nanousd = spent_nanousd + 1 WHERE scope = 'key:acme/ci'")
    done = copy(conf, "--to", postgres_url, "--rehearse")
    assert done.exit_code == 1
    assert "verify found no discrepancies" not in done.stdout
    assert "key:acme/ci" in done.stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("env:NO_SUCH_VARIABLE", "is not set"),
        ("postgresql://user:obviously-fake@127.0.0.1:1/t", "127.0.0.1:1/t"),
    ],
)
def test_a_target_that_can_not_be_reached_is_named_without_its_password(
    conf: Path, target: str, message: str
) -> None:
    refused = copy(conf, "--to", target)
    assert refused.exit_code in {1, 2}
    assert message in refused.stderr
    assert "obviously-fake" not in refused.stderr


def test_without_a_ledger_there_is_nothing_to_copy(tmp_path: Path) -> None:
    refused = copy(conf_in(tmp_path / "one"), "--to", str(tmp_path / "new.db"))
    assert (refused.exit_code, "there is no ledger" in refused.stderr) == (1, True)

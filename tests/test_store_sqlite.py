"""The ledger in a real SQLite file: what is booked, what is refused, and the file itself."""

import asyncio
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig.ledger import booked, booked_ids, make_row, second_connection

from addon.store import IllegalRowError, Store, StoreUnavailable
from addon.store.migrations import LARGEST, STEPS
from addon.store.sqlite import SqliteStore


async def test_a_row_is_booked_as_the_exchange_made_it(store: Store, ledger_path: Path) -> None:
    row = make_row()
    await store.settle(row)
    assert booked(ledger_path) == [row]


def test_the_table_has_the_columns_of_the_exchange_in_its_order(store: Store, ledger_path: Path) -> None:
    with second_connection(ledger_path) as reader:
        columns = [column["name"] for column in reader.execute("PRAGMA table_info(usage)")]
    assert columns == list(make_row())


async def test_settling_an_id_again_changes_nothing(store: Store, ledger_path: Path) -> None:
    await store.settle(make_row())
    await store.settle(make_row(retail_nanousd=9, status=500))
    assert booked(ledger_path) == [make_row()]


async def test_everything_that_may_be_unknown_is_booked_as_null(store: Store, ledger_path: Path) -> None:
    unknown = dict.fromkeys(
        [
            "requested_model",
            "error_code",
            "finish_reason",
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "first_byte_ms",
            "end_user",
        ]
    )
    await store.settle(make_row(**unknown))
    assert booked(ledger_path) == [make_row(**unknown)]


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"id": None},
        {"created_at": None},
        {"created_at": "2026-01-31"},
        {"created_at": "2026-01-31T12:00:00.000+01:00"},
        {"workspace": None},
        {"key_id": None},
        {"model_slug": None},
        {"provider": None},
        {"upstream_model_id": None},
        {"mode": "free"},
        {"mode": None},
        {"fallback": 2},
        {"fallback": 1, "attempts": 1},
        {"attempts": 0},
        {"stream": -1},
        {"status": None},
        {"status": 0},
        {"status": 600},
        {"status": "ok"},
        {"usage_source": "guessed"},
        {"usage_source": "none"},
        {"prompt_tokens": -1},
        {"completion_tokens": "many"},
        {"total_tokens": 0.5},
        {"cached_tokens": -1},
        {"reasoning_tokens": -1},
        {"wholesale_nanousd": -1},
        {"retail_nanousd": -1},
        {"retail_nanousd": None},
        {"first_byte_ms": -1},
        {"duration_ms": None},
        {"duration_ms": -1},
        {"finish_reason": ["stop"]},
    ],
    ids=str,
)
async def test_an_illegal_row_is_refused_and_the_next_one_is_booked(
    changes: dict[str, Any], store: Store, ledger_path: Path
) -> None:
    with pytest.raises(IllegalRowError):
        await store.settle(make_row() | changes)
    await store.settle(make_row("next"))
    assert booked_ids(ledger_path) == ["next"]


async def test_a_row_that_lacks_a_column_is_refused(store: Store, ledger_path: Path) -> None:
    row = make_row()
    del row["status"]
    with pytest.raises(IllegalRowError, match="status"):
        await store.settle(row)
    assert booked(ledger_path) == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"end_user": "a\ud800b"}, {"end_user": "a?b"}),
        ({"requested_model": "\udfff"}, {"requested_model": "?"}),
        ({"finish_reason": "a\0b"}, {"finish_reason": "a\0b"}),
        ({"prompt_tokens": 2**63}, {"prompt_tokens": LARGEST}),
        ({"retail_nanousd": LARGEST + 1}, {"retail_nanousd": LARGEST}),
        (
            {"completion_tokens": 10**400, "end_user": "\ud800"},
            {"completion_tokens": LARGEST, "end_user": "?"},
        ),
    ],
    ids=["surrogate", "surrogate alone", "NUL", "65 bits", "too dear", "both"],
)
async def test_no_text_of_a_client_and_no_count_of_a_provider_keeps_a_call_out_of_the_ledger(
    sent: dict[str, Any], kept: dict[str, Any], store: Store, ledger_path: Path
) -> None:
    await store.settle(make_row(**sent))
    assert booked(ledger_path) == [make_row(**kept)]


async def test_two_stores_on_one_file_lose_nothing_and_book_a_shared_id_once(ledger_path: Path) -> None:
    with closing(SqliteStore(ledger_path)) as one, closing(SqliteStore(ledger_path)) as other:
        for number in range(100):
            await one.settle(make_row(f"one-{number}"))
            await other.settle(make_row(f"other-{number}"))
            await one.settle(make_row(f"both-{number}"))
            await other.settle(make_row(f"both-{number}"))
    ids = booked_ids(ledger_path)
    assert len(ids) == len(set(ids)) == 300


def test_the_ledger_is_readable_by_its_owner_only(store: Store, ledger_path: Path) -> None:
    asyncio.run(store.settle(make_row()))
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in ledger_path.parent.iterdir()}
    assert modes == {"tollgate.db": 0o600, "tollgate.db-wal": 0o600, "tollgate.db-shm": 0o600}
    assert stat.S_IMODE(ledger_path.parent.stat().st_mode) == 0o700


def test_a_mode_that_the_operator_chose_stays(ledger_path: Path) -> None:
    SqliteStore(ledger_path).close()
    ledger_path.chmod(0o640)
    SqliteStore(ledger_path).close()
    assert stat.S_IMODE(ledger_path.stat().st_mode) == 0o640


def test_opening_again_finds_the_rows_and_takes_no_step_twice(ledger_path: Path) -> None:
    ledger_path.parent.mkdir()
    ledger_path.touch()
    for row_id in ("first", "second"):
        with closing(SqliteStore(ledger_path)) as store:
            asyncio.run(store.settle(make_row(row_id)))
    assert booked_ids(ledger_path) == ["first", "second"]
    with second_connection(ledger_path) as reader:
        taken = [row["name"] for row in reader.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        assert taken == [step.__name__ for step in STEPS]
        assert reader.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_a_ledger_of_a_newer_version_is_not_opened(ledger_path: Path) -> None:
    SqliteStore(ledger_path).close()
    with second_connection(ledger_path) as other:
        other.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('tollgate', 'm9999', '')"
        )
    with pytest.raises(StoreUnavailable, match=r"newer version changed it \(m9999\)"):
        SqliteStore(ledger_path)


@pytest.mark.parametrize("broken", ["text", "folder", "no folder"])
def test_what_is_no_database_is_not_opened_and_the_error_names_it(broken: str, ledger_path: Path) -> None:
    if broken == "no folder":
        ledger_path.parent.write_text("a file")
    else:
        ledger_path.parent.mkdir()
        ledger_path.mkdir() if broken == "folder" else ledger_path.write_text("not a database " * 100)
    with pytest.raises(StoreUnavailable, match=r"tollgate\.db: can't be opened: \w+"):
        SqliteStore(ledger_path)

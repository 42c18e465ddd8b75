"""The ledger in a real SQLite file: what is booked, what is refused, and the file itself."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rig.ledger import booked, booked_ids, make_row, second_connection
from rig.stores import Place, die, request, settlement, takes
from sqlite_utils import Database, Migrations

from addon.store.ledger.migrations import LARGEST, STEPS, m0006_passed_over
from addon.store.ledger.verify import verify
from addon.store.protocol import IllegalRowError, Settlement, Store, StoreUnavailable
from addon.store.sqlite import transactions
from addon.store.sqlite.store import SqliteStore


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    """The store on a new ledger."""
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()


def ended(row_id: str = "call-0", **changes: Any) -> Settlement:
    return Settlement(make_row(row_id, **changes), from_wallet=False)


async def test_a_row_is_booked_as_the_exchange_made_it(store: Store, ledger_path: Path) -> None:
    row = make_row()
    await store.settle(Settlement(row, from_wallet=False))
    assert booked(ledger_path) == [row]


def test_the_table_has_the_columns_of_the_exchange_in_its_order(store: Store, ledger_path: Path) -> None:
    with second_connection(ledger_path) as reader:
        columns = [column["name"] for column in reader.execute("PRAGMA table_info(usage)")]
    assert columns == list(make_row())


async def test_settling_an_id_again_changes_nothing(store: Store, ledger_path: Path) -> None:
    await store.settle(ended())
    await store.settle(ended(retail_nanousd=9, status=500))
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
    await store.settle(ended(**unknown))
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
        await store.settle(Settlement(make_row() | changes, from_wallet=False))
    await store.settle(ended("next"))
    assert booked_ids(ledger_path) == ["next"]


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
    await store.settle(ended(**sent))
    assert booked(ledger_path) == [make_row(**kept)]


async def test_the_ledger_is_readable_by_its_owner_only(store: Store, ledger_path: Path) -> None:
    await store.settle(ended())
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in ledger_path.parent.iterdir()}
    owners = {"tollgate.db-owners": 0o700}
    assert modes == {"tollgate.db": 0o600, "tollgate.db-wal": 0o600, "tollgate.db-shm": 0o600} | owners
    assert stat.S_IMODE(ledger_path.parent.stat().st_mode) == 0o700


def open_settle_and_close(ledger_path: Path, *row_ids: str) -> None:
    async def work() -> None:
        opened = SqliteStore(ledger_path)
        for row_id in row_ids:
            await opened.settle(ended(row_id))
        await opened.close()

    asyncio.run(work())


def test_a_mode_that_the_operator_chose_stays(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path)
    ledger_path.chmod(0o640)
    open_settle_and_close(ledger_path)
    assert stat.S_IMODE(ledger_path.stat().st_mode) == 0o640


def test_opening_again_finds_the_rows_and_takes_no_step_twice(ledger_path: Path) -> None:
    ledger_path.parent.mkdir()
    ledger_path.touch()
    for row_id in ("first", "second"):
        open_settle_and_close(ledger_path, row_id)
    assert booked_ids(ledger_path) == ["first", "second"]
    with second_connection(ledger_path) as reader:
        taken = [row["name"] for row in reader.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        assert taken == [step.__name__ for step in STEPS]
        assert reader.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


async def test_a_ledger_that_knew_no_passed_over_provider_keeps_its_rows_and_takes_such_a_row(
    ledger_path: Path,
) -> None:
    ledger_path.parent.mkdir()
    earlier = Migrations("tollgate")
    for step in STEPS[: STEPS.index(m0006_passed_over)]:
        earlier()(step)
    with second_connection(ledger_path) as before:
        earlier.apply(Database(before))
        row = make_row("old") | {"cache_write_tokens": 7}
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        before.execute(f"INSERT INTO usage ({columns}) VALUES ({marks})", tuple(row.values()))
        indexes = before.execute(_INDEXES).fetchall()
        before.commit()
    store = SqliteStore(ledger_path)
    await store.settle(Settlement(make_row("new") | {"fallback": 1, "attempts": 1}, from_wallet=False))
    await store.close()
    kept, new = booked(ledger_path)
    assert kept == row
    assert (new["id"], new["fallback"], new["attempts"]) == ("new", 1, 1)
    with second_connection(ledger_path) as after:
        assert [tuple(index) for index in after.execute(_INDEXES)] == [tuple(index) for index in indexes]


_INDEXES = "SELECT name, sql FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index' ORDER BY name"


async def test_a_ledger_of_a_newer_version_is_not_opened(ledger_path: Path) -> None:
    await SqliteStore(ledger_path).close()
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


# Holds and the limiter, where the file can be looked into.


async def test_a_hold_of_an_owner_that_is_nowhere_ends(store: Store, ledger_path: Path) -> None:
    await store.hold(request("a"))
    with second_connection(ledger_path) as other:
        other.execute("UPDATE holds SET owner = 'elsewhere'")
    await store.maintain()
    assert Place(ledger_path).holds() == []
    assert booked(ledger_path)[0]["error_code"] == "interrupted"


async def test_a_hold_of_a_living_owner_stays_however_old_it_is(store: Store, ledger_path: Path) -> None:
    await store.hold(request("a"))
    with second_connection(ledger_path) as other:
        other.execute("UPDATE holds SET expires_at = '2020'")
    neighbour = SqliteStore(ledger_path)
    await neighbour.maintain()
    await neighbour.close()
    assert Place(ledger_path).holds() == ["a"]


def pass_time(ledger_path: Path, seconds: int) -> None:
    with second_connection(ledger_path) as other:
        other.execute(
            "UPDATE takes SET taken_at_us = taken_at_us - ?, began_at_us = began_at_us - ?",
            (seconds * 10**6, seconds * 10**6),
        )


async def test_a_token_comes_back_a_minute_after_it_was_taken(store: Store, ledger_path: Path) -> None:
    assert await takes(store, "acme", 2)
    pass_time(ledger_path, 30)
    assert [await takes(store, "acme", 2) for _ in range(2)] == [True, False]
    pass_time(ledger_path, 31)
    assert [await takes(store, "acme", 2) for _ in range(2)] == [True, False]


async def test_after_an_idle_minute_there_is_a_full_burst(store: Store, ledger_path: Path) -> None:
    for _ in range(2):
        assert [await takes(store, "acme", 500) for _ in range(501)] == [True] * 500 + [False]
        pass_time(ledger_path, 61)


async def test_takes_before_the_machine_started_are_over(store: Store, ledger_path: Path) -> None:
    assert await takes(store, "acme", 1)
    pass_time(ledger_path, -(10**6))
    assert await takes(store, "acme", 1)
    assert not await takes(store, "acme", 1)


async def test_a_bucket_remembers_no_more_groups_than_it_may(store: Store, ledger_path: Path) -> None:
    for _ in range(420):
        assert await takes(store, "acme", 100_000)
        with second_connection(ledger_path) as other:
            other.execute(
                "UPDATE takes SET taken_at_us = taken_at_us - 151000, began_at_us = began_at_us - 151000"
            )
    with second_connection(ledger_path) as other:
        assert other.execute("SELECT count(*) FROM takes").fetchone()[0] <= 401


# Who is there.


async def test_a_process_that_ended_leaves_no_file_behind(ledger_path: Path) -> None:
    owners = ledger_path.with_name("tollgate.db-owners")
    dead, living = SqliteStore(ledger_path), SqliteStore(ledger_path)
    (owners / "1-of-a-killed-process").touch()
    await die(dead)
    later = SqliteStore(ledger_path)
    assert len([name for name in os.listdir(owners) if not name.startswith(".")]) == 2
    await living.close()
    await later.close()
    assert [name for name in os.listdir(owners) if not name.startswith(".")] == []


# What verification finds.


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (
            "UPDATE spend SET spent_nanousd = 1 WHERE period = 'ever' AND scope = 'key:acme/ci'",
            "1 nano-USD are",
        ),
        ("UPDATE spend SET requests = 9 WHERE period = '2026-11'", "9 calls are counted, 1 are recorded"),
        (
            "DELETE FROM spend WHERE scope = 'wallet:acme'",
            "counter wallet:acme of ever: 0 nano-USD are counted",
        ),
        ("INSERT INTO spend VALUES ('key:acme/x', 'ever', 5, 0)", "5 nano-USD are counted, 0 are recorded"),
        ("UPDATE usage SET retail_nanousd = 7", "the wallet of acme paid 1560 nano-USD, acme: 7"),
        ("DELETE FROM usage", "charge a: the wallet of acme paid 1560 nano-USD, no such call is recorded"),
        ("UPDATE holds SET id = 'a'", "hold a: the call is recorded, but money is still held for it"),
    ],
    ids=str,
)
async def test_verification_finds_what_does_not_agree(
    damage: str, found: str, store: Store, ledger_path: Path
) -> None:
    await store.settle(settlement("a"))
    await store.hold(request("b"))
    with second_connection(ledger_path) as other:
        assert verify(other) == []
        other.execute(damage)
        assert any(found in line for line in verify(other)), verify(other)


def test_verification_finds_a_damaged_file(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path, *(f"a-{number}" for number in range(200)))
    with second_connection(ledger_path) as other:
        root = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'usage_created_at'").fetchone()[
            0
        ]
        size = other.execute("PRAGMA page_size").fetchone()[0]
    pages = bytearray(ledger_path.read_bytes())
    pages[(root - 1) * size + 100 : root * size] = bytes(size - 100)
    ledger_path.write_bytes(pages)
    with second_connection(ledger_path) as other:
        assert any("the file is damaged" in line for line in verify(other))


@pytest.mark.parametrize(
    ("limit_rpm", "wait_us"),
    [(4, 59_999_000), (3, 59_999_100), (2, 59_999_200), (1, 59_999_300)],
)
def test_a_token_is_back_a_minute_after_it_was_taken_whatever_the_limit_was_then(
    tmp_path: Path, limit_rpm: int, wait_us: int
) -> None:
    store = SqliteStore(tmp_path / "tollgate.db")
    connection = store._file.connection
    for number in range(4):
        assert transactions.take_token(connection, "acme", 4, 10**9 + number * 100) == 0
    assert transactions.take_token(connection, "acme", limit_rpm, 10**9 + 1_000) == wait_us
    assert transactions.token_wait_us(connection, "acme", limit_rpm, 10**9 + 1_000) == wait_us
    assert transactions.token_wait_us(connection, "acme", limit_rpm, 10**9 + 1_000 + wait_us) == 0
    asyncio.run(store.close())

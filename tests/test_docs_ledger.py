"""docs/ledger.md tells the truth about the table, the indexes, the options and the log."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import click
import pytest

from addon.books import CLIENT_CLOSED_REQUEST, CLIENT_DISCONNECTED, INTERRUPTED
from addon.commands.usage import RECENT_ROWS, usage
from addon.exchange import UsageSource
from addon.store import sqlite as store_sqlite
from addon.store.migrations import LARGEST, migrate

PAGE = (Path(__file__).parent.parent / "docs" / "ledger.md").read_text()


def test_every_column_is_documented_with_its_type_in_the_order_of_the_table() -> None:
    documented = re.findall(r"^\| `(\w+)` \| (TEXT|INTEGER) \| (yes|no) \| \S", PAGE, re.MULTILINE)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        table = connection.execute("PRAGMA table_info(usage)").fetchall()
    assert documented == [(name, kind, "no" if not_null else "yes") for _, name, kind, not_null, *_ in table]


def test_every_index_is_documented() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        sql = "SELECT name FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index' AND sql IS NOT NULL"
        indexes = [name for (name,) in connection.execute(sql)]
    documented = next(line for line in PAGE.splitlines() if line.startswith("Indexes:"))
    assert re.findall(r"`(\w+)`", documented) == indexes


def test_every_option_is_documented_with_its_choices() -> None:
    documented = dict(re.findall(r"^\| `(--\w+) (\S+)` \|", PAGE, re.MULTILINE))
    options = {option.opts[0]: option for option in usage.params}
    assert list(documented) == list(options)
    for name, option in options.items():
        if isinstance(option.type, click.Choice):
            assert documented[name].split(r"\|") == list(option.type.choices)


def test_the_numbers_are_those_of_the_program() -> None:
    assert f"up to\n{store_sqlite.KEPT_ROWS:,} in each process" in PAGE
    assert f"without it, {RECENT_ROWS} recent calls" in PAGE
    assert LARGEST == 10**16
    assert "10¹⁶" in PAGE
    assert "at most 10¹⁶" in PAGE
    assert f"committed some {store_sqlite.GROUP_COMMIT_S * 1000:g} ms after its call ended" in PAGE


def test_what_stands_for_a_client_that_left_is_documented() -> None:
    assert f"{CLIENT_CLOSED_REQUEST} when the client left before the end" in PAGE
    assert f"`{CLIENT_DISCONNECTED}` beside {CLIENT_CLOSED_REQUEST}, or `{INTERRUPTED}`" in PAGE


def test_every_source_of_counts_is_documented() -> None:
    table = PAGE.split("## Where the counts come from")[1]
    sources = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sources[:4] == ["usage_source", *get_args(UsageSource)]


@pytest.mark.parametrize("event", ["ledger unavailable", "ledger recovered", "ledger row lost"])
def test_every_event_named_is_one_that_the_store_logs(event: str) -> None:
    assert f"`{event}`" in PAGE
    assert f'"event": "{event}"' in Path(store_sqlite.__file__).read_text()

"""Rows come to a function as they are, and each version of Tollgate finds its own functions."""

from collections.abc import AsyncIterator
from datetime import date

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from addon.store.money.engine import Statement
from addon.store.money.postgres.connection import Connection, connect
from addon.store.money.postgres.engine import FUNCTIONS
from addon.store.money.postgres.functions import GIVEN, Function
from addon.store.money.postgres.tables import prepare
from addon.store.money.postgres.transactions import Transactions

_COLUMNS = {"word": "text", "number": "bigint", "other": "text"}
_ECHO = Function(
    "echo",
    _COLUMNS,
    f"SELECT word, number, other FROM {GIVEN}",
    "TABLE (word text, number bigint, other text)",
)
_TEXTS = st.none() | st.text(
    st.sampled_from("a\"\\,[]{}()$'?;n \t\n\r\b\x01\x7fé😀")
    | st.characters(codec="utf-8", exclude_characters="\0")
)
_ROWS = st.lists(st.tuples(_TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), _TEXTS))


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Connection]:
    opened = await connect(SecretStr(postgres_url))
    await opened.run([Statement(sql) for sql in _ECHO.creation])
    yield opened
    opened.cut()


async def test_rows_arrive_as_they_are(connection: Connection) -> None:
    drawn: list[list[tuple[str | None, int | None, str | None]]] = []

    @given(_ROWS)
    def draw(rows: list[tuple[str | None, int | None, str | None]]) -> None:
        drawn.append(rows)

    draw()
    drawn += [[("],[", 1, "x"), ("y", 2, "],[")], [("\\n\n", None, "null")]]
    found = await connection.run([_ECHO(rows) for rows in drawn])
    assert [list(rows) for rows in found] == drawn


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("a\0", 1, ""), psycopg.DataError),
        (("a", 2**63, ""), psycopg.DataError),
        (("\ud800", 1, ""), UnicodeEncodeError),
        (("a", 1), psycopg.DataError),
    ],
)
async def test_a_row_that_no_table_takes_is_refused(
    connection: Connection, row: tuple[object, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await connection.run([_ECHO([("b", 2, ""), row])])
    assert await connection.run([_ECHO([("b", 2, "")])]) == [[("b", 2, "")]]


def test_a_function_of_another_text_has_another_name() -> None:
    same = Function("echo", _COLUMNS, f"SELECT word, number, other FROM {GIVEN}", "SETOF record")
    assert same.name != _ECHO.name
    assert len({one.name for one in FUNCTIONS}) == len(FUNCTIONS)


async def test_a_ledger_gets_the_functions_that_it_lacks(postgres_url: str) -> None:
    transactions = Transactions(SecretStr(postgres_url))
    made = await prepare(transactions, date(2026, 11, 21))
    for _ in range(2):
        with psycopg.connect(postgres_url) as ledger:
            for one in FUNCTIONS[::2]:
                ledger.execute(f"DROP TYPE {one.name}_row CASCADE")  # type: ignore[arg-type]
        assert await prepare(transactions, date(2026, 11, 21)) == made
    with psycopg.connect(postgres_url) as ledger:
        [(count,)] = ledger.execute(
            "SELECT count(*) FROM pg_proc WHERE proname = ANY(%s)", ([one.name for one in FUNCTIONS],)
        )
    assert count == len(FUNCTIONS)
    await transactions.close()

"""How values come to PostgreSQL and back."""

from collections.abc import AsyncIterator

import psycopg
import pytest
from pydantic import SecretStr

from addon.store.money.engine import Statement
from addon.store.money.postgres.connection import Connection, connect


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Connection]:
    opened = await connect(SecretStr(postgres_url))
    yield opened
    opened.cut()


@pytest.mark.parametrize("setting", ["on", "off"])
async def test_values_arrive_as_they_are(connection: Connection, setting: str) -> None:
    texts = [
        "",
        "it's",
        "back\\slash",
        "\\'; DROP TABLE x; --",
        'say "no"',
        "{a,b}",
        "NULL",
        "é漢😀 %s ?",
        "\n",
    ]
    await connection.run(
        [
            Statement(f"SET standard_conforming_strings = {setting}"),
            Statement("SET escape_string_warning = off"),
        ]
    )
    asked = [Statement("SELECT ?::text", (text,)) for text in texts]
    assert await connection.run(asked) == [[(text,)] for text in texts]
    given = "SELECT value FROM unnest(?::text[]) WITH ORDINALITY AS one (value, place) ORDER BY place"
    assert await connection.run([Statement(given, (texts,))]) == [[(text,) for text in texts]]


async def test_each_type_is_read_as_it_is(connection: Connection) -> None:
    sql = (
        "SELECT 4611686018427387904, -3, sum(n), 1.5::numeric, 0.25::float8, true, false, NULL, ARRAY[1]"
        " FROM (VALUES (9::bigint)) AS one (n)"
    )
    [[row], nothing] = await connection.run([Statement(sql), Statement("SELECT 1 WHERE false")])
    assert row == (2**62, -3, 9, 1.5, 0.25, True, False, None, "{1}")
    assert [type(value) for value in row[:4]] == [int, int, int, float]
    assert nothing == ()
    assert await connection.run([Statement("SELECT ?, ?, ?, ?", (-(2**62), True, None, 0.5))]) == [
        [(-(2**62), True, None, 0.5)]
    ]


async def test_what_no_text_may_have_is_refused_and_does_not_break_the_connection(
    connection: Connection,
) -> None:
    for value, error in (
        ("\0", psycopg.DataError),
        ("\ud800", UnicodeEncodeError),
        (b"", TypeError),
        (object(), TypeError),
    ):
        with pytest.raises(error):
            await connection.run([Statement("SELECT ?::text", (value,))])
    with pytest.raises(TypeError, match="2 values for 1 places"):
        await connection.run([Statement("SELECT ?", (1, 2))])
    assert await connection.run([Statement("SELECT ?::text", ("x",))]) == [[("x",)]]


async def test_a_message_and_an_answer_may_be_large(connection: Connection) -> None:
    text = "é" * 5_000_000
    assert await connection.run([Statement("SELECT ?::text", (text,))] * 2) == [[(text,)]] * 2


async def test_a_connection_that_was_cut_says_so(connection: Connection) -> None:
    connection.cut()
    connection.cut()
    assert connection.is_lost
    with pytest.raises(psycopg.OperationalError, match="closed"):
        await connection.run([Statement("SELECT 1")])

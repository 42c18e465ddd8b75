"""The functions that PostgreSQL gets from us do what those of SQLite do."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from addon.store.money.postgres.compat import COMPAT

EXPRESSIONS = (
    "iif(2 > 1, 'yes', 'no')",
    "iif(2 < 1, NULL, 'no')",
    "iif(NULL, 1, 2)",
    "instr('a.b.c', '.')",
    "instr('abc', '.')",
    """json_extract('{"name": "é", "none": null}', '$.name')""",
    """json_extract('{"name": "é", "none": null}', '$."name"')""",
    """json_extract('{"name": "é", "none": null}', '$.none')""",
    """json_extract('{"name": "é"}', '$.other')""",
    """(SELECT min(value) || max(value) FROM json_each('["b", "a", "c"]'))""",
    "(SELECT count(*) FROM json_each('[]'))",
    "(SELECT group_concat(one.name) FROM (SELECT 'b' AS name UNION ALL SELECT NULL UNION ALL SELECT 'a') AS one)",
    "(SELECT group_concat(one.name) FROM (SELECT CAST(NULL AS text) AS name) AS one)",
    "(SELECT group_concat(one.name) FROM (SELECT 'b' AS name) AS one WHERE name = 'a')",
)


def test_both_engines_have_the_same_functions(postgres_url: str) -> None:
    with (
        psycopg.connect(postgres_url, autocommit=True) as ledger,
        closing(sqlite3.connect(":memory:")) as file,
    ):
        for statement in COMPAT:
            ledger.execute(statement)  # type: ignore[arg-type]
        for expression in EXPRESSIONS:
            [wanted] = file.execute(f"SELECT {expression}").fetchall()
            assert ledger.execute(f"SELECT {expression}").fetchall() == [wanted], expression  # type: ignore[arg-type]


@pytest.mark.parametrize("literal", ["0", "'none'"])
def test_a_literal_has_the_type_of_the_other_value(postgres_url: str, literal: str) -> None:
    column = "bigint" if literal == "0" else "text"
    with psycopg.connect(postgres_url, autocommit=True) as ledger:
        for statement in COMPAT:
            ledger.execute(statement)  # type: ignore[arg-type]
        asked = f"SELECT pg_typeof(iif(true, CAST(NULL AS {column}), {literal}))::text"
        assert ledger.execute(asked).fetchall() == [(column,)]  # type: ignore[arg-type]

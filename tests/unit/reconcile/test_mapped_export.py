"""A mapping of columns reads the exports of other vendors, and names its own mistakes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.reconcile.export_line import ExportError, Tokens
from addon.reconcile.formats import read_export
from addon.reconcile.mapped_export import parse_mapping

WIDE = """
time_zone = "Asia/Shanghai"
delimiter = ";"
cost_decimals = 2
[columns]
day = "Date"
model = "Model"
prompt_tokens = "In"
cached_tokens = "Hit"
output_tokens = "Out"
cost_cents = "Cents"
requests = "Calls"
"""


def test_each_column_is_read() -> None:
    mapping = parse_mapping(WIDE)
    export = read_export("Date;Model;In;Hit;Out;Cents;Calls\n2026-10-14;m;1,000;400;7;12.5;3\n", mapping)
    [line] = export.lines
    assert (export.time_zone, line.tokens, line.requests) == ("Asia/Shanghai", Tokens(600, 400, 0, 7), 3)
    assert (line.cost_nanousd, line.rounding_nanousd, line.splits_input) == (125_000_000, 5_000_000, True)


def test_objects_of_json_are_read_by_the_same_mapping() -> None:
    mapping = parse_mapping('[columns]\nday = "date"\ncost_usd = "usd"\n')
    [line] = read_export('[{"date": "2026-10-14", "usd": 0.1}]', mapping).lines
    assert (line.day, line.cost_nanousd, line.tokens) == ("2026-10-14", 100_000_000, None)


WRONG = {
    "": "columns.day is missing; name the column with the date",
    "[columns": "no valid TOML",
    'zone = "UTC"': "zone: unknown; known are time_zone, delimiter",
    '[columns]\nprice = "x"': "columns.price: unknown; known are day, model",
    "columns = 1": "columns: must be a table of texts",
    '[columns]\nday = "d"\nkind = "k"': "columns.kind and columns.amount need each other",
    '[columns]\nday = "d"\n[kinds]\na = "b"': 'kinds.a: "b" is none of input, cached_input',
    'time_zone = "Mars"\n[columns]\nday = "d"': "time_zone: must be a name such as UTC",
    'time_zone = "../x"\n[columns]\nday = "d"': "time_zone: must be a name such as UTC",
    'time_zone = 1\n[columns]\nday = "d"': "time_zone: must be a name such as UTC",
    'delimiter = "x"\n[columns]\nday = "d"': "delimiter: must be",
    'cost_decimals = 10\n[columns]\nday = "d"': "cost_decimals: must be from 0 to 9",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_mapping_is_refused_by_key(text: str) -> None:
    with pytest.raises(ExportError) as error:
        parse_mapping(text)
    assert WRONG[text] in str(error.value)


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(ExportError, match="none of the mapped columns is in the file"):
        read_export("a,b\n1,2\n", parse_mapping(WIDE))


@given(st.text())
def test_no_text_makes_the_reader_of_mappings_fail(text: str) -> None:
    for start in ("", "[columns]\n", 'time_zone = "'):
        with suppress(ExportError):
            parse_mapping(start + text)

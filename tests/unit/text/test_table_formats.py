"""CSV for spreadsheets, in which no text is a formula."""

import csv
import io

import pytest

from addon.text.table import Table
from addon.text.table_formats import format_spreadsheet


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_an_apostrophe_precedes_what_a_spreadsheet_may_run(start: str) -> None:
    text = format_spreadsheet(Table(("name", "number"), [(f"{start}1+1", -1)]))
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == [f"'{start}1+1", "-1"]


def test_other_texts_stay() -> None:
    table = Table(("name",), [("a=1",), (" =1",), ("é",)])
    assert format_spreadsheet(table) == "name\na=1\n =1\né\n"

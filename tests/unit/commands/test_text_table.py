"""Tables fit their width, whatever they contain, and drop nothing silently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.commands.output import format_table
from addon.commands.text_table import Column, format_columns, shorten, width_of
from addon.text.table import Table
from addon.text.unprintable import escape_unprintable

NAMES = st.text(st.characters(codec="utf-8"), min_size=0, max_size=200)
HEADERS = st.lists(
    st.sampled_from(["workspace", "completion_tokens", "created_at", "retail_nanousd", "id", "error_code"]),
    min_size=1,
    max_size=12,
    unique=True,
)


IDS = frozenset({"workspace", "id"})


def texts(*cells: str, header: str = "name") -> Column:
    return Column(header, "text", cells)


@given(HEADERS, st.data())
def test_every_table_fits_and_names_what_it_leaves_out(headers: list[str], data: st.DataObject) -> None:
    cells = {"completion_tokens": st.integers(0, 10**16), "retail_nanousd": st.integers(-(10**18), 10**18)}
    cells |= dict.fromkeys(IDS, st.text("abc-", max_size=64))
    rows = data.draw(
        st.lists(st.tuples(*(st.one_of(st.none(), cells.get(name, NAMES)) for name in headers)), max_size=4)
    )
    shown = format_table(Table(headers, rows), optional=headers[1:2])
    ids = [place for place, name in enumerate(headers) if name in IDS or place == 0]
    needed = sum(2 + max([*(width_of(str(row[place])) for row in rows), 10]) for place in ids)
    assert max(width_of(line) for line in shown.split("\n")) <= max(100, needed)
    assert shown.replace("\n", "").isprintable()
    *_, last = shown.split("\n")
    left_out = (
        last.removesuffix(" (--wide shows all)").split(": ")[1].split(", ") if "Not shown" in last else []
    )
    dashes = next(line for line in shown.split("\n") if set(line) <= {"-", " "} and "-" in line)
    assert len(dashes.split()) + len(left_out) == len(headers)
    assert set(left_out) <= set(headers[1:])
    assert not set(left_out) & (IDS - set(headers[1:2]))
    whole = [
        str(row[headers.index(name)] or "") for name in IDS & (set(headers) - set(left_out)) for row in rows
    ]
    assert all(one in shown for one in whole)


@given(HEADERS, st.data())
def test_a_wide_table_has_every_text(headers: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.text("abc…é漢", max_size=120) for _ in headers)), max_size=4))
    table = Table([f"{name}_of" for name in headers], rows)
    shown = format_table(table, "wide")
    for row in rows:
        assert all(cell in shown for cell in row)


@given(NAMES, st.integers(1, 40))
def test_a_shortened_text_keeps_its_beginning_and_its_end(text: str, width: int) -> None:
    text = escape_unprintable(text).replace("\n", "")
    found = shorten(text, width)
    assert width_of(found) <= width
    if found != text:
        head, tail = found.split("…", 1) if "…" not in text else ("", "")
        assert text.startswith(head)
        assert text.endswith(tail)


@pytest.mark.parametrize(
    ("text", "width", "found"),
    [
        ("workspace-of-the-shop", 10, "works…shop"),
        ("workspace", 9, "workspace"),
        ("漢字漢字", 5, "漢…字"),
        ("漢字漢字", 4, "漢…"),
        ("abc", 1, "…"),
    ],
)
def test_a_text_is_shortened_in_the_middle(text: str, width: int, found: str) -> None:
    assert shorten(text, width) == found


def test_headers_are_hyphenated_before_a_text_is_shortened() -> None:
    columns = [texts("x" * 10, header="completion\ntokens"), texts("y" * 10, header="name")]
    assert format_columns(columns, 22).text.split("\n") == [
        "completion  name",
        "tokens",
        "----------  ----------",
        "xxxxxxxxxx  yyyyyyyyyy",
    ]
    narrow = [Column("completion\ntokens", "number", ["1"]), texts("y" * 10)]
    assert format_columns(narrow, 18).text.split("\n") == [
        "compl-  name",
        " etion",
        "tokens",
        "------  ----------",
        "     1  yyyyyyyyyy",
    ]


def test_the_longest_texts_are_shortened_first() -> None:
    columns = [texts("a" * 60), texts("b" * 20), Column("count", "number", ["1" * 10])]
    assert format_columns(columns, 64).text.split("\n")[-1] == (
        "a" * 15 + "…" + "a" * 14 + "  " + "b" * 20 + "  " + "1" * 10
    )


def test_optional_columns_are_left_out_before_texts_become_unreadable() -> None:
    columns = [texts("a" * 40), texts("b" * 40), texts("c" * 40)]
    found = format_columns(columns, 40, optional=[1])
    assert found.left_out == [1]
    assert "aaaaaaaaa…aaaaaaaaa  ccccccccc…ccccccccc" in found.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200fb\u2066", r"a\u200fb\u2066"),
        ("\x9b", r"\x9b"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("\u3164\u2800\u115f\ufe00", r"\u3164\u2800\u115f\ufe00"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("tab\tand\nline", "tab\\tand\nline"),
        ("naïve 漢字", "naïve 漢字"),
    ],
)
def test_unprintable_text_is_shown_as_escapes(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


def test_an_id_is_never_shortened_and_stays_where_the_table_is_too_wide() -> None:
    ids = [Column("workspace", "id", ["w" * 64]), Column("key\nid", "id", ["k" * 64])]
    found = format_columns([*ids, texts("a label" * 9), Column("count", "number", ["1"])], 100)
    assert found.left_out == [2, 3]
    assert found.text.split("\n")[-1] == "w" * 64 + "  " + "k" * 64

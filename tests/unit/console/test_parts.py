"""The shared parts of pages, as HTML."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element, fromstring

import pytest

from addon.console.cells import badge
from addon.console.display import change
from addon.console.frame import Frame
from addon.console.parts.figures import Tile
from addon.console.query import Query
from addon.console.rendering import make_namespace
from addon.console.time_range import TimeRange
from addon.text.table import Table

HOSTILE = "<script>alert(1)</script>\u202egpt\x00\"'&"
NOW = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)
TIME = TimeRange.parse(Query({"range": "day"}), NOW)
TABLE = Table(
    (
        "created_at",
        "workspace",
        "status",
        "stream",
        "retail_nanousd",
        "duration_ms",
        "prompt_tokens",
        "end_user",
    ),
    [
        ("2026-11-22T09:30:00.123+00:00", "acme", 200, 1, 1_560, 840, 12_345, HOSTILE),
        ("2026-11-22T09:31:00.000+00:00", HOSTILE, 429, 0, 0, 65_000, None, "u" * 256),
    ],
)
EMPTY = Table(TABLE.columns, [])


def render(part: str, *values: Any, url: str = "/calls?range=day&workspace=acme", **named: Any) -> Element:
    """Return a part as a tree. It raises for HTML that is not well-formed."""
    path, _, given = url.partition("?")
    frame = Frame(path, Query(dict(parse_qsl(given))), edit_obstacle="Changes are off.")
    html = getattr(make_namespace(frame)["_tt_modules"], part)(*values, **named)
    for tag in ("input", "img"):
        html = "".join(
            piece if not place else f"<{tag}{piece.replace('>', '/>', 1)}"
            for place, piece in enumerate(html.split(f"<{tag}"))
        )
    for attribute in ("required", "selected", "checked"):
        html = html.replace(f" {attribute}>", f' {attribute}="">').replace(
            f" {attribute}/>", f' {attribute}=""/>'
        )
    return fromstring(f"<body>{html}</body>")


def text_of(tree: Element) -> str:
    return " ".join(" ".join(tree.itertext()).split())


@pytest.mark.parametrize(
    ("part", "values", "named", "expected"),
    [
        ("DataTable", ("calls", TABLE, "Calls"), {}, "2026-11-22 09:30:00"),
        ("DataTable", ("calls", EMPTY, "Calls"), {"empty": "No calls in this time."}, "No calls in this time."),
        ("TimePicker", (TIME,), {}, "2026-11-21 15:30 – 2026-11-22 15:30 UTC"),
        ("FilterChips", (), {}, "Workspace: acme ×"),
        ("Tiles", ([Tile("Spend", "$1.00", "$1.000000001", change(2, 1), good="up")],), {}, "Spend $1.00 +100%"),
        ("Facts", ([("retail_nanousd", 1_560), ("Its name", HOSTILE, "/calls")],), {}, "Spend $0.00000156 Its name"),
        ("Pager", ("/calls?after=1", None), {"note": "100 calls"}, "‹ Newer 100 calls"),
        ("Notice", (HOSTILE, "warn"), {"url": "/x"}, "alert(1)"),
        ("Code", ("a = 1\n" + HOSTILE,), {}, "a = 1"),
        ("Field", ("id", "Name"), {"error": "is taken", "hint": "a-z"}, "Name a-z is taken"),
        ("Field", ("mode", "Mode", "payg"), {"kind": "select", "options": ["", "payg", "byok"]}, "Mode Any payg byok"),
        ("Field", ("toml", "File", "<script>alert(1)"), {"kind": "textarea"}, "alert(1)"),
    ],
)  # fmt: skip
def test_a_part_is_well_formed_and_escaped(part: str, values: Any, named: Any, expected: str) -> None:
    tree = render(part, *values, **named)
    assert expected in text_of(tree)
    assert tree.find(".//script") is None
    assert "\u202e" not in "".join(tree.itertext())
    assert not [one for one in tree.iter() if "style" in one.attrib]


def test_a_table_has_headings_in_words_and_its_own_data() -> None:
    tree = render(
        "DataTable", "calls", TABLE, "Calls", links={"workspace": lambda row: f"/w/{row['status']}"}
    )
    assert [text_of(one) for one in tree.iter("th") if one.get("scope") == "col"] == [
        *("Time (UTC)", "Workspace", "Status", "Streamed", "Spend", "Duration", "Input tokens", "End user"),
    ]
    links = [one.get("href") for one in tree.iter("a")]
    assert "/api/v1/calls?range=day&workspace=acme&table=calls&format=csv" in links
    assert "/w/429" in links
    cells = [text_of(one) for one in tree.findall(".//tbody/tr[2]/*")]
    assert cells[2:7] == ["429", "no", "$0.00", "1 min 5 s", "–"]


def test_a_table_sorts_by_its_headings() -> None:
    sortable = ("workspace", "duration_ms")
    tree = render("DataTable", "calls", TABLE, "Calls", sortable=sortable, url="/calls?sort=-duration_ms")
    assert [one.get("aria-sort") for one in tree.findall(".//thead//th")].count("descending") == 1
    # Names begin with the first, numbers with the highest.
    links = [str(one.get("href")) for one in tree.findall(".//thead//a")]
    assert links == ["/calls?sort=workspace", "/calls?sort=duration_ms"]


def test_a_cell_may_be_made_by_the_page() -> None:
    cells = {"status": lambda row: badge(f"is {row['status']}", "info")}
    tree = render("DataTable", "calls", TABLE, "Calls", columns=("status",), cells=cells)
    assert [text_of(one) for one in tree.findall(".//tbody//th")] == ["is 200", "is 429"]

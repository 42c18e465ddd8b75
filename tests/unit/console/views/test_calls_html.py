"""The pages of calls as HTML and CSV, with texts that try to do harm."""

import csv
import io
import re
from pathlib import Path

import pytest
from rig.console_html import render_page
from rig.console_reading import load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import write
from rig.settings_files import write_files

from addon.text.table_formats import format_spreadsheet

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "\x00\x07\x1b[31m\r\n\t",
    "\u202egpt\u2066\u200f\u061c",
    "{{ 1 }}{% raw %}&amp;",
    "u" * 256,
    '=HYPERLINK("http://x")',
    "javascript:alert(1)",
]
COLUMNS = ("end_user", "requested_model", "client_request_id", "error_code", "finish_reason")


@pytest.fixture(scope="module")
def conf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    conf_file = write_files(folder)
    with open_new_ledger(folder / "var" / "tollgate.db") as ledger:
        for place, text in enumerate(HOSTILE):
            write(ledger, make_row(f"call-{place}", status=400, **dict.fromkeys(COLUMNS, text)))
    return conf_file


def assert_harmless(html: str) -> None:
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert 'href="javascript' not in html
    # A field of a form has its text as it is: sent again, it must be the same filter.
    shown = re.sub(r' value="[^"]*"', "", html)
    assert not {char for char in shown if not char.isprintable()} - {"\n"}


def test_the_list_shows_hostile_texts_as_text(conf_file: Path) -> None:
    html = render_page(conf_file, "/calls")
    assert_harmless(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "\\u202egpt" in html
    assert "=%3Cscript%3Ealert" in html  # the link that filters by it


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_one_call_shows_hostile_texts_as_text(conf_file: Path, place: int) -> None:
    assert_harmless(render_page(conf_file, f"/calls/call-{place}"))


@pytest.mark.parametrize(
    "url",
    [
        "/calls?end_user=%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE",
        "/calls?find=%3Cscript%3Ealert(1)%E2%80%AE",
    ],
)
def test_hostile_parameters_are_shown_as_text(conf_file: Path, url: str) -> None:
    assert_harmless(render_page(conf_file, url))


def test_a_name_that_is_not_printable_is_not_suggested(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        for place, name in enumerate(["\u202eevil", "\x1b[31m", "kind <b>"]):
            write(ledger, make_row(f"call-{place}", model_slug=name, provider=name))
    html = render_page(conf_file, "/calls")
    for name in ("model", "provider"):
        suggested = re.findall(rf'<datalist id="names-{name}">(.*)</datalist>', html)[0]
        assert 'value="kind &lt;b&gt;"' in suggested
        assert suggested.isprintable()


def test_no_text_of_the_csv_is_a_formula(conf_file: Path) -> None:
    text = format_spreadsheet(load_page(conf_file, "/calls").tables["calls"])
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(HOSTILE)
    assert '\'=HYPERLINK("http://x")' in [row["end_user"] for row in rows]
    cells = [value for row in rows for value in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]


def test_a_page_of_calls_holds_still_unless_its_time_has_an_end(conf_file: Path) -> None:
    assert 'data-still="/api/v1/calls/new?' in render_page(conf_file, "/calls?workspace=acme")
    assert "data-still" not in render_page(conf_file, "/calls?from=2026-01-30&to=2026-01-31")


@pytest.mark.parametrize("wanted", ["call-1", "u" * 256, "none"])
def test_a_find_does_not_reload_itself(conf_file: Path, wanted: str) -> None:
    assert "data-still" in render_page(conf_file, f"/calls?find={wanted}")


def test_a_page_without_calls_says_so(conf_file: Path) -> None:
    assert "No call matches." in render_page(conf_file, "/calls?workspace=none")
    assert "No call has this ID" in render_page(conf_file, "/calls?find=none")


def test_links_of_a_row_add_its_value_as_a_filter(conf_file: Path) -> None:
    html = render_page(conf_file, "/calls?range=month&status=4xx&limit=5")
    assert 'href="/calls?range=month&amp;status=4xx&amp;limit=5&amp;workspace=acme&amp;key=ci"' in html
    assert 'href="/calls?range=month&amp;status=400&amp;limit=5"' in html
    assert "before=2026-01-31T12%3A00%3A00.000Z_" in html

"""The page of an error reloads itself where the page may be there soon, but never with a find."""

import pytest

from addon.console.frame import Frame
from addon.console.page import holds_still
from addon.console.query import Query
from addon.console.rendering import render


@pytest.mark.parametrize(
    ("status", "values", "is_still"),
    [(503, {}, False), (503, {"find": "x"}, True), (500, {"find": "x"}, True), (404, {}, True)],
)
def test_the_page_of_an_error_with_a_find_holds_still(
    status: int, values: dict[str, str], is_still: bool
) -> None:
    query = Query(values)
    found = holds_still(status, query)
    named = {"title": "Error", "page_name": "error", "status": status, "message": "x", "is_still": found}
    html = render("error.html", Frame("/calls", query), **named)
    assert (found, "data-still" in html.decode()) == (is_still, is_still)

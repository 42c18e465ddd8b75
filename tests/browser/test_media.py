"""Every view as other systems show it: a telephone, large text, colours of the system, little motion, and paper."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rig.browser import NARROW, Tab
from rig.large import large_only
from rig.page_checks import check_keyboard, check_tables

from addon.console.pages import PAGES
from browser.conftest import Console

VIEWS = pytest.mark.parametrize("view", [page.name for page in PAGES])
REFLOW, PAPER = 320, 718
"""The width of a desk at 400 % (WCAG 1.4.10), and of A4 paper without margins."""


@pytest.fixture(scope="module")
def tab(browser: Any, busy: Console) -> Iterator[Tab]:
    with closing(Tab(browser, busy.gateway.admin_url)) as tab:
        yield tab


def show(tab: Tab, busy: Console, view: str, *, width: int, **media: Any) -> None:
    """Show a view of the gateway with much to show."""
    use(tab, width, **media)
    address = busy.site.views[view]
    assert tab.open(address.path) == address.status


def use(tab: Tab, width: int, **media: Any) -> None:
    """Show pages, the current one too, in this width and medium."""
    tab.page.emulate_media(**{"media": "screen", "forced_colors": "none", **media})
    tab.resize(width)


@large_only
@VIEWS
def test_a_view_fits_each_medium(tab: Tab, busy: Console, view: str) -> None:
    show(tab, busy, view, width=NARROW)
    found = check_tables(tab)
    use(tab, NARROW, forced_colors="active")
    found += check_keyboard(tab)
    for width, media in ((REFLOW, "screen"), (PAPER, "print")):
        use(tab, width, media=media)
        needed = tab.evaluate("document.documentElement.scrollWidth")
        found += [f"{media} of {width} px needs {needed} px"] if needed > width else []
    assert found == []


@large_only
def test_charts_keep_their_colours_and_get_lines(tab: Tab, busy: Console) -> None:
    show(tab, busy, "overview", width=NARROW, forced_colors="active")
    parts = tab.evaluate(
        """() => [...document.querySelectorAll('.segment, .bar .used')].map(one => {
            const style = getComputedStyle(one);
            return [one.classList[0], style.fill, style.forcedColorAdjust];
        })"""
    )
    assert {adjust for _, _, adjust in parts} == {"none"}
    swatches = tab.evaluate(
        "() => [...document.querySelectorAll('.swatch rect')].map(one => getComputedStyle(one).fill)"
    )
    assert len(set(swatches)) == len(swatches) > 1
    assert set(swatches) <= {fill for _, fill, _ in parts}
    bars = tab.evaluate(
        "() => [...document.querySelectorAll('svg.bar')].map(one => getComputedStyle(one).outlineStyle)"
    )
    assert set(bars) == {"solid"}


@large_only
def test_nothing_moves_where_that_is_not_wanted(tab: Tab, busy: Console) -> None:
    show(tab, busy, "workspace", width=NARROW, reduced_motion="reduce")
    durations = """() => [...document.querySelectorAll('*')].flatMap(one => {
        const style = getComputedStyle(one);
        return [style.transitionDuration, style.animationDuration, style.scrollBehavior];
    })"""
    assert set(tab.evaluate(durations)) <= {"0s", "auto"}

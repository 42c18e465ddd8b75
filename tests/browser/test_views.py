"""Every view in a real browser, with much data and with none, with JavaScript and without."""

import re

import pytest
from rig.browser import Tab
from rig.configuration import ROOT
from rig.large import sampled
from rig.page_checks import check_accessibility, check_frame, check_keyboard, check_widths

from addon.console.pages import PAGES
from browser.conftest import Console

VIEWS = pytest.mark.parametrize("view", [page.name for page in PAGES])


@sampled(every=8)
@VIEWS
def test_a_view_is_whole(script_tab: Tab, console: Console, axe: str | None, view: str) -> None:
    address = console.site.views[view]
    assert script_tab.open(address.path) == address.status
    found = [*check_frame(script_tab), *check_widths(script_tab), *check_keyboard(script_tab)]
    if axe:
        found += check_accessibility(script_tab, axe)
    assert found + script_tab.faults == []


@sampled(every=8)
@VIEWS
def test_a_view_needs_no_script(plain_tab: Tab, console: Console, view: str) -> None:
    address = console.site.views[view]
    assert plain_tab.open(address.path) == address.status
    assert [*check_frame(plain_tab), *check_widths(plain_tab), *plain_tab.faults] == []


def test_axe_core_is_there(axe: str | None) -> None:
    if axe is None:
        pytest.skip("axe-core is missing, so it has checked no view")


def test_every_link_works_and_stays_in_the_console(console: Console) -> None:
    assert console.site.broken == []
    assert console.site.outside == set()


def test_links_lead_to_every_view(busy: Console) -> None:
    missing = [view for view, address in busy.site.views.items() if address.status != 200]
    assert missing == []


def test_every_view_and_parameter_is_documented() -> None:
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `/api/v1(/\S*)` \| (.*?) \|", page.partition("## The data")[2], re.MULTILINE)
    )
    documented = {path: set(re.findall(r"`(\w+)`", words)) for path, words in rows.items()}
    expected = {_written_path(page.path): set(page.parameters) for page in PAGES}
    assert documented == expected


def _written_path(pattern: str) -> str:
    return re.sub(r"\(\[.*?\)", "ID", pattern).replace("(?:overview)?", "overview")

"""Pages while calls arrive: the list of calls holds still, and the overview updates itself. The page's clock is set."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any

import pytest
from conftest import StartGateway
from rig.browser import Tab
from rig.console_scene import Caller, wait_for_rows
from rig.gateway import Gateway
from rig.large import large_only
from rig.scripts import ordinary
from rig.shown_page import read_ids, read_tiles

from browser.conftest import OpenTab

PASSWORD = "a long console password"
REFRESH_MS = 10_000
FIRST = (
    "tester-large",
    "tester-small",
    "tester-large",
    "tester-small",
    "tester-large",
    "tester-large",
    "vendor/tall",
)

type OpenPage = Callable[..., Tab]


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD},
    )


@pytest.fixture(scope="module")
def call(gateway: Gateway, upstreams: dict[str, Any]) -> Iterator[Callable[..., None]]:
    """Make calls, and wait until the ledger has them. Some are there from the beginning."""
    upstreams["TESTER"].behave(ordinary)
    with closing(Caller(gateway)) as caller:

        def make(*models: str, key: str = "ci") -> None:
            for model in models:
                assert caller.call(key, model=model, user=f"user of {model}").status_code == 200
            wait_for_rows(gateway, caller)

        make(*FIRST)
        make("tester-large", key="bare")
        yield make


@pytest.fixture
def open_page(open_tab: OpenTab, gateway: Gateway, call: Any) -> OpenPage:
    """Log in and open a page, whose clock only goes on when the test says so."""

    def open_one(path: str, *, with_script: bool = True) -> Tab:
        tab = open_tab(gateway, with_script=with_script)
        if with_script:
            tab.page.clock.install()
        tab.open(path)
        tab.page.get_by_label("Password of the console").fill(PASSWORD)
        tab.press("Log in")
        return tab

    return open_one


def ids(gateway: Gateway, **wanted: str) -> list[str]:
    """Return the ids of the wanted rows of the ledger, the newest first."""
    rows = [row for row in gateway.ledger_rows() if wanted.items() <= row.items()]
    return [row["id"] for row in reversed(rows)]


def wait_for_text(tab: Tab, text: str) -> None:
    tab.page.get_by_text(text).first.wait_for()


@large_only
def test_calls_are_filtered_by_the_form_and_by_links(open_page: OpenPage, gateway: Gateway) -> None:
    tab = open_page("/calls")
    assert read_ids(tab) == ids(gateway)
    tab.page.locator("summary", has_text="Filter").click()
    tab.page.get_by_label("Model", exact=True).fill("tester-small")
    tab.press("Show")
    assert "model=tester-small" in tab.page.url
    assert read_ids(tab) == ids(gateway, model_slug="tester-small") != []
    tab.open("/calls")
    for text, wanted in (
        ("bare", {"workspace": "bare"}),
        ("user of tester-large", {"end_user": "user of tester-large"}),
    ):
        with tab.page.expect_navigation():
            tab.page.locator("#table-calls").get_by_role("link", name=text, exact=True).first.click()
        assert read_ids(tab) == ids(gateway, **wanted) != []
        tab.open("/calls")
    assert tab.faults == []


@large_only
def test_the_list_holds_still_and_says_how_many_calls_are_new(
    open_page: OpenPage, gateway: Gateway, call: Callable[..., None]
) -> None:
    tab = open_page("/calls?model=tester-large")
    before = read_ids(tab)
    tab.page.clock.run_for(REFRESH_MS)
    assert tab.page.get_by_role("link", name="Load the newest calls").is_visible()
    call("tester-large", "tester-small", "tester-large")
    tab.page.clock.run_for(REFRESH_MS)
    wait_for_text(tab, "2 new calls")
    assert read_ids(tab) == before
    with tab.page.expect_navigation():
        tab.page.get_by_role("link", name="2 new calls").click()
    after = ids(gateway, model_slug="tester-large")
    assert read_ids(tab) == after
    assert after[2:] == before
    assert tab.faults == []


@large_only
def test_each_call_is_shown_once_while_calls_arrive(
    open_page: OpenPage, gateway: Gateway, call: Callable[..., None]
) -> None:
    tab = open_page("/calls?limit=6")
    before = ids(gateway)
    pages = [read_ids(tab)]
    for _ in range(len(before)):
        call("vendor/tall")
        if not _turn(tab, "next"):
            break
        pages.append(read_ids(tab))
    assert list(chain(*pages)) == before
    back = [read_ids(tab)]
    while _turn(tab, "prev"):
        call("vendor/tall")
        back.append(read_ids(tab))
    shown = list(chain(*reversed(back)))
    assert shown == ids(gateway)[-len(shown) :]
    assert set(before) < set(shown)
    assert tab.faults == []


def _turn(tab: Tab, relation: str) -> bool:
    link = tab.page.locator(f"nav.pager a[rel={relation}]")
    if not link.count():
        return False
    with tab.page.expect_navigation():
        link.click()
    return True


@large_only
def test_without_a_script_a_link_says_how_many_calls_are_new(
    open_page: OpenPage, gateway: Gateway, call: Callable[..., None]
) -> None:
    tab = open_page("/calls", with_script=False)
    call("tester-large")
    with tab.page.expect_navigation():
        tab.page.get_by_role("link", name="Are there new calls?").click()
    assert "1 new call." in tab.page.locator("main").inner_text()
    with tab.page.expect_navigation():
        tab.page.get_by_role("link", name="Show calls").click()
    assert read_ids(tab) == ids(gateway)
    assert tab.faults == []


def test_the_overview_updates_itself_unless_it_is_paused(
    open_page: OpenPage, call: Callable[..., None]
) -> None:
    tab = open_page("/")
    calls = int(read_tiles(tab)["Calls"]["exact"])
    call("tester-large")
    tab.page.clock.run_for(REFRESH_MS)
    wait_for_text(tab, "Updated at")
    assert int(read_tiles(tab)["Calls"]["exact"]) == calls + 1
    tab.page.get_by_role("button", name="Pause").click()
    call("tester-large")
    tab.answers.clear()
    tab.page.clock.run_for(2 * REFRESH_MS)
    wait_for_text(tab, "Updates are paused.")
    assert tab.answers == []
    tab.page.get_by_role("button", name="Go on").click()
    tab.page.clock.run_for(REFRESH_MS)
    wait_for_text(tab, "Updated at")
    assert int(read_tiles(tab)["Calls"]["exact"]) == calls + 2
    assert tab.faults == []


@large_only
def test_updates_stop_when_the_login_has_ended(open_page: OpenPage) -> None:
    tab = open_page("/")
    shown = read_tiles(tab)
    other = tab.page.context.new_page()
    other.goto("/models")
    with other.expect_navigation():
        other.get_by_role("button", name="Log out").click()
    tab.page.clock.run_for(REFRESH_MS)
    wait_for_text(tab, "The login has ended. This page is no longer updated.")
    assert read_tiles(tab) == shown
    with tab.page.expect_navigation():
        tab.page.get_by_role("button", name="Log in").click()
    assert tab.page.url == f"{tab.origin}/login"


@large_only
def test_updates_stop_when_the_gateway_is_gone(open_tab: OpenTab, start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    tab = open_tab(gateway)
    tab.page.clock.install()
    tab.open("/")
    shown = read_tiles(tab)
    gateway.kill()
    tab.page.clock.run_for(REFRESH_MS)
    wait_for_text(tab, "The server does not answer. This page is no longer updated.")
    assert read_tiles(tab) == shown
    assert tab.page.get_by_role("button", name="Try again").is_visible()

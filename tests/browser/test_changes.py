"""Log in, change keys and a wallet, and log out, as a person does in a real browser."""

import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.browser import Tab
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.page_checks import check_accessibility, check_frame, check_keyboard, check_widths
from rig.upstream import Upstream

from browser.conftest import OpenTab

PASSWORD = "a long console password"


@pytest.fixture(scope="module")
def locked(start_gateway: StartGateway) -> Gateway:
    """A gateway whose console has a password, with a workspace that pays from a wallet."""
    keys = {name: new_key() for name in ("ci", "retired", "bare")}
    shop = workspace(("ci", keys["ci"], True), name="Shop", plan="standard")
    return start_gateway(
        keys=keys,
        workspaces={"shop": shop},
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD},
    )


@pytest.fixture
def tab(open_tab: OpenTab, locked: Gateway) -> Iterator[Tab]:
    """A tab that has logged in. No page of the test may have a fault."""
    tab = open_tab(locked)
    log_in(tab, "/workspaces/shop", PASSWORD)
    yield tab
    assert tab.faults == []


def log_in(tab: Tab, path: str, password: str) -> None:
    tab.open(path)
    tab.page.get_by_label("Password of the console").fill(password)
    tab.press("Log in")


def heading(tab: Tab) -> str:
    return tab.page.get_by_role("heading", level=1).inner_text()


def check(tab: Tab, axe: str | None) -> None:
    """Check what must hold for every page."""
    found = [*check_frame(tab), *check_widths(tab), *check_keyboard(tab)]
    assert found + (check_accessibility(tab, axe) if axe else []) == []


def call_with(gateway: Gateway, key: str) -> Any:
    with openai.OpenAI(api_key=key, base_url=f"{gateway.url}/v1", max_retries=0, timeout=BOUND_S) as client:
        return client.chat.completions.create(
            model="tester-large", messages=[{"role": "user", "content": "hello"}]
        )


@sampled(every=2)
def test_a_page_asks_for_the_password_and_comes_back(
    open_tab: OpenTab, locked: Gateway, axe: str | None
) -> None:
    tab = open_tab(locked)
    tab.open("/models")
    assert tab.page.url.startswith(f"{tab.origin}/login")
    check(tab, axe)
    log_in(tab, "/models", "the wrong password")
    assert heading(tab) != "Models"
    assert tab.page.get_by_role("alert").is_visible()
    log_in(tab, "/models", PASSWORD)
    assert heading(tab) == "Models"
    tab.press("Log out")
    tab.open("/models")
    assert tab.page.url.startswith(f"{tab.origin}/login")
    assert tab.faults == []


def test_a_new_key_is_shown_with_its_difference_and_works(
    tab: Tab, locked: Gateway, upstream: Upstream, axe: str | None
) -> None:
    tab.open("/changes/keys/create/shop")
    check(tab, axe)
    tab.page.get_by_label("Key ID", exact=True).fill("made-here")
    tab.press("Show the difference")
    check(tab, axe)
    assert "made-here" in tab.page.get_by_role("region", name="The lines that change").inner_text()
    file = locked.folder / "policies" / "workspaces" / "shop.toml"
    assert "made-here" not in file.read_text("utf-8")
    tab.press(heading(tab))
    check(tab, axe)
    key = tab.page.get_by_label("Key made-here").input_value()
    assert re.fullmatch(r"tg_\w{40}", key)
    assert "made-here" in file.read_text("utf-8")
    check_history(tab, axe, key)
    locked.wait_until(lambda: "made-here" in locked.stderr or _is_accepted(locked, key))
    assert tab.open("/audit") == 200
    assert "made-here" in tab.page.get_by_role("table").inner_text()
    assert key not in tab.page.content()
    assert tab.open("/audit/1") == 200
    check(tab, axe)


def check_history(tab: Tab, axe: str | None, key: str) -> None:
    """Check that the browser loads the pages of a change again, also with "back", and sends no form again."""
    tab.page.reload()
    assert "was shown already" in tab.page.locator(".notice.warn").inner_text()
    tab.page.go_back()
    assert "This change was made." in tab.page.locator(".notice.ok").inner_text()
    check(tab, axe)
    tab.page.reload()
    assert tab.page.get_by_role("link", name="Its result").is_visible()
    tab.page.go_back()
    assert tab.page.get_by_label("Key ID", exact=True).is_visible()
    tab.page.go_forward()
    tab.page.go_forward()
    assert heading(tab) == "Create a key"
    assert key not in tab.page.content()


def _is_accepted(gateway: Gateway, key: str) -> bool:
    try:
        return bool(call_with(gateway, key).choices)
    except openai.APIStatusError as error:
        return error.status_code == 402  # The key is known, and its workspace has no money.

"""The forms of the console in a real browser: whole at both widths, and a change made with mouse and keyboard."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from cryptography.fernet import Fernet
from rig.browser import Tab
from rig.gateway import Gateway
from rig.large import sampled
from rig.page_checks import check_accessibility, check_frame, check_keyboard, check_widths
from rig.settings_files import edit

PASSWORD = "correct-horse-battery-staple"
RULES = """
# Bills need a good model.
[[rules]]
keywords = ["bill", "tax"]
model = "tester-large"

[byok.TESTER]
secret = "env:OWN_KEY"
"""
FORMS = ("workspaces/edit/acme", "workspaces/set/acme", "rules/set/acme/1", "byok/add/acme")


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    started = start_gateway(
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={
            "CONSOLE_PASSWORD": PASSWORD,
            "OWN_KEY": "not-a-real-key",
            "TOLLGATE_SECRET_KEY": Fernet.generate_key().decode(),
        },
    )
    edit(started.folder / "policies/workspaces/acme.toml", "", RULES)
    return started


def log_in(tab: Tab) -> Tab:
    tab.open("/login")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"{tab.origin}/")
    return tab


@pytest.fixture(scope="module")
def tab(browser: Any, gateway: Gateway) -> Iterator[Tab]:
    with closing(log_in(Tab(browser, gateway.admin_url))) as opened:
        yield opened


@sampled(every=4)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_whole(tab: Tab, axe: str | None, form: str) -> None:
    assert tab.open(f"/changes/{form}") == 200
    found = [*check_frame(tab), *check_widths(tab), *check_keyboard(tab), *tab.faults]
    assert found + (check_accessibility(tab, axe) if axe else []) == []


@sampled(every=2)
@pytest.mark.parametrize("with_script", [True, False])
def test_a_file_is_edited_as_text(browser: Any, gateway: Gateway, with_script: bool) -> None:
    file: Path = gateway.folder / "policies/workspaces/acme.toml"
    before = file.read_bytes()
    new = f"# {'with' if with_script else 'without'} a script\n"
    with closing(log_in(Tab(browser, gateway.admin_url, with_script=with_script))) as tab:
        tab.open("/workspaces/acme")
        tab.page.get_by_role("link", name="Edit the file as text").click()
        area = tab.page.get_by_label("Text")
        area.fill(new + area.input_value().replace("tester-large", "tester-larg"))
        tab.page.get_by_role("button", name="Show the difference").click()
        assert "unknown model" in tab.page.locator("#error-text").inner_text()
        area.fill(area.input_value().replace("tester-larg", "tester-large"))
        tab.page.get_by_role("button", name="Show the difference").click()
        assert new.strip() in tab.page.locator(".diff ins").all_inner_texts()[0]
        assert file.read_bytes() == before
        tab.page.get_by_role("button", name="Save the file").click()
        assert "Edit the file of the workspace acme." in tab.page.locator(".notice.ok").inner_text()
        assert tab.faults == []
    assert file.read_bytes() == new.encode() + before

"""An operator changes keys, a wallet, rules and own keys in a real browser, and clients see it."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import openai
import pytest
from conftest import StartGateway
from cryptography.fernet import Fernet
from rig.bounds import BOUND_S
from rig.browser import Tab
from rig.configuration import new_key, workspace
from rig.console_scene import SCRIPT, Caller, wait_for_rows
from rig.gateway import Gateway
from rig.large import large_only, sampled
from rig.page_checks import check_frame
from rig.settings_files import edit
from rig.shown_page import read_table
from rig.upstream import Upstream

PASSWORD = "a long console password"
OWN_KEY = "obviously-fake-customer-secret-2"
RULES = """
[[rules]]
keywords = ["bill"]
model = "tester-small"

[[rules]]
keywords = ["tax"]
model = "vendor/tall"
"""


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway with a workspace ``shop`` that has rules, a hostile name, and a key with a hostile label."""
    keys = {name: new_key() for name in ("ci", "retired", "bare")}
    shop = workspace(("bare", keys["bare"], True), name=SCRIPT) | {"default_model": "tester-large"}
    shop["keys"][0]["label"] = SCRIPT
    started = start_gateway(
        keys=keys,
        workspaces={"acme": workspace(("ci", keys["ci"], True)), "shop": shop},
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD, "TOLLGATE_SECRET_KEY": Fernet.generate_key().decode()},
    )
    edit(started.folder / "policies/workspaces/shop.toml", "", RULES)
    return started


@pytest.fixture(scope="module")
def logged_in(browser: Any, gateway: Gateway) -> Iterator[Tab]:
    with closing(Tab(browser, gateway.admin_url)) as tab:
        tab.open("/")
        tab.page.get_by_label("Password of the console").fill(PASSWORD)
        tab.press("Log in")
        yield tab


@pytest.fixture
def tab(logged_in: Tab) -> Iterator[Tab]:
    """A tab that has logged in. No page of the test may have a fault."""
    yield logged_in
    assert logged_in.faults + check_frame(logged_in) == []


def show_difference(tab: Tab, form: str, **typed: str) -> str:
    """Open a form, type, and return the lines that change."""
    assert tab.open(f"/changes/{form}") == 200
    for name, text in typed.items():
        tab.page.locator(f"[name={name}]").fill(text)
    tab.press("Show the difference")
    return tab.page.get_by_role("region", name="The lines that change").inner_text()


def confirm(tab: Tab) -> None:
    tab.press(tab.page.get_by_role("heading", level=1).inner_text())
    assert tab.page.locator(".notice.ok").is_visible()


def newest_audit_line(tab: Tab) -> dict[str, str]:
    assert tab.open("/audit") == 200
    return read_table(tab, "audit")[0]


def answers(gateway: Gateway, key: str) -> bool:
    """Return whether the gateway answers a call of the OpenAI SDK, not refuses its key."""
    with openai.OpenAI(api_key=key, base_url=f"{gateway.url}/v1", max_retries=0, timeout=BOUND_S) as client:
        try:
            made = client.chat.completions.create(
                model="tester-large", messages=[{"role": "user", "content": "hello"}]
            )
        except openai.AuthenticationError:
            return False
        return made.choices[0].finish_reason == "stop"


@large_only
def test_a_key_is_rotated_without_grace_and_then_revoked(
    tab: Tab, gateway: Gateway, upstream: Upstream
) -> None:
    old = gateway.key
    assert answers(gateway, old)
    lines = show_difference(tab, "keys/rotate/acme/ci", grace="0")
    assert re.findall("^[+−].*", lines, re.MULTILINE) == [
        "−hash = ***",
        "+hash = (the hash of the new key, which is made when you confirm)",
    ]
    confirm(tab)
    new = tab.page.get_by_label("Key ci").input_value()
    gateway.wait_until(lambda: not answers(gateway, old))
    assert answers(gateway, new)
    line = newest_audit_line(tab)
    assert (line["action"], line["workspace"], line["subject"]) == ("keys rotate", "acme", "ci")
    lines = show_difference(tab, "keys/revoke/acme/ci")
    assert re.findall("^[+−].*", lines, re.MULTILINE) == ["−active = true", "+active = false"]
    assert answers(gateway, new)
    confirm(tab)
    gateway.wait_until(lambda: not answers(gateway, new))
    line = newest_audit_line(tab)
    assert (line["action"], line["workspace"], line["subject"]) == ("keys revoke", "acme", "ci")
    assert all(key not in tab.page.content() for key in (old, new))


@large_only
def test_a_double_click_credits_a_wallet_once(tab: Tab, gateway: Gateway) -> None:
    lines = show_difference(tab, "wallet/credit/shop", amount="12.5", reference=SCRIPT)
    assert "balance 12.5" in lines
    tab.page.get_by_role("button", name="Credit a wallet").dblclick()
    # The second click aborts the page that the first one asked for: wait for what is shown, not for a navigation.
    tab.page.locator(".notice.ok").wait_for()
    tab.open("/workspaces/shop")
    [entry] = read_table(tab, "wallet_entries")
    assert entry["amount_nanousd"] == "$12.50"
    assert entry["reference"] == SCRIPT
    assert newest_audit_line(tab)["action"] == "wallet credit"


@large_only
def test_a_rule_is_moved_and_then_tried_first(tab: Tab, gateway: Gateway, upstream: Upstream) -> None:
    with closing(Caller(gateway)) as caller:

        def model_of_a_call() -> Any:
            asked = [{"role": "user", "content": "the tax on my bill"}]
            answer = caller.call("bare", messages=asked, model=None)
            return answer.json().get("model")

        gateway.wait_until(lambda: model_of_a_call() == "tester-small")
        lines = show_difference(tab, "rules/move/shop/2", place="1")
        assert "tax" in lines
        confirm(tab)
        gateway.wait_until(lambda: model_of_a_call() == "vendor/tall")
    assert newest_audit_line(tab)["action"] == "rules move"


def test_an_own_key_is_sealed_and_on_no_page(tab: Tab, gateway: Gateway, upstream: Upstream) -> None:
    assert tab.open("/changes/byok/add/shop") == 200
    tab.page.locator("[name=provider]").select_option("TESTER")
    tab.page.locator("[name=secret]").fill(OWN_KEY)
    tab.page.locator("[name=routing]").select_option("true")
    tab.press("Show the difference")
    pages = [tab.page.content()]
    confirm(tab)
    pages.append(tab.page.content())
    number = newest_audit_line(tab)["number"]
    for path in (
        "/audit",
        f"/audit/{number}",
        "/workspaces/shop",
        "/settings",
        "/changes/byok/set/shop/TESTER",
        "/changes/workspaces/edit/shop",
    ):
        assert tab.open(path) == 200
        pages.append(tab.page.content())
    assert not [page for page in pages if OWN_KEY in page]
    assert OWN_KEY not in (gateway.folder / "policies/workspaces/shop.toml").read_text("utf-8")
    with closing(Caller(gateway)) as caller:

        def key_of_a_call() -> bool:
            assert caller.call("bare", model="tester-large").status_code == 200
            return OWN_KEY in str(upstream.requests[-1].headers)

        gateway.wait_until(key_of_a_call)


@pytest.fixture(scope="module")
def hostile_call(gateway: Gateway, upstreams: dict[str, Upstream]) -> str:
    """The id of a call whose end user is a script."""
    with closing(Caller(gateway)) as caller:
        upstreams["TESTER"].reset()
        assert caller.call("bare", user=SCRIPT).status_code == 200
        wait_for_rows(gateway, caller)
        return caller.recorded.pop()


@sampled(every=6)
@pytest.mark.parametrize(
    "path",
    [
        "/calls",
        "/calls?end_user=" + quote(SCRIPT),
        "/calls/ID",
        "/workspaces/shop",
        "/workspaces",
        "/audit",
        "/settings",
        "/explain?workspace=shop&key=bare",
        "/changes/keys/set/shop/bare",
        "/changes/workspaces/set/shop",
    ],
)
def test_texts_of_others_are_only_text(tab: Tab, hostile_call: str, path: str) -> None:
    assert tab.open(path.replace("ID", hostile_call)) == 200
    assert check_frame(tab) == []
    assert tab.page.locator("main :is(script, img)").count() == 0

"""Changes in the console of a real gateway: the difference first, then one edit, then one line in the audit log."""

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway

PASSWORD = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD},
    )


@pytest.fixture
def console(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.admin_url, timeout=BOUND_S, trust_env=False) as client:
        client.post("/login", data={"_xsrf": form_token(client.get("/login")), "password": PASSWORD})
        yield client


def form_token(page: httpx.Response) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def send(console: httpx.Client, path: str, **typed: str) -> httpx.Response:
    """Send a form of the page ``path``."""
    return console.post(path, data={"_xsrf": form_token(console.get(path)), **typed})


preview = send


def token_of(page: httpx.Response) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def confirm(console: httpx.Client, path: str, shown: httpx.Response) -> httpx.Response:
    return console.post(path, data={"_xsrf": form_token(shown), "token": token_of(shown)})


def test_a_new_key_is_shown_once_and_works(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/keys/create/acme"
    shown = preview(console, path, id="phone", label="A & B", spend_cap_usd="20", spend_reset="daily")
    assert shown.status_code == 200
    assert '<ins><span class="unseen">added: </span>' in shown.text
    assert 'label = "A & B"' in unescape(shown.text)
    done = confirm(console, path, shown)
    assert done.status_code == 303
    result = console.get(done.headers["location"])
    [key] = re.findall(r'value="(tg_\w{40})"', result.text)
    assert result.headers["cache-control"] == "no-store"
    assert key not in console.get(done.headers["location"]).text
    assert confirm(console, path, shown).headers["location"] == done.headers["location"]


def test_pages_link_to_the_forms(console: httpx.Client) -> None:
    page = console.get("/workspaces/acme").text
    for action in ("keys/create", "wallet/credit", "wallet/debit"):
        assert f'href="/changes/{action}/acme"' in page
    assert 'href="/changes/keys/set/acme/ci"' in page
    form = console.get("/changes/keys/set/acme/ci").text
    for action in ("rotate", "revoke"):
        assert f'href="/changes/keys/{action}/acme/ci"' in form

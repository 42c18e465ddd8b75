"""Changes in the console of a real gateway: the difference first, then one edit, then one line in the audit log."""

import re
from collections.abc import Iterator
from html import unescape
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import new_key
from rig.console_forms import (
    ENVIRONMENT,
    PASSWORD,
    SECTIONS,
    confirm,
    form_token,
    log_in,
    send,
    token_of,
)
from rig.gateway import Gateway
from rig.settings_files import edit

from addon.settings.api_keys import hash_key

KEYS = re.compile(r'value="(tg_\w{40})"')


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(
        sections=SECTIONS,
        environment=ENVIRONMENT,
    )


@pytest.fixture(scope="module")
def closed(_shared_gateway: Gateway) -> str:
    """The URL of a console without a password."""
    return _shared_gateway.admin_url


@pytest.fixture
def console(gateway: Gateway) -> Iterator[httpx.Client]:
    with log_in(gateway) as client:
        yield client


def change(console: httpx.Client, path: str, **typed: str) -> str:
    """Make a change, and return the page of its result."""
    shown = send(console, path, **typed)
    assert shown.status_code == 200, shown.text
    done = confirm(console, path, shown)
    assert done.status_code == 303, done.text
    return console.get(done.headers["location"]).text


def status_of(gateway: Gateway, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    # The key is checked before the body, which is empty.
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, headers=headers, json={}, timeout=BOUND_S).status_code


def wait_for_status(gateway: Gateway, key: str, status: int) -> None:
    """Wait until the gateway has read the file: this key is answered with ``status``."""
    deadline_s = monotonic() + BOUND_S
    while status_of(gateway, key) != status:
        assert monotonic() < deadline_s
        sleep(0.02)


def test_a_new_key_is_shown_once_and_works(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/keys/create/acme"
    shown = send(console, path, id="phone", label="A & B", spend_cap_usd="20", spend_reset="daily")
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
    wait_for_status(gateway, key, 400)


def test_a_key_is_rotated_and_revoked(gateway: Gateway, console: httpx.Client) -> None:
    [first] = KEYS.findall(change(console, "/changes/keys/create/bare", id="phone"))
    wait_for_status(gateway, first, 400)
    [second] = KEYS.findall(change(console, "/changes/keys/rotate/bare/phone", grace="24h"))
    wait_for_status(gateway, second, 400)
    assert status_of(gateway, first) == 400
    assert not KEYS.findall(change(console, "/changes/keys/revoke/bare/phone"))
    wait_for_status(gateway, first, 401)
    assert status_of(gateway, second) == 401


def test_a_change_is_confirmed_in_its_session_only(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/keys/create/acme"
    shown = send(console, path, id="copied")
    token = token_of(shown)
    with log_in(gateway) as other:
        own_form = form_token(other.get(path))
        assert other.post(path, data={"_xsrf": own_form, "token": token}).status_code == 409
        # Neither a copied page nor a copied cookie is enough: each form has the token of its session.
        assert other.post(path, data={"_xsrf": form_token(shown), "token": token}).status_code == 403
        stranger = httpx.post(f"{gateway.admin_url}{path}", data={"token": token}, timeout=BOUND_S)
        assert stranger.status_code in (303, 401, 403)
        done = confirm(console, path, shown).headers["location"]
        assert other.get(done).status_code == 404
    [key] = KEYS.findall(console.get(done).text)
    wait_for_status(gateway, key, 400)


def test_a_logout_ends_what_waits_for_its_confirmation(gateway: Gateway) -> None:
    path = "/changes/keys/create/acme"
    with log_in(gateway) as console, httpx.Client(base_url=gateway.admin_url, timeout=BOUND_S) as thief:
        shown = send(console, path, id="late")
        thief.cookies.update(console.cookies)
        assert thief.get(path).status_code == 200
        console.post("/logout", data={"_xsrf": form_token(shown)})
        assert confirm(thief, path, shown).headers["location"].startswith("/login")
        console.post("/login", data={"_xsrf": form_token(console.get("/login")), "password": PASSWORD})
        again = console.post(path, data={"_xsrf": form_token(console.get(path)), "token": token_of(shown)})
        assert again.status_code == 409
    assert 'id = "late"' not in (gateway.folder / "policies/workspaces/acme.toml").read_text()


def test_the_page_after_a_change_leads_to_its_new_state(gateway: Gateway, console: httpx.Client) -> None:
    def keys() -> dict[str, Any]:
        return {row["key_id"]: row for row in console.get("/api/v1/workspaces/acme?table=keys").json()}

    done = change(console, "/changes/keys/create/acme", id="shown", label="one")
    assert "The gateway uses the change." in done
    assert keys()["shown"]["label"] == "one"
    assert "The gateway uses the change." in change(console, "/changes/keys/set/acme/shown", label="two")
    assert keys()["shown"]["label"] == "two"
    assert "The gateway uses the change." in change(console, "/changes/keys/revoke/acme/shown")
    assert keys()["shown"]["state"] == "not active"
    text = (gateway.folder / "policies/workspaces/acme.toml").read_text()
    path = "/changes/workspaces/edit/acme"
    digest = re.search(r'name="digest" value="(\w+)"', console.get(path).text)
    assert digest
    typed = unescape(
        console.get(path).text.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]
    )
    assert "The gateway uses the change." in change(
        console, path, text=f"# by hand\n{typed.removeprefix(chr(10))}", digest=digest[1]
    )
    assert (gateway.folder / "policies/workspaces/acme.toml").read_text() == f"# by hand\n{text}"
    # A change of the ledger is no change of a file.
    assert "The gateway uses" not in change(
        console, "/changes/wallet/credit/acme", amount="1", reference="now"
    )


def test_a_form_has_the_current_values_and_keeps_what_was_typed(console: httpx.Client) -> None:
    path = "/changes/keys/set/acme/ci"
    change(console, path, label='<script>"x"', request_cap="9000")
    form = console.get(path).text
    assert 'value="&lt;script&gt;&quot;x&quot;"' in form
    assert 'value="9000"' in form
    wrong = send(console, path, label="new", request_cap="many")
    assert wrong.status_code == 400
    assert 'id="error-request_cap">must be a whole number from 1 on<' in wrong.text
    assert 'value="new"' in wrong.text
    assert 'value="many"' in wrong.text
    assert "<script>" not in wrong.text.replace('<script src="/static/console.js" defer></script>', "")


def test_an_api_key_in_the_wrong_field_is_on_no_page(console: httpx.Client) -> None:
    key = new_key()
    wrong = send(console, "/changes/wallet/credit/acme", amount=key, reference="May")
    assert wrong.status_code == 400
    assert "is not a plain decimal number" in wrong.text
    assert key not in wrong.text


def test_a_file_that_is_edited_between_the_difference_and_the_confirmation(
    gateway: Gateway, console: httpx.Client
) -> None:
    path, file = "/changes/keys/set/acme/retired", gateway.folder / "policies/workspaces/acme.toml"
    shown = send(console, path, label="old")
    edit(file, "", "# by hand\n")
    refused = confirm(console, path, shown)
    assert refused.status_code == 409
    assert "The file has changed since" in refused.text
    assert 'value="old"' in refused.text
    assert file.read_text().endswith("# by hand\n")


def test_a_wallet_is_credited_once(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/wallet/credit/bare"
    shown = send(console, path, amount="12.5", reference="invoice 7")
    assert "balance 12.50 USD" in shown.text
    first, second = confirm(console, path, shown), confirm(console, path, shown)
    assert first.headers["location"] == second.headers["location"]
    assert "The balance is 10.00 USD" in change(
        console, "/changes/wallet/debit/bare", amount="2.5", reference="refund"
    )
    again = send(console, path, amount="12.5", reference="invoice 7")
    assert again.status_code == 400
    assert "Already entered" in again.text


def test_the_audit_log_is_a_view_and_shows_no_secret(gateway: Gateway, console: httpx.Client) -> None:
    [key] = KEYS.findall(change(console, "/changes/keys/create/acme", id="canary"))
    number = console.get("/api/v1/audit").json()["audit"][0]["number"]
    assert "id = &quot;canary&quot;</bdi></ins>" in console.get(f"/audit/{number}").text
    assert console.get(f"/audit/{number + 1}").status_code == 404
    pages = [
        console.get(path).text
        for path in (
            "/audit",
            f"/audit/{number}",
            f"/api/v1/audit/{number}",
            "/api/v1/audit",
            "/api/v1/audit?format=csv",
            "/changes/keys/set/acme/canary",
        )
    ]
    [line] = console.get("/api/v1/audit?workspace=acme&action=keys+create").json()["audit"][:1]
    assert (line["action"], line["subject"], line["address"]) == ("keys create", "canary", "127.0.0.1")
    assert len(line["session"]) == 16
    older = console.get(f"/api/v1/audit?before={line['number']}").json()["audit"]
    assert all(one["number"] < line["number"] for one in older)
    cookies = [value for _, value in console.cookies.items()]
    hashes = re.findall(
        "sha256:([0-9a-f]{64})", (gateway.folder / "policies/workspaces/acme.toml").read_text()
    )
    for secret in (key, hash_key(key), *hashes, *gateway.keys.values(), PASSWORD, *cookies):
        assert not [page for page in pages if secret in page]
        assert secret not in str(gateway.logs)


@pytest.mark.parametrize("path", ["/changes/keys/create/acme", "/changes/keys/revoke/acme/ci"])
def test_nothing_is_changed_without_the_right(
    gateway: Gateway, console: httpx.Client, closed: str, path: str
) -> None:
    assert "need a password" in httpx.get(closed + path, timeout=BOUND_S).text
    assert httpx.get(closed + path, timeout=BOUND_S).status_code == 403
    assert httpx.post(closed + path, timeout=BOUND_S).status_code == 403
    page = httpx.get(closed + "/workspaces/acme", timeout=BOUND_S).text
    assert "/changes/" not in page
    assert "Changes need a password" in page
    # Without a session, without the token of its forms, and from another site.
    assert httpx.post(gateway.admin_url + path, timeout=BOUND_S).headers["location"] == "/login"
    assert console.post(path).status_code == 403
    token = form_token(console.get(path))
    site = {"Sec-Fetch-Site": "cross-site"}
    assert console.post(path, data={"_xsrf": token}, headers=site).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/changes",
        "/changes/keys/set/acme",
        "/changes/keys/drop/acme",
        "/changes/done/x",
        "/changes/keys/set/acme/x",
    ],
)
def test_an_unknown_form_is_not_found(console: httpx.Client, path: str) -> None:
    assert console.get(path).status_code == 404


def test_pages_link_to_the_forms(console: httpx.Client) -> None:
    page = console.get("/workspaces/acme").text
    for action in ("keys/create", "wallet/credit", "wallet/debit"):
        assert f'href="/changes/{action}/acme"' in page
    assert 'href="/changes/keys/set/acme/ci"' in page
    form = console.get("/changes/keys/set/acme/ci").text
    for action in ("rotate", "revoke"):
        assert f'href="/changes/keys/{action}/acme/ci"' in form

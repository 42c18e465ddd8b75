"""The pages of a change can be loaded again, and a change that fails for now is confirmed again."""

from collections.abc import Iterator

import httpx
import pytest
from conftest import StartGateway
from rig.console_forms import ENVIRONMENT, SECTIONS, confirm, form_token, log_in, send, token_of
from rig.gateway import Gateway


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(sections=SECTIONS, environment=ENVIRONMENT)


@pytest.fixture
def console(gateway: Gateway) -> Iterator[httpx.Client]:
    with log_in(gateway) as client:
        yield client


def test_a_page_after_a_form_can_be_loaded_again(console: httpx.Client) -> None:
    path = "/changes/keys/set/acme/ci"
    sent = console.post(path, data={"_xsrf": form_token(console.get(path)), "label": "again"})
    assert sent.status_code == 303
    difference = sent.headers["location"]
    shown = [console.get(difference) for _ in range(2)]
    assert {one.status_code for one in shown} == {200}
    assert {one.headers["cache-control"] for one in shown} == {"no-store"}
    assert token_of(shown[0]) == token_of(shown[1])
    data = {"_xsrf": form_token(shown[0]), "token": token_of(shown[0]), "again": "1"}
    fields = console.post(path, data=data)
    assert 'value="again"' in console.get(fields.headers["location"]).text
    done = confirm(console, path, shown[0]).headers["location"]
    made = console.get(difference)
    assert "This change was made." in made.text
    assert f'href="{done}"' in made.text
    assert 'name="token"' not in made.text


def test_a_waiting_change_is_shown_in_its_session_and_its_form_only(
    gateway: Gateway, console: httpx.Client
) -> None:
    path = "/changes/keys/set/acme/ci"
    shown = send(console, path, label="mine")
    for part in ("change", "fields"):
        query = f"?{part}={token_of(shown)}"
        assert "mine" in console.get(path + query).text
        assert console.get(f"/changes/keys/set/acme/retired{query}").status_code == 409
        with log_in(gateway) as other:
            refused = other.get(path + query)
        assert refused.status_code == 409
        assert "mine" not in refused.text


def test_a_change_that_can_not_be_made_now_is_confirmed_again(
    gateway: Gateway, console: httpx.Client
) -> None:
    path, file = "/changes/keys/set/acme/ci", gateway.folder / "policies/workspaces/acme.toml"
    ledger = gateway.folder / "var/tollgate.db"
    shown, before = send(console, path, label="later"), file.read_bytes()
    ledger.rename(ledger.with_suffix(".moved"))
    try:
        failed = confirm(console, path, shown)
    finally:
        ledger.with_suffix(".moved").rename(ledger)
    assert failed.status_code == 303
    again = console.get(failed.headers["location"])
    assert "The change could not be made now" in again.text
    assert file.read_bytes() == before
    done = confirm(console, path, again)
    assert done.headers["location"].startswith("/changes/done/")
    assert 'label = "later"' in file.read_text()

"""``/workspaces``, ``/settings`` and ``/explain`` of a real gateway show the same as its commands."""

import json
import re
from html import unescape
from typing import Any

import httpx
import pytest
from conftest import Chat, StartGateway
from rig.bounds import BOUND_S
from rig.canaries import Canaries, seen_in_answer
from rig.commands import run_alone, tollgate
from rig.configuration import PROVIDER_KEY, key_hash, new_key, workspace
from rig.gateway import Gateway
from rig.money import credit

PASSWORD = "obviously fake pass phrase"
OWN_KEY = "fake-own-key-of-a-customer-71f2"
HELLO = {"model": "tester-small", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


def run_json(gateway: Gateway, *arguments: str) -> Any:
    ended = tollgate(gateway.folder, *arguments, "--json")
    return json.loads(ended.stdout)


def get(gateway: Gateway, path: str) -> httpx.Response:
    return httpx.get(gateway.admin_url + path, timeout=BOUND_S, trust_env=False)


def test_a_workspace_has_the_limits_and_the_wallet_of_the_commands(gateway: Gateway, chat: Chat) -> None:
    answer = chat(model="tester-large")
    assert answer.status_code == 200
    gateway.wait_for_row(answer.headers["x-request-id"])
    credit(gateway.folder / "var" / "tollgate.db", "acme", "5", "console")
    data = get(gateway, "/api/v1/workspaces/acme?range=month").json()
    limits = run_json(gateway, "usage", "--workspace", "acme", "--by", "limits")["limits"]
    assert data["limits"] == [{name: row[name] for name in row if name != "label"} for row in limits]
    [balance] = [row for row in run_json(gateway, "wallet", "balance") if row["workspace"] == "acme"]
    assert data["wallet"] == {name: balance[name] for name in data["wallet"]}
    entries = run_json(gateway, "wallet", "history", "acme")
    assert data["wallet_entries"] == entries
    month = run_json(gateway, "usage", "--workspace", "acme", "--by", "key", "--since", data["from"])
    for row in month["totals"]["key"]:
        [key] = [one for one in data["keys"] if one["key_id"] == row["key_id"]]
        assert (key["calls"], key["retail_nanousd"]) == (row["calls"], row["retail_nanousd"])
    listed = get(gateway, "/api/v1/workspaces?range=month").json()["workspaces"]
    [acme] = [row for row in listed if row["workspace"] == "acme"]
    assert acme["calls"] == sum(row["calls"] for row in month["totals"]["key"])
    for path in ("/workspaces", "/workspaces/acme", "/workspaces/acme?range=month"):
        assert get(gateway, path).status_code == 200


def test_the_settings_have_the_warnings_of_check(gateway: Gateway) -> None:
    data = get(gateway, "/api/v1/settings").json()
    checked = run_json(gateway, "check")
    assert data["warnings"] == [
        {name: row[name] for name in ("kind", "file", "key", "reason")} for row in checked["warnings"]
    ]
    assert (data["version"], data["keys"]) == (checked["version"], checked["keys"])
    assert {row["file"] for row in data["files"]} == set(checked["files"])
    assert get(gateway, "/settings").status_code == 200


def test_an_explanation_is_that_of_the_command(gateway: Gateway) -> None:
    ended = run_alone(
        gateway.folder,
        *("explain", "-", "--workspace", "acme", "--json", "--conf", str(gateway.folder / "proxy.conf")),
        stdin=json.dumps(HELLO),
        TEST_PROVIDER_KEY=PROVIDER_KEY,
    )
    expected = json.loads(ended.stdout)
    url = f"{gateway.admin_url}/api/v1/explain"
    asked = {"workspace": "acme", "body": HELLO}
    data = httpx.post(url, json=asked, timeout=BOUND_S, trust_env=False).json()
    assert {name: data[name] for name in expected} == expected
    form = {"workspace": "acme", "key": "", "body": json.dumps(HELLO)}
    page = httpx.post(f"{gateway.admin_url}/explain", data=form, timeout=BOUND_S, trust_env=False)
    assert page.status_code == 200
    assert "Attempt 1: tester-small at TESTER" in unescape(page.text)
    # The examples keep the chosen workspace.
    assert 'href="/explain?example=tools&workspace=acme"' in unescape(page.text)


def test_a_wrong_field_is_an_error_and_another_site_may_not_ask(gateway: Gateway) -> None:
    url = f"{gateway.admin_url}/explain"
    form = {"workspace": "acmee", "body": "{}"}
    page = httpx.post(url, data=form, timeout=BOUND_S, trust_env=False)
    assert page.status_code == 400
    assert 'unknown workspace "acmee"; did you mean "acme"?' in unescape(page.text)
    unknown = httpx.post(url, data=form | {"wrokspace": "x"}, timeout=BOUND_S, trust_env=False)
    assert unknown.status_code == 400
    assert "wrokspace: there is no such field here" in unescape(unknown.text)
    foreign = {"Origin": "https://elsewhere.example"}
    assert httpx.post(url, data=form, headers=foreign, timeout=BOUND_S, trust_env=False).status_code == 403
    large = {"workspace": "acme", "body": json.dumps(HELLO | {"user": "x" * 500_000})}
    assert httpx.post(url, data=large, timeout=BOUND_S, trust_env=False).status_code == 200


@pytest.fixture(scope="module")
def guarded(start_gateway: StartGateway) -> Gateway:
    """A gateway whose console has a password, with a secret of each kind."""
    keys = {name: new_key() for name in ("ci", "retired", "bare")}
    acme = workspace(
        ("ci", keys["ci"], True),
        ("retired", keys["retired"], False),
        byok={"TESTER": {"secret": "env:OWN_KEY", "routing": True}},
    )
    return start_gateway(
        keys=keys,
        workspaces={"acme": acme},
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD, "OWN_KEY": OWN_KEY},
    )


def test_a_program_explains_with_the_password_only(guarded: Gateway) -> None:
    url, asked = f"{guarded.admin_url}/api/v1/explain", {"workspace": "acme", "body": HELLO}
    assert httpx.post(url, json=asked, timeout=BOUND_S, trust_env=False).status_code == 401
    headers = {"Authorization": f"Bearer {PASSWORD}"}
    answer = httpx.post(url, json=asked, headers=headers, timeout=BOUND_S, trust_env=False)
    assert answer.json()["attempts"][0]["mode"] == "byok"


def test_a_browser_needs_the_token_of_its_session(guarded: Gateway) -> None:
    with httpx.Client(base_url=guarded.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        log_in = hidden_fields(browser.get("/login"))
        assert browser.post("/login", data=log_in | {"password": PASSWORD}).status_code == 303
        form = {"workspace": "acme", "body": json.dumps(HELLO)}
        assert browser.post("/explain", data=form).status_code == 403
        page = browser.get("/explain?workspace=acme&example=plain")
        assert browser.post("/explain", data=form | hidden_fields(page)).status_code == 200


def hidden_fields(page: httpx.Response) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    return {name: unescape(value) for name, value in found}


def test_no_page_and_no_data_has_a_secret(guarded: Gateway) -> None:
    secrets = {f"key {name}": key for name, key in guarded.keys.items()}
    secrets |= {
        f"hash of {name}": key_hash(key).removeprefix("sha256:") for name, key in guarded.keys.items()
    }
    secrets |= {"own key": OWN_KEY, "password": PASSWORD, "platform": PROVIDER_KEY}
    canaries = Canaries(secrets)
    headers = {"Authorization": f"Bearer {PASSWORD}"}
    with httpx.Client(base_url=guarded.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        data = [
            browser.get(f"/api/v1/{view}", headers=headers)
            for view in ("workspaces", "workspaces/acme", "settings", "explain")
        ]
        asked = {"workspace": "acme", "body": HELLO}
        data.append(browser.post("/api/v1/explain", json=asked, headers=headers))
        log_in = hidden_fields(browser.get("/login"))
        browser.post("/login", data=log_in | {"password": PASSWORD})
        data += [browser.get(f"/{view}") for view in ("workspaces", "workspaces/acme", "settings", "explain")]
    for answer in data:
        assert answer.status_code == 200
        assert canaries.found_in(seen_in_answer(answer)) == set(), answer.url

"""Budgets of users and tags, with two workers: one user's budget is never exceeded, and another's is not touched."""

import json
from collections.abc import Iterator

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.large import sized
from rig.load import as_dear_as_allowed, run_calls, sized_calls
from rig.money import USD, select
from rig.upstream import Upstream
from rig.workers import CHAT, TWO

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}
KEYS = {"acme": new_key(), "strict": new_key()}
USERS = {"for": "user", "spend_cap_usd": "1", "spend_reset": "daily"}
TEAMS = {"for": "tag:team", "spend_cap_usd": "0.5", "required": True}
AT_ONCE = sized(60, 200)


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Iterator[Gateway]:
    workspaces = {
        "acme": workspace(("ci", KEYS["acme"], True), plan="pro", budgets=[USERS], rpm_override=10_000),
        "strict": workspace(("ci", KEYS["strict"], True), plan="pro", budgets=[USERS, TEAMS]),
    }
    gateway = start_gateway(models=MODELS, workspaces=workspaces, arguments=TWO)
    yield gateway
    assert gateway.stop() == 0


def call(gateway: Gateway, name: str, **more: object) -> httpx.Response:
    body = {"model": "dear", "messages": HELLO, "max_tokens": 10, **more}
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    return httpx.post(gateway.url + CHAT, json=body, headers=headers, timeout=BOUND_S, trust_env=False)


def test_calls_of_one_user_at_once_never_spend_more_than_the_budget(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(as_dear_as_allowed)
    calls = {name: body | {"user": "ann"} for name, body in sized_calls(AT_ONCE, "dear").items()}
    outcome = run_calls([gateway.url], KEYS["acme"], calls, at_once=AT_ONCE)
    assert not outcome.unanswered
    assert set(outcome.statuses) == {200, 402}
    served = len(outcome.of_status(200))
    ledger, sql = gateway.folder / "var" / "tollgate.db", "SELECT * FROM usage WHERE workspace = ?"
    gateway.wait_until(lambda: len(select(ledger, sql, "acme")) >= served)
    rows = select(ledger, sql, "acme")
    assert USD // 2 <= sum(row["retail_nanousd"] for row in rows) <= USD
    for answer in outcome.of_status(402):
        error = assert_error(answer, 402, "payment_required", "invalid_request_error")
        assert 'the budget of user "ann"' in error["message"]
    assert call(gateway, "acme", user="ben").status_code == 200
    verified = tollgate(gateway.folder, "ledger", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shown = tollgate(gateway.folder, "usage", "--by", "budgets", "--csv")
    first, second, *_ = shown.stdout.splitlines()[1:]
    assert first.startswith("acme,user,ann,20")
    assert second.startswith("acme,user,ben,20")
    table = httpx.get(
        f"{gateway.admin_url}/api/v1/workspaces/acme?table=budgets&format=csv",
        timeout=BOUND_S,
        trust_env=False,
    )
    assert table.text.splitlines() == [line for line in shown.stdout.splitlines() if "strict" not in line]
    assert (
        "Budgets of users and tags now"
        in httpx.get(f"{gateway.admin_url}/workspaces/acme", timeout=BOUND_S, trust_env=False).text
    )


def test_explain_shows_the_budget_that_would_pay(gateway: Gateway) -> None:
    asked = {"model": "dear", "messages": HELLO, "user": "cid", "metadata": {"team": "search"}}
    (gateway.folder / "request.json").write_text(json.dumps(asked))
    options = ("request.json", "--workspace", "strict")
    found = json.loads(tollgate(gateway.folder, "explain", *options, "--json").stdout)
    limits = [(row["limit"], row["budget"], row["value"]) for row in found["attempts"][0]["limits"]]
    assert limits == [("budget_cap", "user", "cid"), ("budget_cap", "tag:team", "search")]
    assert "budget cap of user cid" in tollgate(gateway.folder, "explain", *options).stdout


def test_a_field_that_a_budget_requires_is_named(gateway: Gateway, upstream: Upstream) -> None:
    asked = len(upstream.requests)
    error = assert_error(
        call(gateway, "strict", user="ann"), 400, "validation_failed", "invalid_request_error"
    )
    assert error["param"] == "metadata.team"
    error = assert_error(
        call(gateway, "strict", metadata={"team": ""}), 400, "validation_failed", "invalid_request_error"
    )
    assert error["message"] == "metadata.team: A text is required by a budget of the workspace"
    assert len(upstream.requests) == asked
    assert call(gateway, "strict", metadata={"team": "search"}).status_code == 200


def test_a_credential_in_a_field_names_no_counter(gateway: Gateway, upstream: Upstream) -> None:
    secret = "sk-1234567890abcdef"
    answer = call(gateway, "strict", user=secret, metadata={"team": f"of {secret}"})
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert secret not in str(row)
    scopes = [
        row["scope"] for row in select(gateway.folder / "var" / "tollgate.db", "SELECT scope FROM spend")
    ]
    assert secret not in str(scopes)
    assert "budget:strict/tag:team/ever/=of ***" in scopes

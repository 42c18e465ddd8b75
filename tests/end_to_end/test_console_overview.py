"""The front page of a gateway that made real calls: its numbers are those of ``tollgate usage --json``."""

import json
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.large import large_only

KEYS = {"acme": new_key(), "beta": new_key()}


@pytest.fixture(scope="module")
def used(start_gateway: StartGateway) -> Gateway:
    """A gateway that has served, failed and refused calls of two workspaces."""
    gateway = start_gateway(
        workspaces={
            name: workspace(("ci", key, True), monthly_spend_cap_usd="2") for name, key in KEYS.items()
        }
    )
    for name, model, count in (
        ("acme", "tester-large", 3),
        ("acme", "tester-small", 1),
        ("beta", "tester-large", 1),
        ("beta", "refusing-model", 2),
        ("beta", "tester-retired", 4),
    ):
        for _ in range(count):
            httpx.post(
                f"{gateway.url}/v1/chat/completions",
                headers={"Authorization": f"Bearer {KEYS[name]}"},
                json={"model": model, "messages": HELLO},
                timeout=BOUND_S,
            )
    # Counts of refused calls are written once a second.
    gateway.wait_until(lambda: [row["count"] for row in read(gateway)["refusals"]] == [4])
    return gateway


def read(gateway: Gateway, query: str = "") -> dict[str, Any]:
    answer = httpx.get(f"{gateway.admin_url}/api/v1/overview{query}", timeout=BOUND_S)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def usage(gateway: Gateway, by: str, *options: str) -> list[dict[str, Any]]:
    shown = json.loads(tollgate(gateway.folder, "usage", "--json", "--by", by, *options).stdout)
    rows: list[dict[str, Any]] = shown["totals"][by] if by not in ("limits", "refusals") else shown[by]
    return rows


@large_only
def test_numbers_are_those_of_usage(used: Gateway) -> None:
    found = read(used)
    for by, table in (("model", "models"), ("workspace", "workspaces"), ("provider", "providers")):
        expected = usage(used, by)
        shared = [name for name in expected[0] if name in found[table][0]]
        assert [{name: row[name] for name in shared} for row in found[table] if row["calls"]] == [
            {name: row[name] for name in shared} for row in expected
        ]
    now = found["figures"][0]
    assert (now["calls"], now["failed_calls"]) == (7, 2)
    for column in (
        "retail_nanousd",
        "wholesale_nanousd",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
    ):
        assert now[column] == sum(row[column] for row in usage(used, "model"))
    assert sum(row["retail_nanousd"] for row in found["spend"]) == now["retail_nanousd"] > 0
    assert found["calls_in_flight"] == 0


def test_limits_and_refusals_are_those_of_usage(used: Gateway) -> None:
    found = read(used)
    limits = {row["workspace"]: row for row in usage(used, "limits")}
    assert {row["workspace"] for row in found["budgets"]} == {"acme", "beta"}
    for row in found["budgets"]:
        limit = limits[row["workspace"]]
        assert (row["limit"], row["period"]) == (limit["limit"], limit["period"])
        assert (row["used_nanousd"], row["left_nanousd"]) == (limit["spent_nanousd"], limit["left_nanousd"])
        assert row["outlook"] == "too_early"
    [refused] = usage(used, "refusals")
    assert (refused["workspace"], refused["count"]) == ("beta", 4)
    assert found["refusals"] == [{name: refused[name] for name in found["refusals"][0]}]


def test_a_filter_is_that_of_usage(used: Gateway) -> None:
    found = read(used, "?workspace=acme&by=key&range=hour")
    [row] = usage(used, "key", "--workspace", "acme")
    assert found["figures"][0]["retail_nanousd"] == row["retail_nanousd"]
    assert {(one["workspace"], one["key_id"]) for one in found["spend"]} == {("acme", "ci")}


def test_the_page_shows_the_same(used: Gateway) -> None:
    page = httpx.get(used.admin_url, timeout=BOUND_S)
    assert page.status_code == 200, page.text
    for text in ("tester-large", "2 of 7 calls", "0 in flight now", "No calls before.", "too early to say"):
        assert text in page.text
    assert 'href="/workspaces/acme"' in page.text
    text = httpx.get(f"{used.admin_url}/api/v1/?table=models&format=csv", timeout=BOUND_S).text
    assert text.startswith("model_slug,")

"""The numbers that a person reads are those of ``tollgate usage --json``, and they are those of all workers."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from conftest import StartGateway
from rig.browser import Tab
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.console_scene import Caller, call_in_flight
from rig.gateway import Gateway
from rig.large import large_only
from rig.scripts import ordinary, whole
from rig.shown_page import read_ids, read_table, read_tiles

from addon.console.display import count, exact_money, money, percent
from browser.conftest import OpenTab

SUMS = ("calls", "failed_calls", "prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
CALLERS = 24
"""The kernel spreads connections by a hash: once in 8 million runs all of these meet the same of two workers."""
REFUSED = 3


@pytest.fixture(scope="module")
def used(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Iterator[Gateway]:
    """Two workers that have served calls, failed calls and refused calls, with one call in flight."""
    keys = {name: new_key() for name in ("ci", "shop", "retired", "bare")}
    acme = workspace(("ci", keys["ci"], True), ("retired", keys["retired"], False), monthly_spend_cap_usd="1")
    acme["keys"][0] |= {"spend_cap_usd": "0.5", "request_cap": 1000}
    shop = workspace(("shop", keys["shop"], True)) | {"plan": "standard"}
    gateway = start_gateway(
        keys=keys, workspaces={"acme": acme, "shop": shop}, arguments=("--port", "0", "--workers", "2")
    )
    credited = tollgate(gateway.folder, "wallet", "credit", "shop", "5")
    assert credited.returncode == 0, credited.stderr
    make_calls(gateway, upstreams["TESTER"])
    caller = Caller(gateway)
    with call_in_flight(caller, upstreams["TESTER"]):
        yield gateway
    caller.close()


def make_calls(gateway: Gateway, upstream: Any) -> None:
    """Make calls, each on its own connection."""
    upstream.behave(ordinary)
    for nth in range(CALLERS):
        with closing(Caller(gateway)) as caller:
            model = ("tester-large", "tester-small", "vendor/tall")[nth % 3]
            assert caller.call(("ci", "shop")[nth % 2], model=model).status_code == 200
    upstream.behave(whole({"error": {"message": "no"}}, 400))
    with closing(Caller(gateway)) as caller:
        assert caller.call("shop").status_code == 400
        for _ in range(REFUSED):
            assert caller.call("retired").status_code == 401
    gateway.wait_until(lambda: len(gateway.ledger_rows()) == CALLERS + 1)
    # Counts of refused calls are written once a second.
    gateway.wait_until(lambda: sum(row["count"] for row in usage(gateway, "refusals")) == REFUSED)


def usage(gateway: Gateway, by: str) -> list[dict[str, Any]]:
    """Return the rows of ``tollgate usage --by``."""
    done = tollgate(gateway.folder, "usage", "--json", "--by", by)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    rows: list[dict[str, Any]] = shown[by] if by in ("limits", "refusals") else shown["totals"][by]
    return rows


@pytest.fixture(scope="module")
def page(browser: Any, used: Gateway) -> Iterator[Tab]:
    """The front page."""
    with closing(Tab(browser, used.admin_url)) as tab:
        assert tab.open("/") == 200
        yield tab


@large_only
def test_the_figures_are_the_sums_of_usage(page: Tab, used: Gateway) -> None:
    rows = usage(used, "model")
    sums = {name: sum(row[name] for row in rows) for name in SUMS}
    tokens, calls = sums["prompt_tokens"] + sums["completion_tokens"], sums["calls"]
    spend, wholesale, failed = sums["retail_nanousd"], sums["wholesale_nanousd"], sums["failed_calls"]
    tiles = read_tiles(page)
    assert {name: (tile["figure"], tile["exact"]) for name, tile in tiles.items() if tile["exact"]} == {
        "Spend": (money(spend), exact_money(spend)),
        "Calls": (count(calls), count(calls)),
        "Tokens": (count(tokens), count(tokens)),
    }
    assert tiles["Errors"]["figure"] == percent(failed / calls)
    assert tiles["Errors"]["note"] == f"{failed} of {calls} calls"
    assert tiles["Spend"]["note"] == f"wholesale {money(wholesale)}, margin {money(spend - wholesale)}"
    assert tiles["Calls"]["note"] == "1 in flight now"
    assert (calls, failed) == (CALLERS + 1, 1)


@large_only
@pytest.mark.parametrize(
    ("by", "column", "table"), [("model", "model_slug", "models"), ("workspace", "workspace", "workspaces")]
)
def test_the_top_tables_are_those_of_usage(
    page: Tab, used: Gateway, by: str, column: str, table: str
) -> None:
    shown: Mapping[str, Callable[[dict[str, Any]], str]] = {
        column: lambda row: str(row[column]),
        "calls": lambda row: count(row["calls"]),
        "error_rate": lambda row: percent(row["failed_calls"] / row["calls"]),
        "prompt_tokens": lambda row: count(row["prompt_tokens"]),
        "completion_tokens": lambda row: count(row["completion_tokens"]),
        "retail_nanousd": lambda row: money(row["retail_nanousd"]),
    }
    expected = [{name: show(row) for name, show in shown.items()} for row in usage(used, by)]
    assert read_table(page, table) == expected != []


def within_hour(hour: str) -> str:
    """Return an hour of usage as the console shows it, which names no minute that nothing has kept."""
    shown = hour.replace("T", " ")
    return f"{shown}:00 to {shown[-2:]}:59"


@large_only
def test_refusals_are_those_of_usage(page: Tab, used: Gateway) -> None:
    expected = [
        {
            "code": row["code"],
            "workspace": row["workspace"],
            "key_id": row["key_id"],
            "api": row["api"],
            "count": count(row["count"]),
            "last_hour": within_hour(row["last_hour"]),
        }
        for row in usage(used, "refusals")
    ]
    assert read_table(page, "refusals") == expected != []


@large_only
def test_budgets_are_the_limits_of_usage(page: Tab, used: Gateway) -> None:
    columns = ("workspace", "key_id", "limit", "period", "left_nanousd")
    shown = {tuple(row[name] for name in columns) for row in read_table(page, "budgets")}
    assert shown == {
        (
            row["workspace"],
            row["key_id"] or "–",
            row["limit"].replace("_", " "),
            row["period"],
            money(row["left_nanousd"]) if row["requests_left"] is None else count(row["requests_left"]),
        )
        for row in usage(used, "limits")
    }
    assert {limit for _, _, limit, *_ in shown} == {"wallet", "monthly spend cap", "spend cap", "request cap"}


@large_only
def test_providers_are_those_of_usage_with_their_keys(page: Tab, used: Gateway) -> None:
    [expected] = usage(used, "provider")
    shown = {row["provider"]: row for row in read_table(page, "providers")}
    assert shown["TESTER"]["calls"] == count(expected["calls"])
    keys = {name: (row["keys_ready"], row["keys_resting"]) for name, row in shown.items()}
    assert keys == dict.fromkeys(("TESTER", "SECURE", "UNTRUSTED", "REFUSING", "DEAF"), ("2", "0"))


@large_only
def test_calls_of_all_workers_are_shown(open_tab: OpenTab, page: Tab, used: Gateway) -> None:
    served_by = {line["id"]: line["worker"] for line in used.logs if line.get("event") == "call"}
    tab = open_tab(used)
    assert tab.open("/calls") == 200
    ids = read_ids(tab)
    assert ids == [row["id"] for row in reversed(used.ledger_rows())]
    assert {served_by[one] for one in ids} == {1, 2}
    assert read_tiles(page)["Calls"]["exact"] == str(len(ids))
    assert tab.faults + page.faults == []

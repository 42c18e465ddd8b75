"""A provider that keeps failing: the providers that the gateway calls, and what clients and operators see.

Each test has its own providers, and ends long before an open circuit allows a probe (a quarter of a minute).
unit/policies/test_circuit_breaker.py and unit/store/rates/test_circuits.py test the times of the rule and of
the probe.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.circuit_scenario import (
    CUSTOMER,
    FAILURES,
    PATH,
    PLATFORM,
    TESTS,
    Scenario,
    circuit_settings,
    provider_of,
)
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import holds, select
from rig.upstream import Upstream

from addon.store.money.sqlite.store import SqliteStore


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    settings, keys = circuit_settings(upstreams["TESTER"].base_url)
    made = start_gateway(**settings)
    made.keys = keys
    return made


@pytest.fixture
def scenario(request: pytest.FixtureRequest, gateway: Gateway, upstream: Upstream) -> Iterator[Scenario]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:
        made = Scenario(request.param, gateway, upstream, client)
        upstream.behave(made.behave)
        yield made
    gateway.assert_no_secret_logged([CUSTOMER, PLATFORM])


def _scenario(test: str) -> pytest.MarkDecorator:
    assert test in TESTS
    return pytest.mark.parametrize("scenario", [test], indirect=True)


SERVED_BY_SECOND_ATTEMPT = {"attempts": 2, "fallback": 1, "mode": "payg", "status": 200}
SERVED_AT_ONCE = SERVED_BY_SECOND_ATTEMPT | {"attempts": 1}


@_scenario("passed-over")
def test_after_five_consecutive_failures_the_fallback_serves_at_once(scenario: Scenario) -> None:
    scenario.failing["first"] = 503
    for answer in scenario.calls_that_open("safe"):
        assert answer.headers["x-gateway-fallback"] == "true"
        assert scenario.row(answer) == SERVED_BY_SECOND_ATTEMPT | {"model_slug": "passed-over/second"}
    assert scenario.asked() == ["first", "second"] * FAILURES
    scenario.wait_until_open("first")
    name = provider_of(scenario.test, "first")
    assert f"{name} for 1 of the workspaces" in scenario.circuits()
    circuit = f"{name}/payg/passed-over-safe"
    scenario.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit opened", "circuit": circuit}.items()
    )

    answer = scenario.call("safe")
    assert (answer.status_code, answer.json()["model"]) == (200, "passed-over/second")
    assert answer.headers["x-gateway-fallback"] == "true"
    assert scenario.row(answer) == SERVED_AT_ONCE | {"model_slug": "passed-over/second"}
    assert scenario.asked() == ["second"]


@_scenario("clients-own")
def test_two_open_workspaces_without_a_success_open_the_circuit_for_all(
    scenario: Scenario,
) -> None:
    name = provider_of(scenario.test, "first")
    scenario.failing["first"] = 503
    scenario.calls_that_open("safe")
    scenario.wait_until_open("first")
    # One customer can provoke failures, so the calls of the others still go to the provider.
    scenario.failing.clear()
    assert scenario.call("third").json()["model"] == "clients-own/first"
    scenario.failing["first"] = 503
    scenario.calls_that_open("lone")
    scenario.gateway.wait_until(lambda: scenario.open_of("first") == {("payg", "workspace"): 2})
    scenario.asked()
    assert scenario.call("third").json()["model"] == "clients-own/second"
    assert scenario.asked() == ["first", "second"]
    # The third workspace had a success since the first failure of the other two. Now it fails as well.
    scenario.calls_that_open("third")
    scenario.gateway.wait_until(lambda: scenario.open_of("first").get(("payg", "all")) == 1)
    assert f"{name}," in f"{scenario.circuits()},"
    scenario.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit opened", "circuit": f"{name}/payg/"}.items()
    )
    scenario.asked()
    assert scenario.call("poor").json()["model"] == "clients-own/second"
    assert scenario.asked() == ["second"]

    # Only a call without a fallback still tries the provider, so its success closes the circuit.
    scenario.failing.clear()
    assert scenario.call("lone").status_code == 200
    scenario.gateway.wait_until(lambda: ("payg", "all") not in scenario.open_of("first"))
    scenario.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit closed", "circuit": f"{name}/payg/"}.items()
    )
    assert scenario.call("poor").json()["model"] == "clients-own/first"
    ledger = scenario.gateway.folder / "var" / "tollgate.db"
    scenario.gateway.wait_until(lambda: holds(ledger) == [])


@_scenario("stream")
def test_streams_count_and_fall_back_like_whole_answers(scenario: Scenario) -> None:
    scenario.failing["first"] = 503
    for answer in scenario.calls_that_open("safe", stream=True):
        assert answer.text.endswith("data: [DONE]\n\n")
    scenario.wait_until_open("first")
    scenario.asked()
    answer = scenario.call("safe", stream=True)
    assert re.findall(r'"model": ?"([^"]+)"', answer.text)[0] == "stream/second"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "x-gateway-fallback" not in answer.headers
    assert scenario.row(answer) == SERVED_AT_ONCE | {"model_slug": "stream/second"}
    assert scenario.asked() == ["second"]


@_scenario("alone")
def test_without_a_fallback_a_failing_provider_is_still_called(scenario: Scenario) -> None:
    scenario.failing["first"] = 500
    assert {answer.status_code for answer in scenario.calls_that_open("lone")} == {500}
    scenario.wait_until_open("first")
    scenario.asked()
    answer = scenario.call("lone")
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "first says no")
    assert scenario.row(answer) == {
        "attempts": 1,
        "fallback": 0,
        "model_slug": "alone/first",
        "mode": "payg",
        "status": 500,
    }
    assert scenario.asked() == ["first"]
    # The failures of one workspace do not affect the others.
    assert scenario.call("safe").json()["model"] == "alone/second"
    assert scenario.asked() == ["first", "second"]


@_scenario("own-key")
def test_a_failing_key_of_a_customer_affects_no_one_else(scenario: Scenario) -> None:
    scenario.failing["customer"] = 401
    served = SERVED_BY_SECOND_ATTEMPT | {"model_slug": "own-key/first"}
    assert [scenario.row(answer) for answer in scenario.calls_that_open("own")] == [served] * FAILURES
    scenario.wait_until_open("first", mode="byok")
    assert "of customers' keys" in scenario.circuits()
    assert provider_of(scenario.test, "first") not in scenario.circuits()
    scenario.upstream.requests.clear()

    # The Safety Net serves the call at once, with the platform's key.
    answer = scenario.call("own")
    assert answer.headers["x-gateway-fallback"] == "true"
    assert scenario.row(answer) == served | {"attempts": 1}
    (request,) = scenario.upstream.requests
    assert request.header("authorization") == f"Bearer {PLATFORM}"
    # The first attempts of the other workspaces still go to the provider.
    answer = scenario.call("safe")
    assert "x-gateway-fallback" not in answer.headers
    assert answer.json()["model"] == "own-key/first"


@_scenario("both")
def test_if_both_circuits_are_open_the_first_provider_is_tried_first(scenario: Scenario) -> None:
    scenario.failing |= {"first": 503, "second": 500}
    assert {answer.status_code for answer in scenario.calls_that_open("safe")} == {503}
    scenario.wait_until_open("first")
    scenario.wait_until_open("second")
    scenario.asked()
    answer = scenario.call("safe")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "first says no")
    assert scenario.asked() == ["first", "second"]
    # The first provider is tried first, so its success is seen first.
    scenario.failing.clear()
    assert scenario.call("safe").json()["model"] == "both/first"


@_scenario("clients")
def test_errors_of_the_client_do_not_count_as_failures(scenario: Scenario) -> None:
    scenario.failing["first"] = 503
    for _ in range(FAILURES - 1):
        scenario.call("safe")
    scenario.failing["first"] = 400
    assert [scenario.call("safe").status_code for _ in range(FAILURES)] == [400] * FAILURES
    scenario.failing["first"] = 503
    scenario.asked()
    # A 400 shows that the provider works, so the earlier failures are no longer consecutive.
    assert scenario.call("safe").status_code == 200
    assert scenario.call("safe").status_code == 200
    assert scenario.asked() == ["first", "second"] * 2
    assert scenario.open_of("first") == {}


@_scenario("too-dear")
def test_a_provider_is_called_if_the_fallback_is_too_dear(scenario: Scenario) -> None:
    scenario.failing["first"] = 503
    for kind in ("lone", "safe"):
        scenario.calls_that_open(kind)
    scenario.wait_until_open_for_all("first")
    scenario.failing.clear()
    scenario.asked()
    answer = scenario.call("poor")
    assert (answer.status_code, answer.json()["model"]) == (200, "too-dear/first")
    assert "x-gateway-fallback" not in answer.headers
    assert scenario.asked() == ["first"]
    sql = "SELECT count(*) AS n FROM usage WHERE workspace = ?"
    scenario.row(answer)
    ledger = scenario.gateway.folder / "var" / "tollgate.db"
    assert select(ledger, sql, "too-dear-poor") == [{"n": 1}]


def test_a_new_gateway_reads_open_circuits_from_the_store(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> None:
    async def find_out() -> None:
        store = SqliteStore(tmp_path / "var" / "tollgate.db")
        for _ in range(FAILURES):
            await store.record_attempt("FIRST/payg/acme", failed=True)
        await store.close()

    asyncio.run(find_out())
    key = new_key()
    started = start_gateway(
        folder=tmp_path,
        providers={name: provider(upstream.base_url) for name in ("FIRST", "SECOND")},
        models={name.lower(): model(provider=name) for name in ("FIRST", "SECOND")},
        workspaces={"acme": workspace(("ci", key, True), fallback_model="second")},
    )
    headers = {"Authorization": f"Bearer {key}"}
    asked = {"messages": HELLO, "model": "first"}
    answer = httpx.post(started.url + PATH, json=asked, headers=headers, timeout=BOUND_S, trust_env=False)
    assert (answer.status_code, answer.json()["model"]) == (200, "second")
    assert len(upstream.requests) == 1
    checks = {
        "settings": "ok",
        "store": "ok",
        "drain": "ok",
        "platform_keys": "ok",
        "circuits": "open: FIRST for 1 of the workspaces",
        "ledger": "ok",
    }
    assert started.readiness().json() == {"ready": True, "checks": checks}

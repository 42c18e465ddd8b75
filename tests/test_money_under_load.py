"""Nothing is overspent and nothing let through, however many calls, workers and gateways there are at once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.commands import tollgate
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.load import Outcome, as_dear_as_allowed, run_calls, sized_calls
from rig.money import USD, select
from rig.upstream import Upstream
from test_contract_errors import assert_error

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}

type Start = Callable[..., Gateway]


@pytest.fixture(params=["sqlite", "redis"])
def state(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The ``[state]`` of a gateway, for each of the two stores."""
    if request.param == "sqlite":
        return {"backend": "sqlite"}
    return {"backend": "redis", "redis_url": request.getfixturevalue("redis_url")}


@pytest.fixture
def start(start_gateway: StartGateway, upstream: Upstream, state: dict[str, Any]) -> Iterator[Start]:
    """Start gateways on one store; they are stopped with the test."""
    upstream.behave(as_dear_as_allowed)
    started: list[Gateway] = []

    def begin(made: dict[str, Any], workers: int = 1, beside: Gateway | None = None) -> Gateway:
        sections: dict[str, Any] = {"state": state}
        if beside:
            sections["paths"] = {"database": str(ledger_of(beside))}
        arguments = ("--port", "0", "--workers", str(workers))
        workspaces = {"acme": made}
        gateway = start_gateway(models=MODELS, workspaces=workspaces, sections=sections, arguments=arguments)
        started.append(gateway)
        return gateway

    yield begin
    for gateway in started:
        assert gateway.stop() == 0


def ledger_of(gateway: Gateway) -> Path:
    return gateway.folder / "var" / "tollgate.db"


def booked(gateway: Gateway, outcome: Outcome) -> list[dict[str, Any]]:
    """The rows of all calls that were answered well, once they are all there."""
    served = len(outcome.of_status(200))
    gateway.wait_until(lambda: len(select(ledger_of(gateway), "SELECT id FROM usage")) >= served)
    rows = select(ledger_of(gateway), "SELECT * FROM usage")
    assert len(rows) == served
    verified = tollgate(gateway.folder, "ledger", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return rows


def assert_never_overspent(rows: list[dict[str, Any]], outcome: Outcome) -> None:
    """All that was spent is within a dollar, nearly all of the dollar was spent, and every refusal is a 402."""
    assert sum(row["retail_nanousd"] for row in rows) <= USD
    assert sum(row["retail_nanousd"] for row in rows) >= USD // 2
    assert set(outcome.statuses) == {200, 402}
    for answer in outcome.of_status(402):
        assert_error(answer, 402, "payment_required", "invalid_request_error")


LIMITS: dict[str, dict[str, Any]] = {
    "wallet": {"plan": "standard"},
    "month": {"monthly_spend_cap_usd": "1"},
    "key": {},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_300_calls_at_once_never_spend_more_than_a_dollar(start: Start, limit: str) -> None:
    key = new_key()
    made = workspace(("ci", key, True), overage_protection=True, **LIMITS[limit])
    if limit == "key":
        made["keys"][0]["spend_cap_usd"] = "1"
    gateway = start(made, workers=4)
    if limit == "wallet":
        assert tollgate(gateway.folder, "wallet", "credit", "acme", "1").returncode == 0
    outcome = run_calls([gateway.url], key, sized_calls(300, "dear"), at_once=300)
    assert not outcome.unanswered
    assert_never_overspent(booked(gateway, outcome), outcome)


def test_a_key_shared_by_two_gateways_never_spends_more_than_its_cap(start: Start) -> None:
    key = new_key()
    made = workspace(("ci", key, True), overage_protection=True)
    made["keys"][0] |= {"spend_cap_usd": "1", "spend_reset": "monthly"}
    first = start(made)
    second = start(made, beside=first)
    outcome = run_calls([first.url, second.url], key, sized_calls(300, "dear"), at_once=100)
    assert_never_overspent(booked(first, outcome), outcome)


@pytest.mark.parametrize("gateways", [1, 2])
def test_a_thousand_calls_get_exactly_the_tokens_of_the_bucket(
    start: Start, upstream: Upstream, gateways: int
) -> None:
    key = new_key()
    made = workspace(("ci", key, True), rpm_override=120)
    first = start(made, workers=4 // gateways)
    urls = [first.url]
    if gateways == 2:
        urls.append(start(made, workers=2, beside=first).url)
    outcome = run_calls(urls, key, sized_calls(1_000, "dear", max_tokens=1), at_once=64)
    assert outcome.statuses == {200: 120, 429: 880}
    assert len(upstream.requests) == 120

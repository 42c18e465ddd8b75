"""No budget and no rate is exceeded, with many calls, workers and gateways at once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.commands import tollgate
from rig.configuration import model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.large import large, sampled, sized
from rig.load import Outcome, as_dear_as_allowed, run_calls, sized_calls
from rig.money import USD, select
from rig.redis_server import RedisServer
from rig.upstream import Upstream

pytestmark = large

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}

ONE_DOLLAR: dict[str, dict[str, Any]] = {
    "wallet": {"plan": "standard"},
    "month": {"monthly_spend_cap_usd": "1"},
    "key": {},
    "shared-key": {},
}
"""Workspaces that may spend a dollar."""
AT_ONCE = sized(100, 300)
MANY = sized(300, 1_000)
RATE = 120
RATED = ("one-gateway", "two-gateways")
"""Workspaces that may make ``RATE`` calls a minute."""


class Pair:
    """Two gateways on one store. The first has four workers and the ledger, the second has two workers."""

    def __init__(self, start: StartGateway, state: dict[str, Any]) -> None:
        self.keys = {name: new_key() for name in (*ONE_DOLLAR, *RATED)}
        workspaces: dict[str, Any] = {}
        for name, settings in ONE_DOLLAR.items():
            made = workspace(("ci", self.keys[name], True), overage_protection=True, **settings)
            if name.endswith("key"):
                made["keys"][0] |= {"spend_cap_usd": "1", "spend_reset": "monthly"}
            workspaces[name] = made
        for name in RATED:
            workspaces[name] = workspace(("ci", self.keys[name], True), rpm_override=RATE)
        common = {"models": MODELS, "workspaces": workspaces}
        arguments = ("--port", "0", "--workers")
        self.first: Gateway = start(**common, sections={"state": state}, arguments=(*arguments, "4"))
        self.ledger: Path = self.first.folder / "var" / "tollgate.db"
        sections = {"state": state, "paths": {"database": str(self.ledger)}}
        self.second: Gateway = start(**common, sections=sections, arguments=(*arguments, "2"))
        self.urls = [self.first.url, self.second.url]
        assert tollgate(self.first.folder, "wallet", "credit", "wallet", "1").returncode == 0

    def rows(self, name: str, outcome: Outcome) -> list[dict[str, Any]]:
        """Return the rows of a workspace when each successful call has one. Check that the ledger verifies."""
        served = len(outcome.of_status(200))
        sql = "SELECT retail_nanousd FROM usage WHERE workspace = ?"
        self.first.wait_until(lambda: len(select(self.ledger, sql, name)) >= served)
        verified = tollgate(self.first.folder, "ledger", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        rows = select(self.ledger, sql, name)
        assert len(rows) == served
        return rows


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def gateways(request: pytest.FixtureRequest, start_gateway: StartGateway) -> Iterator[Pair]:
    """Two gateways, once for each kind of store."""
    state: dict[str, Any] = {"backend": "sqlite"}
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("_shared_redis")
        redis.flush()
        state = {"backend": "redis", "redis_url": redis.url}
    pair = Pair(start_gateway, state)
    yield pair
    for gateway in (pair.second, pair.first):
        assert gateway.stop() == 0


@sampled(every=4)
@pytest.mark.parametrize("name", ONE_DOLLAR)
def test_many_calls_at_once_never_spend_more_than_a_dollar(
    gateways: Pair, upstream: Upstream, name: str
) -> None:
    upstream.behave(as_dear_as_allowed)
    urls = gateways.urls if name == "shared-key" else gateways.urls[:1]
    outcome = run_calls(urls, gateways.keys[name], sized_calls(AT_ONCE, "dear"), at_once=AT_ONCE)
    assert not outcome.unanswered
    spent_nanousd = sum(row["retail_nanousd"] for row in gateways.rows(name, outcome))
    assert USD // 2 <= spent_nanousd <= USD
    assert set(outcome.statuses) == {200, 402}
    for answer in outcome.of_status(402):
        assert_error(answer, 402, "payment_required", "invalid_request_error")


@sampled(every=2)
@pytest.mark.parametrize("name", RATED)
def test_many_calls_get_exactly_the_tokens_of_the_bucket(
    gateways: Pair, upstream: Upstream, name: str
) -> None:
    upstream.behave(as_dear_as_allowed)
    urls = gateways.urls if name == "two-gateways" else gateways.urls[:1]
    began_s = time.monotonic()
    outcome = run_calls(urls, gateways.keys[name], sized_calls(MANY, "dear", max_tokens=1), at_once=64)
    # A machine that needs more than a minute for these calls also gets the tokens of the next minute.
    minutes = 1 + int((time.monotonic() - began_s) / 60)
    served = outcome.statuses[200]
    assert RATE <= served <= RATE * minutes
    assert outcome.statuses == {200: served, 429: MANY - served}
    assert len(upstream.requests) == served

"""Flaky places of one model, many calls at once, clients that leave: no limit is passed, and all sums agree.

Places fail in all ways, so that calls go on at other places and with the fallback while every limit is nearly used up.
"""

import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import StartGateway
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.flaky_places import DEAD, FAMILIES, MODEL, PRICES, SPARE, FlakyPlaces, flaky_settings
from rig.gateway import Gateway
from rig.large import large_only
from rig.leaving_load import MOST_TOKENS, PATHS, make_calls, run_leaving
from rig.money import USD, credit, holds, select
from rig.overspend_judge import Verdict, judge
from rig.redis_server import RedisServer
from rig.upstream import RefusingPort, Upstream
from rig.workers import TWO, all_serve

pytestmark = large_only

ROUNDS, CALLS, AT_ONCE = 1, 1_000, 48
USERS = 4
USER_RPM, USER_TPM = 20, 6_000
LIMITS_USD = {"wallet": "0.12", "key": "0.12", "month": "0.12", "all": "0.12"}
USER_USD = "0.032"
KINDS = (*LIMITS_USD, "users")


def settings_of(kind: str, key: str) -> dict[str, Any]:
    """Return the file of a workspace that has one limit, or all of them."""
    made = workspace(("ci", key, True), fallback_model=SPARE, overage_protection=True)
    if kind in ("wallet", "all"):
        made["plan"] = "standard"
    if kind in ("key", "all"):
        made["keys"][0] |= {"spend_cap_usd": LIMITS_USD[kind], "spend_reset": "daily"}
    if kind in ("month", "all"):
        made["monthly_spend_cap_usd"] = LIMITS_USD[kind]
    if kind in ("users", "all"):
        rates = {"rpm": USER_RPM, "tpm": USER_TPM} if kind == "users" else {}
        made["budgets"] = [{"for": "user", "spend_cap_usd": USER_USD, "spend_reset": "daily", **rates}]
    return made


class Campaign:
    """A gateway with two workers, and a workspace of each kind for each round."""

    def __init__(
        self, start: StartGateway, base: str, dead: str, state: dict[str, Any], *, mixed: bool
    ) -> None:
        names = [f"{kind}-{number}" for number in range(ROUNDS) for kind in KINDS]
        self.keys = {name: new_key() for name in names}
        self.apis = tuple(PATHS) if mixed else ("chat",)
        self.gateway: Gateway = start(
            workspaces={name: settings_of(name.split("-")[0], key) for name, key in self.keys.items()},
            families=tomllib.loads(FAMILIES.read_text(encoding="utf-8")),
            sections={"state": state, "upstream": {"retries": 1, "first_byte_timeout_s": 10}},
            arguments=TWO,
            **flaky_settings(base, dead, mixed=mixed),
        )
        self.ledger = self.gateway.folder / "var" / "tollgate.db"
        for name in names:
            if name.startswith(("wallet", "all")):
                credit(self.ledger, name, LIMITS_USD[name.split("-")[0]])
        self.gateway.wait_until(lambda: all_serve(self.gateway))

    def run(self, number: int) -> tuple[dict[str, int | None], float]:
        """Make the calls of a round, and wait until nothing is held. Return their statuses, and the seconds."""
        calls = make_calls(number, CALLS, [f"{kind}-{number}" for kind in KINDS], self.apis)
        began_s = time.monotonic()
        statuses = run_leaving(self.gateway.url, self.keys, MODEL, calls, AT_ONCE)
        took_s = time.monotonic() - began_s
        self.gateway.wait_until(lambda: not holds(self.ledger))
        return statuses, took_s

    def limits_nanousd(self) -> dict[str, int]:
        """Return what each workspace and each user may spend."""
        limits = {}
        for name in self.keys:
            kind = name.split("-")[0]
            if kind in LIMITS_USD:
                limits[name] = int(float(LIMITS_USD[kind]) * USD)
            if kind in ("users", "all"):
                limits |= {f"{name}/user-{user}": int(float(USER_USD) * USD) for user in range(USERS)}
        return limits


@pytest.fixture(params=["sqlite", "redis"])
def state(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {"backend": "sqlite"}
    redis: RedisServer = request.getfixturevalue("redis_server")
    return {"backend": "redis", "redis_url": redis.url}


@pytest.fixture(params=[False, True], ids=["chat", "three APIs"])
def campaign(
    request: pytest.FixtureRequest, start_gateway: StartGateway, upstream: Upstream, state: dict[str, Any]
) -> Iterator[Campaign]:
    with RefusingPort() as dead:
        made = Campaign(start_gateway, upstream.base_url, dead.base_url, state, mixed=request.param)
        yield made
        assert made.gateway.stop() == 0
        made.gateway.assert_all_given_back()
        made.gateway.assert_no_secret_logged()


def test_no_limit_is_passed_while_places_fail(campaign: Campaign, upstream: Upstream) -> None:
    places = FlakyPlaces()
    upstream.behave(places)
    for number in range(ROUNDS):
        statuses, took_s = campaign.run(number)
        assert len(statuses) == CALLS
        verdict = judge(campaign.ledger, places.seen, campaign.limits_nanousd())
        assert not verdict.discrepancies, "\n".join(verdict.discrepancies[:20])
        verified = tollgate(campaign.gateway.folder, "ledger", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert_limits_were_met(campaign, verdict, number)
        assert_rates(campaign, number, took_s)
        print(f"{took_s:.1f} s", Counter(statuses.values()), verdict.paid, verdict.unpaid, verdict.estimated)
    tried = select(campaign.ledger, "SELECT DISTINCT deployment FROM attempts")
    assert {one["deployment"] for one in tried} == {*PRICES, DEAD}


def assert_limits_were_met(campaign: Campaign, verdict: Verdict, number: int) -> None:
    """Each workspace with a limit of its own has used nearly all of it, or the round would prove nothing."""
    for kind in LIMITS_USD:
        name = f"{kind}-{number}"
        assert verdict.spent[name] > 0.95 * campaign.limits_nanousd()[name], name


def assert_rates(campaign: Campaign, number: int, took_s: float) -> None:
    """No user has more calls than the rate, and only calls in flight pass the tokens."""
    rows = select(
        campaign.ledger,
        "SELECT end_user, count(*) AS calls, sum(total_tokens) AS tokens FROM usage"
        " WHERE workspace = ? GROUP BY 1",
        f"users-{number}",
    )
    minutes = 1 + took_s / 60
    assert len(rows) == USERS
    for row in rows:
        assert row["calls"] <= USER_RPM * minutes + 1
        assert row["tokens"] <= USER_TPM * minutes + AT_ONCE * MOST_TOKENS

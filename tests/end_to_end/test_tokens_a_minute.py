"""Tokens a minute over HTTP: exact over two workers, corrected as calls end, and given back on every other path."""

import os
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.load import PATH, run_calls
from rig.money import holds
from rig.redis_server import RedisServer
from rig.redis_takes import move_buckets
from rig.scripts import Gate, Received, Script, chunk, chunked, completion, event, ordinary, whole
from rig.upstream import Upstream
from rig.workers import TWO

TPM = 6_000
ONE = 450
"""A limit with room for one call, but not for two."""

CALLS, AT_ONCE = 60, 16
LIKELY = 100
RPM = 5
HUGE = [{"role": "user", "content": "word " * 2 * ONE}]
TEAMS = {"for": "tag:team", "tpm": ONE}
BODY = {"model": "m", "messages": HELLO, "max_tokens": 4 * LIKELY}
OWN_KEY = "fake-customer-key-" + "1" * 24
OWN = {"TESTER": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}


class Limited:
    """A gateway with two workers, and a workspace for each test. ``need`` is what a call with ``BODY`` takes."""

    def __init__(self, start: StartGateway, state: dict[str, Any], base_url: str) -> None:
        limits = {name: {"tpm": TPM} for name in ("shared", "credited", "indebted")}
        limits |= {
            "tiny": {"tpm": 1},
            "own": {"tpm": TPM, "byok": OWN},
            "poor": {"tpm": ONE, "plan": "standard"},
            "hopping": {"tpm": ONE, "fallback_model": "good"},
            "invalid": {"tpm": 8 * ONE},
            "leaving": {"tpm": ONE},
            "valued": {"budgets": [{"for": "user", "rpm": RPM, "required": True}, TEAMS], "byok": OWN},
        }
        self.keys = {name: new_key() for name in (*limits, "keyed")}
        made = {name: workspace(("ci", self.keys[name], True), **one) for name, one in limits.items()}
        made["keyed"] = workspace(("ci", self.keys["keyed"], True))
        made["keyed"]["keys"][0]["tpm"] = TPM
        self._settings = {
            "providers": {"TESTER": provider(base_url), "BROKEN": provider(base_url)},
            "models": {
                **{name: model(max_completion_tokens=2_000) for name in ("m", "short", "long")},
                "good": model(upstream_model_id="good", max_completion_tokens=2_000),
                "broken": model(provider="BROKEN", upstream_model_id="broken", max_completion_tokens=2_000),
                "narrow": model(family="narrow", max_completion_tokens=2_000),
            },
            "families": {
                "openai-chat": {"cap_field": "max_completion_tokens"},
                "narrow": {"response_formats": {"json_object": "refused"}},
            },
            "workspaces": made,
            "sections": {"state": state},
            "environment": {"TEST_CUSTOMER_KEY": OWN_KEY},
            "arguments": TWO,
        }
        self._start, self.state = start, state
        self.gateway: Gateway = start(**self._settings)
        refused = self.ask("tiny")
        assert_error(refused, 429, "rate_limit_exceeded", "rate_limit_error")
        assert "retry-after" not in refused.headers
        assert refused.headers["x-should-retry"] == "false"
        found = re.match(
            r"The request may need (\d+) tokens, more than the workspace's", self.message(refused)
        )
        assert found
        self.need = int(found[1])
        assert self.need <= ONE < 2 * self.need

    @property
    def ledger(self) -> Path:
        return self.gateway.folder / "var" / "tollgate.db"

    @staticmethod
    def message(answer: httpx.Response) -> str:
        return str(answer.json()["error"]["message"])

    def ask(self, name: str, **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[name]}"}
        url, body = self.gateway.url + PATH, BODY | fields
        return httpx.post(url, json=body, headers=headers, timeout=BOUND_S, trust_env=False)

    def start_again(self) -> None:
        """Start the gateway anew on the same files."""
        self.gateway = self._start(folder=self.gateway.folder, **self._settings)


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def limited(
    request: pytest.FixtureRequest, start_gateway: StartGateway, upstreams: dict[str, Any]
) -> Iterator[Limited]:
    state: dict[str, Any] = {"backend": "sqlite"}
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("_shared_redis")
        server.flush()
        state = {"backend": "redis", "redis_url": server.url}
    made = Limited(start_gateway, state, upstreams["TESTER"].base_url)
    yield made
    assert made.gateway.stop() == 0


def used(prompt: int, completion_tokens: int = LIKELY) -> Script:
    total = prompt + completion_tokens
    usage = {"prompt_tokens": prompt, "completion_tokens": completion_tokens, "total_tokens": total}
    return whole(completion(usage=usage))


@pytest.mark.parametrize("name", ["shared", "keyed", "own"])
def test_two_workers_let_exactly_the_limit_through(limited: Limited, upstream: Upstream, name: str) -> None:
    """Each call uses just what it took, so only what drains meanwhile makes room for more."""
    upstream.behave(used(limited.need - LIKELY))
    calls = {f"caller-{number}": {**BODY, "user": f"caller-{number}"} for number in range(CALLS)}
    began_s = time.monotonic()
    outcome = run_calls([limited.gateway.url], limited.keys[name], calls, AT_ONCE)
    drained = TPM / 60 * (time.monotonic() - began_s)
    served, refused = outcome.statuses[200], outcome.of_status(429)
    # ``user`` of each call adds a few tokens to its prompt.
    assert (TPM // (limited.need + 20)) <= served <= (TPM + drained) // limited.need
    assert served + len(refused) == CALLS
    owner = "API key" if name == "keyed" else "workspace"
    for answer in refused:
        assert f"The {owner}'s limit of {TPM} tokens a minute is reached" in Limited.message(answer)
        assert 1 <= int(answer.headers["retry-after"]) <= 5
    assert len(upstream.requests) == served


@pytest.mark.parametrize("user", ["ann", "ben"])
def test_two_workers_let_exactly_the_requests_of_each_user_through(
    limited: Limited, upstream: Upstream, user: str
) -> None:
    calls = {f"{user}-{number}": {**BODY, "user": user} for number in range(20)}
    began_s = time.monotonic()
    outcome = run_calls([limited.gateway.url], limited.keys["valued"], calls, AT_ONCE)
    drained = RPM / 60 * (time.monotonic() - began_s)
    served, refused = outcome.statuses[200], outcome.of_status(429)
    assert RPM <= served <= RPM + drained
    assert served + len(refused) == len(calls)
    for answer in refused:
        assert_error(answer, 429, "rate_limit_exceeded", "rate_limit_error")
        assert Limited.message(answer) == f'The limit of {RPM} requests a minute of user "{user}" is reached.'
        assert 1 <= int(answer.headers["retry-after"]) <= 60 / RPM
    assert len(upstream.requests) == served


def test_a_tag_has_tokens_a_minute_and_its_refusal_takes_no_request(
    limited: Limited, upstream: Upstream
) -> None:
    def ask(team: str | None, **fields: Any) -> httpx.Response:
        tags = {} if team is None else {"metadata": {"team": team}}
        return limited.ask("valued", user="cid", **tags, **fields)

    upstream.behave(used(limited.need - LIKELY))
    huge = ask("search", messages=HUGE)
    assert_error(huge, 429, "rate_limit_exceeded", "rate_limit_error")
    assert "retry-after" not in huge.headers
    assert huge.headers["x-should-retry"] == "false"
    assert re.search(
        rf'more than the limit of {ONE} tokens a minute of tag:team "search"', Limited.message(huge)
    )
    assert ask("search").status_code == 200
    for _ in range(2 * RPM):
        full = ask("search")
        assert full.status_code == 429
        assert f'limit of {ONE} tokens a minute of tag:team "search" is reached' in Limited.message(full)
    assert [ask(None).status_code for _ in range(RPM)] == [200] * (RPM - 1) + [429]
    assert_error(limited.ask("valued"), 400, "validation_failed", "invalid_request_error")


def test_what_calls_did_not_use_is_there_for_the_next(limited: Limited, upstream: Upstream) -> None:
    upstream.behave(used(10))
    fitting = TPM // limited.need
    assert [limited.ask("credited", model="short").status_code for _ in range(2 * fitting)] == [
        200
    ] * 2 * fitting


def test_what_a_call_used_beyond_its_estimate_is_a_debt(limited: Limited, upstream: Upstream) -> None:
    upstream.behave(used(2 * TPM))
    assert limited.ask("indebted", model="long").status_code == 200
    refused = limited.ask("indebted", model="long")
    assert_error(refused, 429, "rate_limit_exceeded", "rate_limit_error")
    assert "tokens a minute is reached" in Limited.message(refused)
    assert 55 <= int(refused.headers["retry-after"]) <= 65


def test_a_call_that_is_refused_later_gives_all_back(limited: Limited, upstream: Upstream) -> None:
    """A refusal does not wait for that, so there is room for some more calls."""
    assert [limited.ask("poor").status_code for _ in range(5)] == [402] * 5
    asked = {"model": "narrow", "response_format": {"type": "json_object"}}
    assert [limited.ask("invalid", **asked).status_code for _ in range(20)] == [400] * 20
    limited.gateway.wait_until(lambda: holds(limited.ledger) == [])
    assert not upstream.requests


def test_a_second_attempt_takes_nothing(limited: Limited, upstream: Upstream) -> None:
    def answer(request: Received) -> Script:
        return whole({}, 503) if request.json()["model"] == "broken" else used(limited.need - LIKELY)

    upstream.behave(answer)
    answer_ = limited.ask("hopping", model="broken")
    assert (answer_.status_code, answer_.headers["x-gateway-fallback"]) == (200, "true")
    assert limited.ask("hopping").status_code == 429


def test_each_refused_call_is_counted_once(limited: Limited) -> None:
    names = [f'tollgate_tpm_refusals_total{{limit="{one}"}}' for one in ("workspace", "budget")]
    names.append("tollgate_budget_rpm_refusals_total")

    def counted() -> list[int]:
        page = httpx.get(f"{limited.gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
        lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return [int(float(lines[name])) for name in names]

    before = counted()
    assert limited.ask("tiny").status_code == 429
    team = {"metadata": {"team": "dear"}, "messages": HUGE}
    assert limited.ask("valued", user="dan", **team).status_code == 429
    assert [limited.ask("valued", user="eve").status_code for _ in range(RPM + 1)][-1] == 429
    assert counted() == [one + 1 for one in before]


def test_a_killed_gateway_leaves_what_drains_within_a_minute(limited: Limited, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(chunked(event(chunk("one")), gate))
    gateway = limited.gateway
    headers = {"Authorization": f"Bearer {limited.keys['leaving']}"}
    client = httpx.Client(base_url=gateway.url, headers=headers, timeout=BOUND_S, trust_env=False)
    with client, client.stream("POST", PATH, json={**BODY, "stream": True}) as answer:
        assert answer.status_code == 200
        assert next(answer.iter_lines()).startswith("data:")
        for pid in [gateway.pid, *gateway.children()]:
            os.kill(pid, signal.SIGKILL)
        gateway.wait()
    gate.open()
    upstream.behave(ordinary)
    limited.start_again()
    assert holds(limited.ledger) == []
    assert limited.ask("leaving").status_code == 429
    _age_buckets(limited)
    assert limited.ask("leaving").status_code == 200


def _age_buckets(limited: Limited) -> None:
    """Make a minute pass for all buckets."""
    state = limited.state
    if state["backend"] == "sqlite":
        with closing(sqlite3.connect(limited.ledger, timeout=BOUND_S)) as connection, connection:
            connection.execute("UPDATE token_buckets SET at_ms = at_ms - 60000")
        return
    with closing(redis.Redis.from_url(state["redis_url"], decode_responses=True)) as client:
        move_buckets(client, -60_000)

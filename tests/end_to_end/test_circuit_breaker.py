"""A provider that keeps failing, through a running gateway: who is asked, what the client gets, what operators see.

Each test has providers of its own, and ends long before a circuit has rested for half a minute.
tests/unit/policies/test_circuit_breaker.py and tests/unit/store/test_protocol.py test the times of the rule and the
probe.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from prometheus_client.parser import text_string_to_metric_families
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import holds, select
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

from addon.store.sqlite.store import SqliteStore

PATH = "/v1/chat/completions"
FAILURES = 5
TESTS = ("passed-over", "clients-own", "alone", "own-key", "both", "clients", "too-dear", "stream")
CUSTOMER, PLATFORM = (f"fake-{whose}-key-{'0' * 24}" for whose in ("customer", "platform"))


def _provider(test: str, place: str) -> str:
    return f"{test}-{place}".upper().replace("-", "_")


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    """Of each test: two providers with a model each, and workspaces with a fallback, without one, with an own key."""
    origin = upstreams["TESTER"].base_url.removesuffix("/v1")
    providers, models, workspaces, keys = {}, {}, {}, {}
    for test in TESTS:
        for place in ("first", "second"):
            name = _provider(test, place)
            url = f"{origin}/{test}/{place}"
            providers[name] = provider(url, platform_key="env:TEST_PLATFORM_KEY")
            dear = {"input_price_per_m": "1000"} if (test, place) == ("too-dear", "second") else {}
            models[f"{test}/{place}"] = model(provider=name, **dear)
        own = {_provider(test, "first"): {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}
        kinds: dict[str, dict[str, Any]] = {
            "safe": {"fallback_model": f"{test}/second"},
            "third": {"fallback_model": f"{test}/second"},
            "lone": {},
            "own": {"byok": own, "safety_net": True},
            "poor": {"fallback_model": f"{test}/second", "monthly_spend_cap_usd": "0.01"},
        }
        for kind, settings in kinds.items():
            keys[f"{test}-{kind}"] = new_key()
            made = workspace(("ci", keys[f"{test}-{kind}"], True), overage_protection=True, **settings)
            workspaces[f"{test}-{kind}"] = made
    made = start_gateway(
        providers=providers,
        models=models,
        workspaces=workspaces,
        environment={"TEST_PLATFORM_KEY": PLATFORM, "TEST_CUSTOMER_KEY": CUSTOMER},
    )
    made.keys = keys
    return made


@dataclass
class Story:
    """One test's providers and workspaces. What a place or a key says is in ``failing``: the status, by its name."""

    test: str
    gateway: Gateway
    upstream: Upstream
    client: httpx.Client
    failing: dict[str, int] = field(default_factory=dict)

    def behave(self, request: Received) -> Script:
        place = request.target.split("/")[2]
        key = "customer" if CUSTOMER in str(request.headers) else "platform"
        status = self.failing.get(place) or self.failing.get(key)
        return whole({"error": {"message": f"{place} says no"}}, status) if status else ordinary(request)

    def call(self, kind: str, **body: Any) -> httpx.Response:
        """A call of the test's workspace of this kind for its first model."""
        headers = {"Authorization": f"Bearer {self.gateway.keys[f'{self.test}-{kind}']}"}
        asked = {"messages": HELLO, "model": f"{self.test}/first", "max_tokens": 5} | body
        return self.client.post(PATH, json=asked, headers=headers)

    def calls_that_open(self, kind: str, **body: Any) -> list[httpx.Response]:
        """As many calls as open a circuit."""
        return [self.call(kind, **body) for _ in range(FAILURES)]

    def row(self, answer: httpx.Response) -> dict[str, Any]:
        """(attempts, fallback, slug, mode, status) as booked."""
        row = self.gateway.wait_for_row(answer.headers["x-request-id"])
        return {name: row[name] for name in ("attempts", "fallback", "model_slug", "mode", "status")}

    def asked(self) -> list[str]:
        """The places that were asked since this was last called, in order."""
        places = [request.target.split("/")[2] for request in self.upstream.requests]
        self.upstream.requests.clear()
        return places

    def circuits(self) -> str:
        """What /readyz says of circuits; that never makes a gateway unready."""
        readiness = self.gateway.readiness()
        assert readiness.status_code == 200
        told: str = readiness.json()["checks"]["circuits"]
        return told

    def open_of(self, place: str) -> dict[tuple[str, str], int]:
        """How many open circuits of the provider /metrics counts, by mode and scope."""
        metrics = httpx.get(f"{self.gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
        return {
            (sample.labels["mode"], sample.labels["scope"]): int(sample.value)
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == "tollgate_circuits_open"
            and sample.labels["provider"] == _provider(self.test, place)
            and sample.value
        }

    def wait_until_open(self, place: str, mode: str = "payg") -> None:
        self.gateway.wait_until(lambda: self.open_of(place) == {(mode, "workspace"): 1})

    def wait_until_open_for_all(self, place: str, workspaces: int = 2) -> None:
        expected = {("payg", "workspace"): workspaces, ("payg", "all"): 1}
        self.gateway.wait_until(lambda: self.open_of(place) == expected)


@pytest.fixture
def story(request: pytest.FixtureRequest, gateway: Gateway, upstream: Upstream) -> Iterator[Story]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:
        made = Story(request.param, gateway, upstream, client)
        upstream.behave(made.behave)
        yield made
    gateway.assert_no_secret_logged([CUSTOMER, PLATFORM])


def _story(test: str) -> pytest.MarkDecorator:
    assert test in TESTS
    return pytest.mark.parametrize("story", [test], indirect=True)


SERVED_AFTER_A_HOP = {"attempts": 2, "fallback": 1, "mode": "payg", "status": 200}
PASSED_OVER = SERVED_AFTER_A_HOP | {"attempts": 1}


@_story("passed-over")
def test_after_five_failures_in_a_row_the_fallback_is_asked_at_once(story: Story) -> None:
    story.failing["first"] = 503
    for answer in story.calls_that_open("safe"):
        assert answer.headers["x-gateway-fallback"] == "true"
        assert story.row(answer) == SERVED_AFTER_A_HOP | {"model_slug": "passed-over/second"}
    assert story.asked() == ["first", "second"] * FAILURES
    story.wait_until_open("first")
    name = _provider(story.test, "first")
    assert f"{name} for 1 of the workspaces" in story.circuits()
    circuit = f"{name}/payg/passed-over-safe"
    story.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit opened", "circuit": circuit}.items()
    )

    answer = story.call("safe")
    assert (answer.status_code, answer.json()["model"]) == (200, "passed-over/second")
    assert answer.headers["x-gateway-fallback"] == "true"
    assert story.row(answer) == PASSED_OVER | {"model_slug": "passed-over/second"}
    assert story.asked() == ["second"]


@_story("clients-own")
def test_a_provider_is_passed_over_for_all_once_two_workspaces_say_so_and_nobody_succeeded(
    story: Story,
) -> None:
    name = _provider(story.test, "first")
    story.failing["first"] = 503
    story.calls_that_open("safe")
    story.wait_until_open("first")
    # One customer may provoke failures; the others are sent where they want to go.
    story.failing.clear()
    assert story.call("third").json()["model"] == "clients-own/first"
    story.failing["first"] = 503
    story.calls_that_open("lone")
    story.gateway.wait_until(lambda: story.open_of("first") == {("payg", "workspace"): 2})
    story.asked()
    assert story.call("third").json()["model"] == "clients-own/second"
    assert story.asked() == ["first", "second"]
    # Somebody succeeded since the first failure of the first two; now nobody does.
    story.calls_that_open("third")
    story.gateway.wait_until(lambda: story.open_of("first").get(("payg", "all")) == 1)
    assert f"{name}," in f"{story.circuits()},"
    story.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit opened", "circuit": f"{name}/payg/"}.items()
    )
    story.asked()
    assert story.call("poor").json()["model"] == "clients-own/second"
    assert story.asked() == ["second"]

    # What comes back is told by a call that has no other way, for those that have one do not ask.
    story.failing.clear()
    assert story.call("lone").status_code == 200
    story.gateway.wait_until(lambda: ("payg", "all") not in story.open_of("first"))
    story.gateway.wait_for_log(
        lambda line: line.items() >= {"event": "circuit closed", "circuit": f"{name}/payg/"}.items()
    )
    assert story.call("poor").json()["model"] == "clients-own/first"
    ledger = story.gateway.folder / "var" / "tollgate.db"
    story.gateway.wait_until(lambda: holds(ledger) == [])


@_story("stream")
def test_streams_count_and_are_passed_over_as_whole_answers_are(story: Story) -> None:
    story.failing["first"] = 429
    for answer in story.calls_that_open("safe", stream=True):
        assert answer.text.endswith("data: [DONE]\n\n")
    story.wait_until_open("first")
    story.asked()
    answer = story.call("safe", stream=True)
    assert re.findall(r'"model": ?"([^"]+)"', answer.text)[0] == "stream/second"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "x-gateway-fallback" not in answer.headers
    assert story.row(answer) == PASSED_OVER | {"model_slug": "stream/second"}
    assert story.asked() == ["second"]


@_story("alone")
def test_without_a_fallback_a_provider_that_keeps_failing_is_asked_all_the_same(story: Story) -> None:
    story.failing["first"] = 500
    assert {answer.status_code for answer in story.calls_that_open("lone")} == {500}
    story.wait_until_open("first")
    story.asked()
    answer = story.call("lone")
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "first says no")
    assert story.row(answer) == {
        "attempts": 1,
        "fallback": 0,
        "model_slug": "alone/first",
        "mode": "payg",
        "status": 500,
    }
    assert story.asked() == ["first"]
    # One workspace's failures are no news for the others.
    assert story.call("safe").json()["model"] == "alone/second"
    assert story.asked() == ["first", "second"]


@_story("own-key")
def test_a_customers_failing_key_sends_nobody_else_away(story: Story) -> None:
    story.failing["customer"] = 401
    served = SERVED_AFTER_A_HOP | {"model_slug": "own-key/first"}
    assert [story.row(answer) for answer in story.calls_that_open("own")] == [served] * FAILURES
    story.wait_until_open("first", mode="byok")
    assert "of customers' keys" in story.circuits()
    assert _provider(story.test, "first") not in story.circuits()
    story.upstream.requests.clear()

    # The Safety Net is asked at once, with the platform's key.
    answer = story.call("own")
    assert answer.headers["x-gateway-fallback"] == "true"
    assert story.row(answer) == served | {"attempts": 1}
    (request,) = story.upstream.requests
    assert request.header("authorization") == f"Bearer {PLATFORM}"
    # The others' first attempts go where they went.
    answer = story.call("safe")
    assert "x-gateway-fallback" not in answer.headers
    assert answer.json()["model"] == "own-key/first"


@_story("both")
def test_where_the_fallback_keeps_failing_too_the_first_is_asked_first(story: Story) -> None:
    story.failing |= {"first": 503, "second": 500}
    assert {answer.status_code for answer in story.calls_that_open("safe")} == {503}
    story.wait_until_open("first")
    story.wait_until_open("second")
    story.asked()
    answer = story.call("safe")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "first says no")
    assert story.asked() == ["first", "second"]
    # And the first is the first to be found well again.
    story.failing.clear()
    assert story.call("safe").json()["model"] == "both/first"


@_story("clients")
def test_what_is_the_clients_fault_counts_for_nothing(story: Story) -> None:
    story.failing["first"] = 503
    for _ in range(FAILURES - 1):
        story.call("safe")
    story.failing["first"] = 400
    assert [story.call("safe").status_code for _ in range(FAILURES)] == [400] * FAILURES
    story.failing["first"] = 503
    story.asked()
    # The provider understood what it was asked: the failures before it are no longer in a row.
    assert story.call("safe").status_code == 200
    assert story.call("safe").status_code == 200
    assert story.asked() == ["first", "second"] * 2
    assert story.open_of("first") == {}


@_story("too-dear")
def test_a_fallback_that_cannot_be_paid_is_no_reason_to_pass_over(story: Story) -> None:
    story.failing["first"] = 503
    for kind in ("lone", "safe"):
        story.calls_that_open(kind)
    story.wait_until_open_for_all("first")
    story.failing.clear()
    story.asked()
    answer = story.call("poor")
    assert (answer.status_code, answer.json()["model"]) == (200, "too-dear/first")
    assert "x-gateway-fallback" not in answer.headers
    assert story.asked() == ["first"]
    sql = "SELECT count(*) AS n FROM usage WHERE workspace = ?"
    story.row(answer)
    ledger = story.gateway.folder / "var" / "tollgate.db"
    assert select(ledger, sql, "too-dear-poor") == [{"n": 1}]


def test_a_gateway_that_has_just_started_knows_what_others_found_out(
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
    }
    assert started.readiness().json() == {"ready": True, "checks": checks}

"""A gateway whose Redis fails under load: calls are refused, none passes or hangs, and no money is lost."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import Configuration, model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.large import sampled
from rig.load import PATH, Outcome, as_dear_as_allowed, run_calls, sized_calls
from rig.money import select
from rig.processes import run_to_its_end
from rig.redis_fixtures import StartRedis
from rig.redis_server import RedisServer
from rig.scripts import Gate
from rig.upstream import Upstream

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}
REFUSED = (503, "rate_limit_unavailable", "api_error")


class OnRedis:
    """A gateway with two workers, on a Redis that the test may break. The file ``url`` has the URL, with a password."""

    def __init__(self, redis: RedisServer, start: StartGateway, upstream: Upstream, url: Path) -> None:
        self.redis, self.upstream, self.key = redis, upstream, new_key()
        url.write_text(redis.url)
        made = workspace(("ci", self.key, True), plan="standard", overage_protection=True)
        self.gateway: Gateway = start(
            models=MODELS,
            workspaces={"acme": made},
            sections={"state": {"backend": "redis", "redis_url": f"file:{url}"}},
            arguments=("--port", "0", "--workers", "2"),
        )
        self.outcomes: list[Outcome] = []
        assert tollgate(self.gateway.folder, "wallet", "credit", "acme", "1000").returncode == 0
        upstream.behave(as_dear_as_allowed)

    def chat(self) -> httpx.Response:
        body = {"model": "dear", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.post(
            self.gateway.url + PATH, json=body, headers=headers, timeout=BOUND_S, trust_env=False
        )

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Make calls during the block. Each of them is answered with 200 or 503."""
        calls = sized_calls(150, "dear", seed=len(self.outcomes))
        before = len(self.upstream.requests)
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(run_calls, [self.gateway.url], self.key, calls, at_once=12)
            self.upstream.wait_for_requests(before + 20)
            yield
            outcome = load.result()
        assert not outcome.unanswered
        assert set(outcome.statuses) <= {200, 503}, outcome.statuses
        for answer in outcome.of_status(503):
            assert_error(answer, *REFUSED)
        self.outcomes.append(outcome)

    def wait_until_refused(self) -> None:
        self.gateway.wait_until(lambda: self.chat().status_code == 503)
        assert_error(self.chat(), *REFUSED)
        ready = self.gateway.readiness()
        assert ready.status_code == 503
        assert "Redis" in ready.json()["checks"]["store"]

    def wait_until_served(self) -> None:
        self.gateway.wait_until(lambda: self.chat().status_code == 200)
        self.gateway.wait_until(lambda: self.gateway.readiness().status_code == 200)

    def assert_sound(self) -> None:
        """Check that every call that reached the upstream has one row, and that all sums agree."""
        ledger = self.gateway.folder / "var" / "tollgate.db"
        sent = Counter(request.json().get("user") for request in self.upstream.requests)

        def booked() -> Counter[str | None]:
            return Counter(row["end_user"] for row in select(ledger, "SELECT end_user FROM usage"))

        self.gateway.wait_until(lambda: booked() == sent)
        self.gateway.wait_until(lambda: tollgate(self.gateway.folder, "ledger", "verify").returncode == 0)


@pytest.fixture
def on_redis(
    start_redis: StartRedis, start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> Iterator[OnRedis]:
    redis = start_redis(password="obviously-fake")
    made = OnRedis(redis, start_gateway, upstream, tmp_path / "redis.url")
    yield made
    assert made.gateway.stop() == 0


def freeze(redis: RedisServer) -> Callable[[], Any]:
    redis.freeze()
    return redis.thaw


def stop(redis: RedisServer) -> Callable[[], Any]:
    redis.stop()
    return redis.start


@sampled(every=2)
@pytest.mark.parametrize("break_", [freeze, stop])
def test_calls_are_refused_while_redis_fails_and_served_when_it_is_back(
    on_redis: OnRedis, break_: Callable[[RedisServer], Callable[[], Any]]
) -> None:
    with on_redis.under_load():
        mend = break_(on_redis.redis)
        on_redis.wait_until_refused()
        mend()
    on_redis.wait_until_served()
    on_redis.assert_sound()


def test_a_call_in_flight_ends_and_is_recorded_while_redis_is_away(on_redis: OnRedis) -> None:
    gate = Gate()
    on_redis.upstream.behave(lambda request: (gate, *as_dear_as_allowed(request)))
    with ThreadPoolExecutor(1) as pool:
        in_flight = pool.submit(on_redis.chat)
        on_redis.upstream.wait_for_requests()
        on_redis.redis.stop()
        on_redis.wait_until_refused()
        gate.open()
        assert in_flight.result().status_code == 200
    on_redis.assert_sound()
    on_redis.redis.start()
    on_redis.wait_until_served()


def test_an_emptied_redis_forgets_no_money_and_refuses_no_call(on_redis: OnRedis) -> None:
    with on_redis.under_load():
        on_redis.redis.flush()
    assert set(on_redis.outcomes[-1].statuses) == {200}
    on_redis.assert_sound()


def test_a_machine_with_another_ledger_does_not_start(on_redis: OnRedis, tmp_path: Path) -> None:
    sections = {"state": {"backend": "redis", "redis_url": on_redis.redis.url}}
    other = Configuration({}, {}, workspaces={"empty": workspace()}, sections=sections)
    ended = run_to_its_end(other, tmp_path / "other")
    assert ended.returncode == 1
    [said] = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert "has the rates of another ledger" in said
    assert "gateways on several machines need one ledger: give each the same [ledger] url" in said
    assert "obviously-fake" not in said
    on_redis.wait_until_served()

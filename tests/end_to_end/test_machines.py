"""Two machines with rates in one Redis and money in one PostgreSQL: each has files of its own, and none is special."""

from collections.abc import Iterator

import httpx
import psycopg
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.load import PATH, as_dear_as_allowed
from rig.redis_server import RedisServer
from rig.upstream import Upstream

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}
LIMITED = "The workspace's limit of 4 requests a minute is reached."


class Machines:
    """Two gateways. Both have ``key``, ``bounded`` with tokens a minute, and ``valued`` with requests of each user."""

    def __init__(self, start: StartGateway, upstream: Upstream, redis: str, postgres: str) -> None:
        self.key, self.bounded, self.valued = new_key(), new_key(), new_key()
        self.start, self.postgres = start, postgres
        self.state = {"backend": "redis", "redis_url": redis, "fleet": "tests"}
        self.gateways = [self.open(), self.open()]
        upstream.behave(as_dear_as_allowed)

    def open(self) -> Gateway:
        made = workspace(("ci", self.key, True), rpm_override=4)
        made["keys"][0] |= {"request_cap": 3}
        bounded = workspace(("ci", self.bounded, True), tpm=700)
        valued = workspace(("ci", self.valued, True), budgets=[{"for": "user", "rpm": 3}])
        files = {"acme": made, "bounded": bounded, "valued": valued}
        sections = {"state": self.state, "ledger": {"url": self.postgres}}
        return self.start(models=MODELS, workspaces=files, sections=sections)

    def chat(
        self, machine: int, key: str | None = None, max_tokens: int = 1, **fields: str
    ) -> httpx.Response:
        messages = [{"role": "user", "content": "hello"}]
        body = {"model": "dear", "messages": messages, "max_tokens": max_tokens, **fields}
        headers = {"Authorization": f"Bearer {key or self.key}"}
        url = self.gateways[machine].url + PATH
        return httpx.post(url, json=body, headers=headers, timeout=BOUND_S, trust_env=False)


@pytest.fixture
def machines(
    start_gateway: StartGateway, upstream: Upstream, redis_url: str, postgres_ledger_url: str
) -> Iterator[Machines]:
    made = Machines(start_gateway, upstream, redis_url, postgres_ledger_url)
    yield made
    assert [one.stop() for one in made.gateways] == [0, 0]


def test_machines_share_rates_and_money_and_an_emptied_redis_gives_one_more_minute(
    machines: Machines, redis_server: RedisServer
) -> None:
    answers = [machines.chat(number) for number in (0, 1, 0, 1, 0)]
    assert [one.status_code for one in answers] == [200] * 3 + [429] * 2
    said = [one.json()["error"]["message"] for one in answers[3:]]
    assert (said[0] != LIMITED, said[1] == LIMITED) == (True, True), (
        "the key's cap, then the workspace's rate"
    )
    # What a call used on one machine, beyond what it took, keeps those of the other one waiting.
    first, *others = [machines.chat(number, machines.bounded, 600) for number in (0, 1, 0)]
    assert [one.status_code for one in (first, *others)] == [200, 429, 429]
    assert all("limit of 700 tokens a minute is reached" in one.text for one in others)
    # Each user has requests of its own, on both machines together.
    of_ann = [machines.chat(number, machines.valued, user="ann") for number in (0, 1, 0, 1)]
    assert [one.status_code for one in of_ann] == [200] * 3 + [429]
    assert "limit of 3 requests a minute of user" in of_ann[-1].text
    assert machines.chat(1, machines.valued, user="ben").status_code == 200
    redis_server.flush()
    assert machines.chat(0, machines.valued, user="ann").status_code == 200
    assert machines.chat(1, machines.bounded, 600).status_code == 200
    assert machines.chat(0).json()["error"]["message"] == said[0]
    with psycopg.connect(machines.postgres) as ledger:
        assert ledger.execute("SELECT count(*) FROM usage").fetchone() == (10,)
        assert ledger.execute("SELECT count(*) FROM holds").fetchone() == (0,)

"""A gateway starts while the PostgreSQL of its ledger is away, refuses calls, and serves when it is there."""

from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from conftest import StartGateway
from rig.alerts import Alerting, Receiver
from rig.bounds import BOUND_S
from rig.configuration import Configuration, workspace
from rig.large import large_only, sampled
from rig.postgres_fixtures import StartPostgres
from rig.postgres_server import PostgresServer
from rig.processes import run_to_its_end
from rig.upstream import Upstream

from addon.gateway.lifecycle import FLEET_PATIENCE_S


@pytest.fixture
def server(start_postgres: StartPostgres) -> PostgresServer:
    made: PostgresServer = start_postgres()
    return made


def sections_of(redis_url: str, ledger_url: str) -> dict[str, Any]:
    return {
        "state": {"backend": "redis", "redis_url": redis_url, "fleet": "tests"},
        "ledger": {"url": ledger_url},
    }


@sampled(every=2)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_that_starts_without_its_ledger_serves_when_that_is_there(
    start_gateway: StartGateway, upstream: Upstream, server: PostgresServer, redis_url: str, workers: str
) -> None:
    server.stop()
    arguments = ("--port", "0", "--workers", workers)
    sections = sections_of(redis_url, server.url)
    gateway = start_gateway(sections=sections, arguments=arguments)

    def chat() -> httpx.Response:
        url, body = f"{gateway.url}/v1/chat/completions", gateway.chat_bytes().partition(b"\r\n\r\n")[2]
        return httpx.post(url, headers=gateway.headers, content=body, timeout=BOUND_S, trust_env=False)

    health = httpx.get(f"{gateway.admin_url}/healthz", timeout=BOUND_S, trust_env=False)
    assert (health.status_code, gateway.readiness().status_code) == (200, 503)
    assert "PostgreSQL: " in gateway.readiness().json()["checks"]["store"]
    refused = chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "rate_limit_unavailable")
    # A takeover would end the process that may have calls in memory.
    folder, options = gateway.folder, (*arguments, "--takeover")
    with pytest.raises(AssertionError, match="the running gateway goes on: "):
        start_gateway(folder=folder, sections=sections, arguments=options, keys=gateway.keys)

    server.start()
    gateway.wait_until(lambda: gateway.readiness().status_code == 200)
    gateway.wait_until(lambda: chat().status_code == 200)
    assert len(upstream.requests) == 1
    assert gateway.stop() == 0  # Its rates are Redis's until then.
    with psycopg.connect(server.url) as ledger:
        assert ledger.execute("SELECT count(*) FROM usage").fetchone() == (1,)
    events = [line.get("event") for line in gateway.logs]
    assert events.count("store unavailable") == events.count("store recovered") == int(workers)


REFUSED = {
    "a wrong password": (
        "postgresql://tollgate:hunter2@127.0.0.1:{port}/tollgate",
        "password authentication",
    ),
    "no such database": ("postgresql://tollgate:{password}@127.0.0.1:{port}/nowhere", "does not exist"),
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_no_wait_mends_is_one_clear_line(
    postgres_server: PostgresServer, redis_url: str, tmp_path: Path, url: str, reason: str
) -> None:
    password = postgres_server.url.partition("tollgate:")[2].partition("@")[0]
    sections = sections_of(redis_url, url.format(port=postgres_server.port, password=password))
    ended = run_to_its_end(
        Configuration({}, {}, workspaces={"empty": workspace()}, sections=sections), tmp_path
    )
    said = ended.stderr.splitlines()[-1]
    assert (ended.returncode, reason in said, "hunter2" in ended.stderr) == (1, True, False), ended.stderr


@large_only
def test_a_real_outage_is_an_alert_after_half_a_minute_and_its_end_one_more(
    start_gateway: StartGateway, upstream: Upstream, server: PostgresServer, redis_url: str
) -> None:
    with Receiver() as receiver:
        scene = Alerting(start_gateway, receiver)
        gateway = scene.start(sections=sections_of(redis_url, server.url))
        assert scene.call(1) == [200]
        server.stop()
        gateway.wait_until(lambda: bool(receiver.events("store.unavailable")))
        assert scene.call(1) == [503]
        server.start()
        recovered = scene.wait_for_event("store.recovered")
        assert recovered["outage_s"] >= FLEET_PATIENCE_S
        gateway.wait_until(lambda: scene.call(1) == [200])
        assert gateway.stop() == 0

"""All that is written and read beside calls works with a ledger in PostgreSQL: commands, the audit log and alerts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.alerts import TEN_CALLS, Alerting, Receiver, scrape
from rig.commands import tollgate
from rig.postgres_fixtures import StartPostgres
from rig.upstream import Upstream


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def run(folder: Path, *words: str) -> str:
    """Return what a command prints. It must work."""
    done = tollgate(folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_and_alerts_of_a_gateway_that_is_killed(
    start_gateway: StartGateway,
    upstream: Upstream,
    receiver: Receiver,
    redis_url: str,
    start_postgres: StartPostgres,
) -> None:
    server = start_postgres()
    scene = Alerting(start_gateway, receiver, monthly_spend_cap_usd=TEN_CALLS)
    fleet: dict[str, Any] = {
        "state": {"backend": "redis", "redis_url": redis_url, "fleet": "tests"},
        "ledger": {"url": server.url_of("tollgate")},
    }
    gateway = scene.start(sections=fleet)
    folder = gateway.folder
    assert scene.call(8) == [200] * 8
    scene.wait_for_percents(80)
    assert "balance" in run(folder, "wallet", "credit", "acme", "50", "--reference", "first")
    assert "already credited" in run(folder, "wallet", "credit", "acme", "50", "--reference", "first")
    gateway.kill()
    gateway.wait()
    # The lease of the killed process must end first.
    server.execute("UPDATE leaders SET ends_at = clock_timestamp()")
    gateway = scene.start(sections=fleet)
    assert scene.call(3) == [200, 200, 402]
    scene.wait_for_percents(80, 95, 100)
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alerts_waiting") == 0)

    [acme] = json.loads(run(folder, "wallet", "balance", "--json"))
    assert acme["balance_nanousd"] == 50 * 10**9
    calls = json.loads(run(folder, "usage", "--by", "workspace", "--json"))
    assert "114400000" in json.dumps(calls)
    alerts = json.loads(run(folder, "alerts", "list", "--json"))
    assert [one["status"] for one in alerts] == ["sent"] * 3
    [line] = server.execute("SELECT number, action, outcome FROM audit")
    assert line == (1, "wallet credit", "made")
    refused = tollgate(folder, "ledger", "backup", "copy.db")
    assert (refused.returncode, "pg_dump" in refused.stderr) == (1, True)

    server.__exit__(None, None, None)
    gateway.wait_until(lambda: scene.call() == [503])

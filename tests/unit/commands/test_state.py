"""``tollgate state rebuild``: restores from the ledger what Redis has lost, and the gateways continue."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.audit import read_actions
from rig.ledger import make_row
from rig.ledger_commands import INVOICE, conf_in, live, path_of, use
from rig.ledger_commands import run as run_ledger
from rig.money import USD
from rig.redis_server import RedisServer

from addon.commands.state import state
from addon.settings.settings import load_conf
from addon.store.backends import open_store
from addon.store.protocol import Settlement, Store


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(state, ["rebuild", *arguments, "--conf", str(conf)])


@pytest.fixture
def conf(tmp_path: Path, redis_url: str) -> Path:
    return conf_in(tmp_path / "one", redis_url)


async def live_now(store: Store) -> None:
    await live(store, datetime.now(UTC))


def counters(redis_server: RedisServer) -> dict[str, object]:
    names = redis_server.command("KEYS", "tollgate:{*}:spend:*")
    return {name: redis_server.command("HGETALL", name) for name in sorted(names)}


def spent(counted: dict[str, object]) -> dict[str, str]:
    """Return the counters of current periods. Those of past periods may be gone."""
    return {name: of["spent"] for name, of in counted.items() if name.endswith(":ever")}  # type: ignore[index]


def test_lost_counters_are_counted_again_from_the_ledger(conf: Path, redis_server: RedisServer) -> None:
    use(conf, live_now)
    before = spent(counters(redis_server))
    assert before["tollgate:{acme}:spend:wallet:acme:ever"] == str(1560 - 5 * USD)
    redis_server.flush()
    result = run(conf)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        r"rebuilt 1 workspace with \d+ counters and 0 calls in flight; "
        r"0 calls and credits were still on their way to the ledger\n",
        result.stdout,
    )
    assert spent(counters(redis_server)) == before
    assert read_actions(path_of(conf)) == [("state rebuild", "made")]
    assert run_ledger(conf, "verify").exit_code == 0


def test_rebuilding_an_intact_redis_changes_nothing(conf: Path, redis_server: RedisServer) -> None:
    use(conf, live_now)
    assert run(conf).exit_code == 0
    once = counters(redis_server)
    assert run(conf).exit_code == 0
    assert counters(redis_server) == once
    verified = run_ledger(conf, "verify")
    assert verified.exit_code == 0, verified.output


def test_a_credit_that_redis_lost_is_not_credited_again(conf: Path, redis_server: RedisServer) -> None:
    use(conf, live_now)
    redis_server.flush()
    assert run(conf).exit_code == 0
    use(conf, lambda store: store.credit(INVOICE))
    assert spent(counters(redis_server))["tollgate:{acme}:spend:wallet:acme:ever"] == str(1560 - 5 * USD)


def test_a_running_gateway_continues_after_the_rebuild(conf: Path, redis_server: RedisServer) -> None:
    async def run_through_it() -> None:
        store = open_store(load_conf(conf))
        try:
            await live_now(store)
            redis_server.flush()
            assert (await asyncio.to_thread(run, conf)).exit_code == 0
            await store.maintain()
            await store.settle(Settlement(make_row("call-8"), from_wallet=True))
        finally:
            await store.close()

    asyncio.run(run_through_it())
    verified = run_ledger(conf, "verify")
    assert verified.exit_code == 0, verified.output


def test_another_ledger_must_take_over_before_a_rebuild(conf: Path, tmp_path: Path, redis_url: str) -> None:
    use(conf, live_now)
    other = conf_in(tmp_path / "other", redis_url)
    refused = run(other)
    assert refused.exit_code == 1
    assert "calls are recorded in another ledger than " in refused.stderr
    assert run_ledger(conf, "verify").exit_code == 0
    assert run(other, "--take-over").exit_code == 0


def test_without_redis_there_is_nothing_to_rebuild(tmp_path: Path) -> None:
    result = run(conf_in(tmp_path / "one"))
    assert result.exit_code == 1
    assert '[state] backend is "sqlite": everything is in the ledger itself' in result.stderr

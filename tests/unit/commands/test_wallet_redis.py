"""``tollgate wallet`` where counters are in Redis."""

import shutil
from pathlib import Path

import pytest
from rig.money import USD, spent
from rig.redis_server import RedisServer
from rig.settings_files import edit
from rig.wallet_commands import ledger_of, run, run_json, use


@pytest.fixture
def on_redis(folder: Path, redis_url: str) -> Path:
    edit(folder / "proxy.conf", "", f'\n[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n')
    return folder


def test_a_wallet_in_redis_is_credited_once_and_shown(on_redis: Path) -> None:
    first = run(on_redis, "credit", "acme", "50", "--reference", "invoice 17")
    assert (first.exit_code, first.stdout) == (0, "credited 50.00 USD to acme; balance 50.00 USD\n"), first
    again = run(on_redis, "credit", "acme", "50", "--reference", "invoice 17")
    assert (again.exit_code, again.stdout[:30]) == (0, "already credited: 50.00 USD, r")
    other = run(on_redis, "credit", "acme", "5", "--reference", "invoice 17")
    assert other.exit_code == 1
    assert "has another amount, 50.00 USD" in other.stderr
    assert [entry["amount_nanousd"] for entry in run_json(on_redis, "history", "acme")] == [50 * USD]
    assert run_json(on_redis, "balance", "acme")[0]["balance_nanousd"] == 50 * USD
    assert spent(ledger_of(on_redis), "wallet:acme") == (0, 0), "the counter is in Redis"


def test_a_credit_that_another_machine_made_is_not_made_again(on_redis: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(on_redis, elsewhere, ignore=shutil.ignore_patterns("var"))
    run(on_redis, "credit", "acme", "50", "--reference", "invoice 17")
    again = run(elsewhere, "credit", "acme", "50", "--reference", "invoice 17")
    assert again.stdout == 'already credited: reference "invoice 17"; balance 50.00 USD\n', again.output


def test_an_emptied_redis_is_an_error_and_not_an_empty_wallet(
    on_redis: Path, redis_server: RedisServer
) -> None:
    run(on_redis, "credit", "acme", "50")
    redis_server.flush()
    for command in (("balance",), ("credit", "acme", "1")):
        result = run(on_redis, *command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Redis came back empty; run `tollgate state rebuild`" in result.stderr
    assert len(run_json(on_redis, "history", "acme")) == 1


def test_a_ledger_not_yet_counted_in_redis_is_an_error_and_not_an_empty_wallet(
    folder: Path, redis_url: str
) -> None:
    run(folder, "credit", "acme", "50")
    edit(folder / "proxy.conf", "", f'\n[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n')
    for command in (("balance",), ("credit", "acme", "1")):
        result = run(folder, *command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "this ledger has calls or credits that Redis does not count" in result.stderr


def test_a_ledger_whose_counters_are_in_redis_says_so_when_redis_is_not_configured_any_more(
    on_redis: Path,
) -> None:
    run(on_redis, "credit", "acme", "50")
    edit(on_redis / "proxy.conf", 'backend = "redis"', 'backend = "sqlite"')
    result = run(on_redis, "balance")
    assert result.exit_code == 1
    assert "the counters are in Redis" in result.stderr
    use(on_redis, lambda store: store.check())
    assert run_json(on_redis, "balance", "acme")[0]["balance_nanousd"] == 50 * USD

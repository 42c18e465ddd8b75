"""``tollgate ledger``: verifies a sound ledger, finds the errors of others, and writes what waits in Redis."""

import asyncio
import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig.bounds import BOUND_S
from rig.configuration import environment
from rig.ledger import locked_by_another, make_row, read_ids, second_connection
from rig.money import USD, select
from rig.redis_server import RedisServer

from addon.commands.ledger import ledger
from addon.settings.settings import load_conf
from addon.store.backends import open_store
from addon.store.protocol import HoldRequest, Settlement, Store, StoreUnavailable, WalletEntry
from policies.spend import MaxCost

type Work = Callable[[Store], Any]

INVOICE = WalletEntry("acme/invoice", datetime(2026, 1, 1, tzinfo=UTC), "acme", 5 * USD, "invoice")


def conf_in(folder: Path, redis_url: str | None = None) -> Path:
    """Write a proxy.conf with its own ledger."""
    folder.mkdir(exist_ok=True)
    conf = folder / "proxy.conf"
    state = f'[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n' if redis_url else ""
    conf.write_text(f'[paths]\ndatabase = "var/tollgate.db"\n{state}')
    return conf


def path_of(conf: Path) -> Path:
    return conf.parent / "var" / "tollgate.db"


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(ledger, [*arguments, "--conf", str(conf)])


def use(conf: Path, work: Work) -> None:
    """Run ``work`` on the store, as a gateway would."""

    async def do() -> None:
        store = open_store(load_conf(conf))
        try:
            await store.check()
            await work(store)
        finally:
            await store.close()

    asyncio.run(do())


LONG_AGO = datetime(2026, 1, 31, 12, tzinfo=UTC)


def row_of(call_id: str, created_at: datetime, **changes: Any) -> dict[str, Any]:
    return make_row(call_id, created_at=created_at.isoformat(timespec="milliseconds"), **changes)


def request(call_id: str, created_at: datetime) -> HoldRequest:
    nothing = {"retail_nanousd": 0, "wholesale_nanousd": 0, "usage_source": "none"}
    row = row_of(call_id, created_at, error_code="interrupted", **nothing)
    return HoldRequest(call_id, created_at, "acme", "ci", MaxCost(1000, 0, 1, is_protected=True), (), row)


async def live(store: Store, created_at: datetime = LONG_AGO) -> None:
    """Write a credit, two ended calls, one of them paid by the wallet, and one call in flight."""
    await store.credit(INVOICE)
    for call_id, from_wallet in (("call-1", True), ("call-2", False)):
        await store.hold(request(call_id, created_at))
        await store.settle(Settlement(row_of(call_id, created_at), from_wallet))
    await store.hold(request("call-3", created_at))


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return conf_in(tmp_path / "one")


@pytest.fixture
def lived(conf: Path) -> Path:
    use(conf, live)
    return conf


# Verifying the file.


def test_a_sound_ledger_gives_the_counts_of_what_was_checked(lived: Path) -> None:
    result = run(lived, "verify")
    assert (result.exit_code, result.stdout) == (
        0,
        "2 calls, 2 wallet entries, 1 wallets, 6 counters, 1 holds, 0 refusals, 0 audit lines: no discrepancies\n",
    )
    as_json = run(lived, "verify", "--json")
    assert json.loads(as_json.stdout) == {
        "checked": {
            "calls": 2,
            "wallet_entries": 2,
            "wallets": 1,
            "counters": 6,
            "holds": 1,
            "refusals": 0,
            "audit_lines": 0,
        },
        "discrepancies": [],
    }


def test_a_ledger_is_verified_while_another_process_writes(lived: Path) -> None:
    with locked_by_another(path_of(lived)):
        assert run(lived, "verify").exit_code == 0


WRONG = {
    "a counter's money": (
        "UPDATE spend SET spent_nanousd = spent_nanousd + 1 WHERE scope = 'key:acme/ci' AND period = '2026-01'",
        "counter key:acme/ci of 2026-01: 3121 nano-USD are counted, 3120 are recorded",
    ),
    "a counter's calls": (
        "UPDATE spend SET requests = 3 WHERE scope = 'workspace:acme'",
        "counter workspace:acme of 2026-01: 3 calls are counted, 2 are recorded",
    ),
    "a wallet": (
        "UPDATE spend SET spent_nanousd = 0 WHERE scope = 'wallet:acme'",
        "counter wallet:acme of ever: 0 nano-USD are counted, -4999998440 are recorded",
    ),
    "a charge without a call": (
        "UPDATE wallet_entries SET id = 'call-9' WHERE id = 'call-1'",
        "charge call-9: the wallet of acme paid 1560 nano-USD, no such call is recorded",
    ),
    "the sums of an hour": (
        "UPDATE rollups SET retail_nanousd = 0",
        "rollups of 2026-01-31T12: the sums differ from the calls",
    ),
    "a hold of an ended call": (
        "UPDATE holds SET id = 'call-1'",
        "hold call-1: the call is recorded, but money is still held for it",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_each_discrepancy_gives_a_line_and_status_1(lived: Path, wrong: str) -> None:
    sql, line = WRONG[wrong]
    with second_connection(path_of(lived)) as connection:
        connection.execute(sql)
    result = run(lived, "verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == line
    assert result.stdout.endswith(": 1 discrepancies\n")
    assert json.loads(run(lived, "verify", "--json").stdout)["discrepancies"] == [line]
    as_csv = csv.reader(io.StringIO(run(lived, "verify", "--csv").stdout))
    assert list(as_csv) == [["discrepancy"], [line]]


def test_a_deleted_row_is_a_discrepancy_of_every_counter(lived: Path) -> None:
    with second_connection(path_of(lived)) as connection:
        connection.execute("DELETE FROM usage WHERE id = 'call-1'")
    lines = run(lived, "verify").stdout.splitlines()
    assert len([line for line in lines if line.startswith("counter key:acme/ci of ")]) == 8
    assert any(line.startswith("charge call-1: ") for line in lines)


def test_a_recount_repairs_the_sums_of_hours_and_no_other_discrepancy(lived: Path) -> None:
    assert run(lived, "recount").stdout == "0 hours and days were counted again\n"
    with second_connection(path_of(lived)) as connection:
        connection.execute("UPDATE rollups SET calls = 7")
        connection.execute("UPDATE spend SET requests = 3 WHERE scope = 'workspace:acme'")
    assert run(lived, "recount").stdout == "1 hours and days were counted again\n"
    [line, _] = run(lived, "verify").stdout.splitlines()
    assert line == "counter workspace:acme of 2026-01: 3 calls are counted, 2 are recorded"


def test_a_missing_ledger_is_not_made_for_a_recount(conf: Path) -> None:
    assert (
        run(conf, "recount").stdout == f"There is no ledger yet in {path_of(conf)}: nothing was recorded.\n"
    )
    assert not path_of(conf).exists()


def test_a_missing_ledger_is_sound(conf: Path) -> None:
    result = run(conf, "verify")
    assert (result.exit_code, result.stdout) == (
        0,
        f"There is no ledger yet in {path_of(conf)}: nothing was recorded.\n",
    )
    assert json.loads(run(conf, "verify", "--json").stdout)["discrepancies"] == []
    assert not path_of(conf).exists()


def test_an_error_names_a_damaged_file(lived: Path) -> None:
    path_of(lived).write_bytes(b"not a database" * 1000)
    result = run(lived, "verify")
    assert result.exit_code == 1
    assert f"{path_of(lived)}: can't be read: file is not a database" in result.stderr


def test_without_redis_there_is_nothing_to_drain(lived: Path) -> None:
    result = run(lived, "drain", "--once")
    assert result.exit_code == 1
    assert '[state] backend is "sqlite": everything is in the ledger itself' in result.stderr


# With Redis.


@pytest.fixture
def shared(tmp_path: Path, redis_url: str) -> tuple[Path, Path]:
    """Two machines with a ledger each, on one Redis. Calls are recorded in the first one."""
    one, other = conf_in(tmp_path / "one", redis_url), conf_in(tmp_path / "other", redis_url)

    async def nothing(_: Store) -> None:
        return

    use(one, nothing)
    return one, other


def test_counters_in_redis_are_verified_against_the_ledger(
    shared: tuple[Path, Path], redis_server: RedisServer
) -> None:
    one, other = shared
    use(other, live)
    sound = run(one, "verify")
    assert sound.exit_code == 0, sound.output
    assert (
        sound.stdout == "2 calls, 2 wallet entries, 1 wallets, 0 refusals, 0 audit lines: no discrepancies\n"
    )
    redis_server.command("HINCRBY", "tollgate:{acme}:spend:key:acme/ci:ever", "spent", 1)
    wrong = run(one, "verify")
    assert wrong.exit_code == 1
    assert wrong.stdout.splitlines()[0] == (
        "counter key:acme/ci of ever: 3121 nano-USD are counted, 3120 are recorded"
    )


def test_draining_writes_what_waits_once(shared: tuple[Path, Path]) -> None:
    one, other = shared
    use(other, live)
    assert read_ids(path_of(one)) == []
    assert run(one, "drain", "--once").stdout == f"3 calls and credits were written to {path_of(one)}\n"
    assert run(one, "drain", "--once").stdout == f"0 calls and credits were written to {path_of(one)}\n"
    assert read_ids(path_of(one)) == ["call-1", "call-2"]
    entries = select(path_of(one), "SELECT id, amount_nanousd FROM wallet_entries ORDER BY id")
    assert [tuple(entry.values()) for entry in entries] == [("acme/invoice", 5 * USD), ("call-1", -1560)]


def test_only_one_ledger_is_written_until_another_takes_over(shared: tuple[Path, Path]) -> None:
    one, other = shared
    use(one, live)
    refused = run(other, "drain", "--once")
    assert refused.exit_code == 1
    assert f"calls are recorded in another ledger than {path_of(other)}" in refused.stderr
    taken = run(other, "drain", "--once", "--take-over")
    assert taken.exit_code == 0, taken.output
    assert run(one, "drain", "--once").exit_code == 1


def test_a_running_drain_writes_new_rows_until_a_signal(shared: tuple[Path, Path]) -> None:
    one, other = shared
    command = [sys.executable, "-m", "addon.cli", "ledger", "drain", "--conf", str(one)]
    draining = subprocess.Popen(
        command, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert draining.stdout is not None
        assert draining.stdout.readline().startswith("writing calls and credits from Redis to ")
        use(other, live)
        deadline = time.monotonic() + BOUND_S
        while len(read_ids(path_of(one))) < 2:
            assert time.monotonic() < deadline, "the calls were never written"
            time.sleep(0.05)
        draining.send_signal(signal.SIGTERM)
        said, faults = draining.communicate(timeout=BOUND_S)
    finally:
        with suppress(ProcessLookupError):
            draining.kill()
        draining.wait(BOUND_S)
    assert (draining.returncode, faults) == (0, "")
    assert re.fullmatch(r"3 calls and credits were written to .*tollgate\.db\n", said)


@pytest.mark.parametrize("command", [("verify",), ("drain", "--once")], ids=" ".join)
def test_the_error_of_a_missing_redis_does_not_show_its_password(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    conf = conf_in(tmp_path / "one", "redis://:not-to-be-seen@127.0.0.1:1/0")
    result = run(conf, *command)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: Redis at 127.0.0.1:1: ")
    assert "not-to-be-seen" not in result.output


def test_an_emptied_redis_is_neither_verified_nor_drained(
    shared: tuple[Path, Path], redis_server: RedisServer
) -> None:
    one, _ = shared
    use(one, live)
    redis_server.flush()
    for command in (("verify",), ("drain", "--once")):
        result = run(one, *command)
        assert result.exit_code == 1
        assert "Redis came back empty; run `tollgate state rebuild`" in result.stderr
    with pytest.raises(StoreUnavailable, match="came back empty"):
        use(one, live)

"""``tollgate ledger`` with Redis: counters are verified, and calls that wait there are written."""

import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rig.audit import read_actions
from rig.bounds import BOUND_S
from rig.configuration import environment
from rig.ledger import read_ids
from rig.ledger_commands import conf_in, live, path_of, run, use
from rig.money import USD, select
from rig.redis_server import RedisServer

from addon.store.protocol import Store, StoreUnavailable


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return conf_in(tmp_path / "one")


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
        sound.stdout == "2 calls of earlier versions have no kept prices: their costs were left out\n"
        "2 calls, 2 wallet entries, 1 wallets, 0 price sets, 0 refusals, 0 audit lines: no discrepancies\n"
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
    assert read_actions(path_of(other)) == [("ledger drain", "made")]
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

"""A machine gets what the others change, and has its last copies while PostgreSQL is away, also after a restart."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.ledger_files import FleetMachine, put_files
from rig.settings_files import HASH_A
from rig.tcp_links import TcpLink

from addon.fleet import tables
from addon.fleet.follower import Follower
from addon.fleet.machines import Machine
from addon.settings.settings import Settings, SettingsFiles, load_conf
from addon.store.backends import find_ledger_url
from addon.store.money.ledger import LedgerPlace
from unit.fleet.conftest import ENV

type Start = Callable[[FleetMachine], Follower]
MACHINE = Machine("one:/etc/tollgate", "1", "f", 1, 0, {}, {}, {})


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.fleet.follower.LOOK_S", 0.02)


@pytest.fixture
async def woken() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def start(woken: asyncio.Event) -> AsyncIterator[Start]:
    async with AsyncExitStack() as started:

        def run(machine: FleetMachine) -> Follower:
            conf = load_conf(machine.conf_file)
            assert conf.ledger.url
            made = Follower(conf, find_ledger_url(conf.ledger.url, conf), lambda: MACHINE, woken.set)
            started.push_async_callback(made.stop)
            made.start()
            return made

        yield run


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not is_so():  # noqa: ASYNC110  (files and threads have no event)
            await asyncio.sleep(0.01)


def load(machine: FleetMachine) -> Settings:
    """Return the settings that a process which starts now has."""
    return SettingsFiles(machine.conf_file, ENV).load()


def is_active(machine: FleetMachine) -> bool:
    return load(machine).workspaces["acme"].keys[0].active


def revoke(place: LedgerPlace) -> None:
    with place.write() as ledger:
        tables.revoke(ledger, {HASH_A}, "acme", "ci", "ann")
        ledger.execute(tables.BUMP)


async def test_a_new_file_wakes_the_watcher_and_a_revoked_key_is_off(
    machine: FleetMachine, place: LedgerPlace, start: Start, woken: asyncio.Event
) -> None:
    follower = start(machine)
    with place.write() as ledger:
        tables.write_files(ledger, [tables.FileWrite("gamma", 'name = "Gamma"\n', None)], "ann")
    await asyncio.wait_for(woken.wait(), BOUND_S)
    assert machine.copies.list_ids() == ["acme", "beta", "gamma"]
    assert is_active(machine)
    revoke(place)
    await until(lambda: not is_active(machine))
    assert follower.check == "ok"
    with place.read() as ledger:
        assert ledger.execute("SELECT name FROM machines").fetchall() == [(MACHINE.name,)]


async def test_a_restart_while_the_ledger_is_away_has_the_last_copies_and_revoked_keys_stay_off(
    machine: FleetMachine, place: LedgerPlace, start: Start, link: TcpLink, woken: asyncio.Event
) -> None:
    first = start(machine)
    revoke(place)
    await until(lambda: not is_active(machine))
    link.cut()
    await until(lambda: first.fault is not None)
    assert first.check.startswith("the last copies count: ")
    await first.stop()
    with place.write() as ledger:  # Another machine goes on.
        tables.write_files(ledger, [tables.FileWrite("gamma", 'name = "Gamma"\n', None)], "ann")
    second = start(machine)
    await until(lambda: second.fault is not None)
    assert sorted(load(machine).workspaces) == ["acme", "beta"]
    assert not is_active(machine)
    woken.clear()
    link.mend()
    await asyncio.wait_for(woken.wait(), BOUND_S)
    assert sorted(load(machine).workspaces) == ["acme", "beta", "gamma"]
    assert not is_active(machine)
    await until(lambda: second.fault is None)


async def test_the_files_of_a_ledger_that_was_restored_count(
    machine: FleetMachine, place: LedgerPlace, start: Start, woken: asyncio.Event
) -> None:
    with place.write() as ledger:
        tables.write_files(ledger, [tables.FileWrite("gamma", 'name = "Gamma"\n', None)], "ann")
    start(machine)
    await asyncio.wait_for(woken.wait(), BOUND_S)
    woken.clear()
    with place.write() as ledger:
        ledger.execute("DELETE FROM workspace_files")
        ledger.execute("UPDATE fleet_version SET version = 0")
    put_files(place, "beta")
    await until(lambda: machine.copies.list_ids() == ["beta"])


async def test_copies_are_confirmed_while_nothing_changes(
    machine: FleetMachine, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.fleet.follower.DESCRIBE_S", 0.0)
    start(machine)
    os.utime(machine.copies.folder / ".ledger.json", (0, 0))
    await until(lambda: (machine.copies.find_age_s() or BOUND_S) < BOUND_S)


async def test_a_folder_that_can_t_be_written_is_a_fault_and_no_end(
    machine: FleetMachine, place: LedgerPlace, start: Start, tmp_path: Path
) -> None:
    folder, aside = machine.copies.folder, tmp_path / "aside"
    folder.rename(aside)
    folder.write_text("in the way")
    follower = start(machine)
    put_more = tables.FileWrite("gamma", 'name = "Gamma"\n', None)
    with place.write() as ledger:
        tables.write_files(ledger, [put_more], "ann")
    await until(lambda: follower.fault is not None)
    folder.unlink()
    aside.rename(folder)
    await until(lambda: follower.fault is None)
    assert "gamma" in machine.copies.list_ids()

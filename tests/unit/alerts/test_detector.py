"""Rescued calls are counted once, whatever fails in between. Only budgets that may have changed are read."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, override

import pytest
from rig.large import sampled
from rig.ledger import make_row
from rig.settings_files import ACME, CONF, MODELS, edit, write_files

from addon.alerts.detector import Detector
from addon.alerts.ledger_thread import LedgerThread
from addon.runtime.clock import SYSTEM_CLOCK
from addon.settings.settings import SettingsFiles, load_settings
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import Settlement
from addon.telemetry.metrics import Metrics
from policies.alert_rules import RESCUED_CALLS
from policies.limits import Counter
from policies.utc_time import format_utc

STEPS = 6
"""The steps on the ledger of the first look and of the second one, in which a step may fail."""


class BusyLedger(LedgerThread):
    """A ledger in which a rescued call is recorded after each step. One step fails."""

    def __init__(self, database: Path, failing_step: int) -> None:
        super().__init__(SqlitePlace(database))
        self.is_busy = True
        self._path = database
        self._step = 0
        self._failing_step = failing_step

    @override
    async def _run(self, *args: Any) -> Any:
        self._step += 1
        if self._step == self._failing_step:
            raise sqlite3.OperationalError("database is locked")
        result = await super()._run(*args)
        if self.is_busy:
            self._record()
        return result

    def _record(self) -> None:
        row = make_row(
            f"call-{self._step}", fallback=1, mode="payg", created_at=format_utc(datetime.now(UTC))
        )
        with closing(sqlite3.connect(self._path)) as connection, connection:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO usage ({', '.join(row)}) VALUES ({marks})", list(row.values()))


@sampled(every=3)
@pytest.mark.parametrize("failing_step", range(STEPS + 1))
async def test_each_rescued_call_counts_once(tmp_path: Path, failing_step: int) -> None:
    settings = load_settings(write_files(tmp_path), {"OPENAI_KEY": "sk-obviously-fake"})
    database = tmp_path / "tollgate.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        migrate(connection)
    store, ledger = SqliteStore(database), BusyLedger(database, failing_step)
    detector, failed = Detector(ledger, store, Metrics("1"), SYSTEM_CLOCK), 0
    for number in range(5):
        ledger.is_busy = number < 4
        try:
            await detector.look(settings, {})
        except sqlite3.OperationalError:
            failed += 1
            detector.reread_all_counters()
    with closing(sqlite3.connect(database)) as connection:
        [(recorded,)] = connection.execute("SELECT count(*) FROM usage").fetchall()
    counted = sum(one.calls for windows in detector._rescues._windows.values() for one in windows)
    await ledger.close()
    await store.close()
    assert (counted, failed) == (recorded, int(failing_step > 0))
    assert recorded > STEPS


class WatchedStore(SqliteStore):
    """A store that notes of which workspaces the counters are read."""

    def __init__(self, database: Path) -> None:
        super().__init__(database)
        self.read: set[str] = set()

    @override
    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:
        self.read.add(workspace)
        return await super().read_counters(workspace, counters)


async def test_after_a_reload_only_workspaces_that_changed_are_read(tmp_path: Path) -> None:
    files = SettingsFiles(write_files(tmp_path), {"OPENAI_KEY": "sk-obviously-fake"})
    database = tmp_path / "tollgate.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        migrate(connection)
    store, ledger, now_s = WatchedStore(database), LedgerThread(SqlitePlace(database)), 100.0
    detector = Detector(ledger, store, Metrics("1"), SYSTEM_CLOCK)
    conf = files.load().conf

    async def look() -> set[str]:
        nonlocal now_s
        store.read.clear()
        for _ in range(3):
            now_s += 0.5
            settings = files.look(now_s, conf)
        await detector.look(settings, {})
        return set(store.read)

    assert await look() == {"acme", "beta"}
    assert await look() == set()
    edit(tmp_path / ACME, "active = true\n", "active = true\nrequest_cap = 5\n")
    assert await look() == {"acme"}
    edit(tmp_path / MODELS, "16384", "16385")
    assert await look() == set()
    edit(tmp_path / CONF, '"4"', '"5"')
    assert await look() == {"acme", "beta"}
    (tmp_path / ACME).unlink()
    assert await look() == {"beta"}
    await ledger.close()
    await store.close()


@pytest.mark.parametrize("more", [0, 1])
async def test_only_more_rescued_calls_than_the_threshold_are_an_event(tmp_path: Path, more: int) -> None:
    conf = write_files(tmp_path)
    (tmp_path / "own.secret").write_text("sk-obviously-fake-too")
    edit(tmp_path / ACME, "", '[byok.OPENAI]\nsecret = "file:../../own.secret"\nrouting = true\n')
    settings = load_settings(conf, {"OPENAI_KEY": "sk-obviously-fake"})
    assert settings.problems == ()
    database = tmp_path / "tollgate.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        migrate(connection)
    store, ledger = SqliteStore(database), LedgerThread(SqlitePlace(database))
    detector = Detector(ledger, store, Metrics("1"), SYSTEM_CLOCK)
    await detector.look(settings, {})
    rescued = {"fallback": 1, "mode": "payg", "workspace": "acme", "provider": "OPENAI", "status": 200}
    for number in range(RESCUED_CALLS + more):
        row = make_row(f"call-{number}", created_at=format_utc(datetime.now(UTC)), **rescued)
        await store.settle(Settlement(row, from_wallet=False))
    found = await detector.look(settings, {})
    await ledger.close()
    await store.close()
    assert [one.type for one in found.events].count("safety_net.carrying") == more


async def test_a_user_is_alerted_once_a_period_and_a_mark_names_nobody(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(tmp_path / ACME, "[[keys]]", '[[budgets]]\nfor = "user"\nspend_cap_usd = "0.0000001"\n[[keys]]')
    settings = load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake"})
    store = SqliteStore(tmp_path / "tollgate.db")
    ledger = LedgerThread(SqlitePlace(tmp_path / "tollgate.db"))
    detector = Detector(ledger, store, Metrics("1"), SYSTEM_CLOCK)
    found = []
    for call_id, cost_nanousd in (("a", 79), ("b", 1), ("c", 20)):
        row = make_row(call_id, retail_nanousd=cost_nanousd, wholesale_nanousd=cost_nanousd)
        await store.settle(Settlement(row | {"budgets": '["budget:acme/user/ever/=ann"]'}, from_wallet=False))
        look = await detector.look(settings, {})
        detector.note_written(look.marks)
        found += [event.fields for event in look.events if event.type == "budget.threshold"]
        assert "ann" not in str(look.marks)
    assert [(one["budget"], one["value"], one["percent"]) for one in found] == [
        ("user", "ann", percent) for percent in (80, 95, 100)
    ]
    edit(tmp_path / ACME, '"0.0000001"', '"1"')
    await detector.look(load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake"}), {})
    detector.reread_all_counters()
    look = await detector.look(load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake"}), {})
    assert [value for name, value in look.marks.items() if name.startswith("value acme ")] == [None]
    await ledger.close()
    await store.close()

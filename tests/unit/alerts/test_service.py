"""The alerts of one process: what waits is sent, and what can't be sent ends, with a clock of the test's own."""

import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rig.alerts import TAKEN, Receiver
from rig.metrics import read, value
from rig.scripts import RESET, Script, whole
from rig.server_process import free_port
from rig.settings_files import BETA, edit, write_files

from addon.alerts.sender import MAX_AGE, MAX_BACK_OFF_S, MIN_ATTEMPTS
from addon.alerts.service import Alerts
from addon.settings.settings import Settings, load_settings
from addon.store.measured import MeasuredStore
from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import StoreUnavailable
from addon.telemetry.metrics import Metrics


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 22, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic_s(self) -> float:
        return (self.moment - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


class Process:
    """The alerts of one process, driven step by step. ``faults`` are files that do not load."""

    def __init__(
        self,
        ledger: Path,
        settings: Settings,
        clock: ManualClock,
        place: LedgerPlace | None = None,
        patience_s: float = 0,
    ) -> None:
        self.metrics, self.settings, self.faults = Metrics("1"), settings, dict[str, str]()
        self.store = MeasuredStore(SqliteStore(ledger), self.metrics)
        self.alerts = Alerts(
            place or SqlitePlace(ledger),
            self.store,
            self.metrics,
            lambda: self.settings,
            lambda: self.faults,
            clock,
            patience_s,
        )

    async def run(self) -> float:
        await self.alerts.look()
        return await self.alerts.sender.send()

    def deliveries(self, outcome: str) -> float:
        return value(read(self.metrics.render()), "tollgate_alert_deliveries_total", outcome=outcome)

    async def stop(self) -> None:
        await self.alerts.stop()
        await self.store.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def settings(tmp_path: Path, receiver: Receiver) -> Settings:
    conf = write_files(tmp_path)
    edit(conf, "[billing]", '[alerts]\nwebhook = "env:HOOK"\n[billing]')
    return load_settings(conf, {"OPENAI_KEY": "sk-obviously-fake", "HOOK": receiver.url})


@pytest.fixture
async def process(ledger_path: Path, settings: Settings, clock: ManualClock) -> AsyncIterator[Process]:
    process = Process(ledger_path, settings, clock)
    await process.store.check()
    yield process
    await process.stop()


def statuses(ledger: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(ledger)) as reader:
        return reader.execute("SELECT status, attempts FROM alerts ORDER BY rowid").fetchall()


async def test_an_event_is_tried_again_with_back_off_until_it_is_taken(
    process: Process, receiver: Receiver, ledger_path: Path, clock: ManualClock, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)
    receiver.behave(whole(b"", 500))
    process.faults["proxy.conf"] = "listen.port: must be an integer"
    assert await process.run() == 1
    assert await process.alerts.sender.send() == 1  # It is not due yet.
    clock.advance(0.5)
    assert await process.alerts.sender.send() == 0.5
    assert len(receiver.requests) == 1
    for attempts, back_off_s in ((2, 2), (3, 4)):
        clock.advance(back_off_s / 2)
        assert await process.run() == back_off_s
        assert statuses(ledger_path) == [("waiting", attempts)]
    receiver.behave(TAKEN)
    clock.advance(4)
    await process.run()
    assert statuses(ledger_path) == [("sent", 4)]
    assert [one.json()["attempt"] for one in receiver.requests] == [1, 2, 3, 4]
    assert len({one.json()["id"] for one in receiver.requests}) == 1
    assert (process.deliveries("sent"), process.deliveries("failed")) == (1, 3)
    logged = [getattr(record, "event", None) for record in caplog.records]
    assert logged.count("alerts not delivered") == logged.count("alerts delivered again") == 1
    assert receiver.url not in caplog.text


async def test_a_fault_is_sent_once_and_again_after_it_was_mended(
    process: Process, receiver: Receiver, clock: ManualClock
) -> None:
    reasons = ["unknown key", "unknown key", "unknown table", None, "unknown key"]
    for reason in reasons:
        clock.advance(1)
        process.faults = {"proxy.conf": reason} if reason else {}
        await process.run()
    found = [event["reason"] for event in receiver.events("reload.failed")]
    assert found == ["unknown key", "unknown table", "unknown key"]


async def test_an_event_that_the_receiver_refuses_lets_others_pass(
    process: Process, receiver: Receiver, ledger_path: Path
) -> None:
    receiver.behave(lambda request: whole(b"", 400) if b"first" in request.body else TAKEN)
    process.faults = {"first.toml": "unknown key", "second.toml": "unknown key"}
    await process.run()
    assert statuses(ledger_path) == [("waiting", 1), ("sent", 1)]


@pytest.mark.parametrize("answer", [whole(b"", 500), (RESET,), whole(b"", 302, [("Location", "/x")])])
async def test_an_event_is_dropped_after_a_day_of_failures(
    process: Process, receiver: Receiver, ledger_path: Path, clock: ManualClock, caplog: Any, answer: Script
) -> None:
    receiver.behave(answer)
    process.faults["proxy.conf"] = "unknown key"
    await process.run()
    clock.advance(86_401)
    for attempts in range(2, 10):
        await process.run()
        assert statuses(ledger_path) == [("waiting", attempts)]
        clock.advance(300)
    await process.run()
    assert statuses(ledger_path) == [("dropped", 10)]
    assert process.deliveries("dropped") == 1
    assert "alert dropped" in [getattr(record, "event", None) for record in caplog.records]


async def test_without_a_receiver_events_are_logged_and_kept(
    process: Process, ledger_path: Path, settings: Settings, caplog: Any, tmp_path: Path
) -> None:
    process.settings = load_settings(tmp_path / "proxy.conf", {"OPENAI_KEY": "sk-obviously-fake"})
    process.faults["proxy.conf"] = "unknown key"
    await process.run()
    assert statuses(ledger_path) == [("unsent", 0)]
    [line] = [record for record in caplog.records if getattr(record, "event", None) == "alert"]
    assert line.getMessage() == "Edits have no effect: proxy.conf: unknown key"
    process.settings = settings
    await process.run()
    assert statuses(ledger_path) == [("unsent", 0)]


async def test_only_one_process_looks_and_the_next_goes_on_when_it_ends(
    receiver: Receiver, ledger_path: Path, settings: Settings, clock: ManualClock
) -> None:
    receiver.behave(whole(b"", 500))
    process, other = (Process(ledger_path, settings, clock) for _ in range(2))
    for one in (process, other):
        await one.store.check()
        one.faults["proxy.conf"] = "unknown key"
    await process.run()
    receiver.behave(TAKEN)
    clock.advance(2)
    await other.run()
    assert len(receiver.requests) == 1
    await process.stop()
    await other.run()
    assert statuses(ledger_path) == [("sent", 2)]
    await other.stop()


async def test_a_provider_that_fails_for_all_is_sent_once_and_its_return_too(
    process: Process, receiver: Receiver, clock: ManualClock
) -> None:
    async def fail_for(workspace: str) -> None:
        for _ in range(5):
            await process.store.record_attempt(f"OPENAI/payg/{workspace}", failed=True)
        await process.store.maintain()
        for _ in range(2):
            clock.advance(1)
            await process.run()

    await fail_for("acme")
    assert receiver.requests == []  # One of two workspaces.
    await fail_for("beta")
    [opened] = receiver.events("provider.circuit_open")
    assert (opened["provider"], opened["workspaces"]) == ("OPENAI", 2)
    await process.store.record_attempt("OPENAI/payg/acme", failed=False)
    await process.store.maintain()
    clock.advance(8)
    await process.run()
    [closed] = receiver.events("provider.circuit_closed")
    assert (closed["provider"], closed["open_s"]) == ("OPENAI", 9)


async def test_a_gateway_with_one_workspace_hears_of_its_own_circuit(
    process: Process, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / BETA).unlink()
    environment = {"OPENAI_KEY": "sk-obviously-fake", "HOOK": receiver.url}
    process.settings = load_settings(tmp_path / "proxy.conf", environment)
    for _ in range(5):
        await process.store.record_attempt("OPENAI/payg/acme", failed=True)
        await process.store.record_attempt("GROQ/byok/acme", failed=True)
    await process.store.maintain()
    await process.run()
    [opened] = receiver.events("provider.circuit_open")
    assert (opened["provider"], opened["workspaces"]) == ("OPENAI", 1)


async def test_an_outage_of_the_ledger_is_sent_without_it(
    process: Process, receiver: Receiver, ledger_path: Path, clock: ManualClock
) -> None:
    await process.run()
    with closing(sqlite3.connect(ledger_path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        clock.advance(10)
        await process.run()
        [event] = receiver.events("store.unavailable")
        assert event["reason"].endswith("database is locked")
    clock.advance(10)
    await process.run()
    [event] = receiver.events("store.recovered")
    assert event["outage_s"] == 10
    assert statuses(ledger_path) == [("sent", 1)]


async def test_an_old_event_that_the_receiver_refuses_is_dropped_alone(
    process: Process, receiver: Receiver, ledger_path: Path, clock: ManualClock
) -> None:
    receiver.behave(whole(b"", 500))
    process.faults = {"first.toml": "unknown key", "second.toml": "unknown key"}
    await process.run()
    with closing(sqlite3.connect(ledger_path)) as ledger, ledger:
        ledger.execute("UPDATE alerts SET attempts = ?", (MIN_ATTEMPTS - 1,))
        ledger.execute("UPDATE alerts SET next_at = '2030' WHERE rowid > 1")
    clock.advance(MAX_AGE.total_seconds() + MAX_BACK_OFF_S)
    receiver.behave(whole(b"", 400))
    await process.alerts.sender.send()
    assert statuses(ledger_path) == [("dropped", MIN_ATTEMPTS), ("waiting", MIN_ATTEMPTS - 1)]


async def test_while_nobody_can_lead_each_process_tells_of_an_outage_that_lasts_and_of_its_end(
    receiver: Receiver, ledger_path: Path, settings: Settings, clock: ManualClock
) -> None:
    away = PostgresPlace(SecretStr(f"postgresql://127.0.0.1:{free_port()}/tollgate"))
    processes = [Process(ledger_path, settings, clock, away, patience_s=30) for _ in range(2)]

    async def run_all() -> None:
        for one in processes:
            with suppress(StoreUnavailable):
                await one.store.check()
            await one.run()

    await run_all()
    with closing(sqlite3.connect(ledger_path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for seconds, told in ((10, 0), (29, 0), (1, 2), (60, 2)):
            clock.advance(seconds)
            await run_all()
            assert len(receiver.events("store.unavailable")) == told
    clock.advance(10)
    await run_all()
    assert [event["outage_s"] for event in receiver.events("store.recovered")] == [100, 100]
    for one in processes:
        await one.stop()

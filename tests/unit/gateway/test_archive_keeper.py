"""``[ledger] keep_months``: older months go into checked files, and what can't go stays and is an alert."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rig.archives import make_ledger, read_calls, read_sums
from rig.settings_files import write_files

from addon.alerts.service import Alerts
from addon.gateway import archive_keeper
from addon.gateway.archive_keeper import ArchiveKeeper
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_conf, load_settings
from addon.store.backends import find_archived_ledger, find_ledger, open_store
from addon.store.measured import MeasuredStore
from addon.store.money.audit.audit import find_lines
from addon.store.money.copying.copying import copy_ledger
from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.sqlite.place import SqlitePlace
from addon.telemetry.metrics import Metrics

MONTHS = ("2023-12", "2024-01", "2024-02")
FOLDER = '[paths]\ndatabase = "var/tollgate.db"\narchives = "archive"\n'


class Keeping:
    """A gateway process that keeps two months, and its ledger with calls of three months of long ago."""

    def __init__(self, settings: Settings) -> None:
        conf = self.conf = settings.conf
        self.place: LedgerPlace = find_ledger(conf)
        assert conf.paths.archives
        self.folder = conf.paths.archives
        self.store = MeasuredStore(open_store(conf), Metrics("test"))
        self.alerts = Alerts(self.place, self.store, Metrics("test"), lambda: settings, dict)
        self.keeper = ArchiveKeeper(conf, self.alerts)

    @property
    def files(self) -> list[str]:
        return sorted(file.name for file in self.folder.glob("[!.]*"))

    def read(self, sql: str) -> list[Any]:
        with self.place.read() as ledger:
            return ledger.execute(sql).fetchall()


@pytest.fixture(params=["sqlite", "postgres"])
async def keeping(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Keeping]:
    conf, database = write_files(tmp_path), tmp_path / "var" / "tollgate.db"
    make_ledger(database)
    (tmp_path / "archive").mkdir()
    where = ""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        assert copy_ledger(SqlitePlace(database), PostgresPlace(SecretStr(url)), is_rehearsal=False).agrees
        database.unlink()
        where = f'url = "{url}"\n[state]\nbackend = "redis"\n'
    conf.write_text(f"{conf.read_text()}\n{FOLDER}[ledger]\nkeep_months = 2\n{where}")
    keeping = Keeping(load_settings(conf))
    yield keeping
    await keeping.keeper.stop()
    await keeping.alerts.stop()
    await keeping.store.close()


async def test_older_months_go_into_files_and_into_the_audit_log(keeping: Keeping) -> None:
    sums = read_sums(keeping.place)
    await keeping.keeper.look()
    assert keeping.files == [f"tollgate-{month}.db" for month in MONTHS]
    assert read_calls(keeping.place) == []
    assert read_sums(keeping.place) == sums
    with keeping.place.read() as ledger:
        lines = find_lines(ledger, None, "ledger archive", None, 9).records()
    assert [(one["source"], one["user"], one["outcome"]) for one in lines] == [("gateway", "", "made")] * 3
    await keeping.keeper.look()
    assert keeping.read("SELECT type FROM alerts") == []


async def test_what_can_not_be_archived_stays_and_is_one_alert_a_day(keeping: Keeping) -> None:
    keeping.folder.rmdir()
    for _ in range(2):
        await keeping.keeper.look()
    assert len(read_calls(keeping.place)) == 45
    [(kind, body)] = keeping.read("SELECT type, body FROM alerts")
    assert kind == "ledger.not_archived"
    assert f"stay in the ledger: {keeping.folder}: no such folder" in body


async def test_a_gateway_that_stops_ends_the_run_and_another_goes_on(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = archive_keeper.start_module, asyncio.get_running_loop().create_future()

    async def note(name: str) -> Any:
        process = await start(name)
        if not started.done():
            started.set_result(process)
        return process

    monkeypatch.setattr(archive_keeper, "start_module", note)
    keeping.keeper.start()
    process = await started
    await keeping.keeper.stop()
    assert process.returncode is not None
    keeping.keeper = ArchiveKeeper(keeping.conf, keeping.alerts)
    await keeping.keeper.look()
    assert len(keeping.files) == 3


async def test_another_process_that_archives_is_no_fault(keeping: Keeping) -> None:
    with find_archived_ledger(keeping.conf).alone():
        await keeping.keeper.look()
    assert keeping.read("SELECT type FROM alerts") == []
    assert len(read_calls(keeping.place)) == 45


async def test_another_version_on_the_disk_archives_nothing(keeping: Keeping) -> None:
    keeping.keeper._code_version = "of before an upgrade"
    await keeping.keeper.look()
    assert (keeping.files, len(read_calls(keeping.place))) == ([], 45)


def test_months_are_kept_only_with_a_folder(tmp_path: Path) -> None:
    conf = write_files(tmp_path)
    conf.write_text(f"{conf.read_text()}\n[ledger]\nkeep_months = 2\n")
    with pytest.raises(SettingsError, match=r"ledger\.keep_months: needs \[paths\] archives"):
        load_conf(conf)

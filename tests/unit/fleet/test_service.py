"""Only a process that watches files, and whose ledger is shared, follows others."""

from pathlib import Path

import pytest
from rig.ledger_files import FleetMachine
from rig.settings_files import write_files

from addon.fleet.service import make_follower
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.watcher import Watcher
from unit.fleet.conftest import ENV


def watch(conf_file: Path) -> tuple[Settings, Watcher]:
    files = SettingsFiles(conf_file, ENV)
    settings = files.load()
    return settings, Watcher(files, settings, lambda _: None)


async def test_a_ledger_of_one_machine_is_not_followed(tmp_path: Path) -> None:
    settings, watcher = watch(write_files(tmp_path))
    assert make_follower(lambda: settings, watcher, lambda: 0) is None


@pytest.mark.parametrize("is_watching", [True, False])
async def test_a_process_that_watches_files_follows_a_shared_ledger(
    machine: FleetMachine, is_watching: bool
) -> None:
    settings, watcher = watch(machine.conf_file)
    made = make_follower(lambda: settings, watcher if is_watching else None, lambda: 0)
    assert (made is not None) == is_watching
    if made:
        assert made.check == "ok"
        await made.stop()

"""The copies of the files in the ledger: which state they are of, and that a half-made set is mended."""

import os
import time
from pathlib import Path

import pytest
from rig.ledger_files import FleetMachine, put_files

from addon.edits.workspace_files import hash_content
from addon.fleet.copies import Copies, refresh
from addon.fleet.tables import Version
from addon.settings.errors import SettingsError
from addon.store.money.ledger import LedgerPlace

FIRST, SECOND = Version("ledger", 1, "a"), Version("ledger", 2, "b")


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path / "var" / "ledger-workspaces")


def write(copies: Copies, version: Version, **texts: str) -> bool:
    return copies.write(version, {name: hash_content(text.encode()) for name, text in texts.items()}, texts)


def texts_of(copies: Copies) -> dict[str, str]:
    return {name: (copies.folder / f"{name}.toml").read_text() for name in copies.list_ids()}


def test_before_the_first_copy_nothing_is_known(copies: Copies) -> None:
    assert (copies.list_ids(), copies.read_state(), copies.find_age_s()) == ([], None, None)
    assert copies.find_missing({"acme": "0"}) == ["acme"]


def test_the_copies_become_those_of_a_version_and_only_their_owner_reads_them(copies: Copies) -> None:
    assert write(copies, FIRST, acme="1", beta="1")
    assert write(copies, SECOND, acme="2")
    assert (texts_of(copies), copies.read_state()) == ({"acme": "2"}, SECOND)
    modes = {file.stat().st_mode & 0o077 for file in (copies.folder, *copies.folder.iterdir())}
    assert modes == {0}


def test_an_earlier_version_of_the_same_ledger_is_not_written(copies: Copies) -> None:
    write(copies, SECOND, acme="2")
    assert not write(copies, FIRST, acme="1")
    assert texts_of(copies) == {"acme": "2"}
    assert write(copies, Version("another ledger", 1, "c"), acme="3")
    assert texts_of(copies) == {"acme": "3"}


def test_the_state_of_a_ledger_that_was_restored_is_forgotten(copies: Copies) -> None:
    write(copies, SECOND, acme="2")
    copies.forget_lower(SECOND)
    assert copies.read_state() == SECOND
    copies.forget_lower(FIRST)
    assert copies.read_state() is None
    assert write(copies, FIRST, acme="1")


@pytest.mark.parametrize("state", ["", "{", "[1]", '{"a": 1}', "null"])
def test_a_state_that_can_t_be_read_counts_as_unknown(copies: Copies, state: str) -> None:
    write(copies, FIRST, acme="1")
    (copies.folder / ".ledger.json").write_text(state)
    assert copies.read_state() is None


def test_the_change_of_this_machine_is_put_beside_the_others(copies: Copies) -> None:
    write(copies, FIRST, acme="1", beta="1")
    copies.put(SECOND, {"acme": "2", "beta": None})
    assert (texts_of(copies), copies.read_state()) == ({"acme": "2"}, SECOND)


def test_a_change_after_one_that_is_not_here_leaves_no_state(copies: Copies) -> None:
    write(copies, FIRST, acme="1")
    copies.put(Version("ledger", 3, "c"), {"acme": "3"})
    assert (texts_of(copies), copies.read_state()) == ({"acme": "3"}, None)


def test_a_name_that_leads_elsewhere_is_not_written(copies: Copies) -> None:
    with pytest.raises(SettingsError, match="no name of a workspace"):
        write(copies, FIRST, **{"../x": "1"})
    assert not (copies.folder.parent / "x.toml").exists()
    assert copies.read_state() is None


def test_the_age_is_that_of_the_last_look_at_the_ledger(copies: Copies) -> None:
    write(copies, FIRST, acme="1")
    then = time.time() - 1000
    os.utime(copies.folder / ".ledger.json", (then, then))
    copies.confirm(SECOND)
    assert (copies.find_age_s() or 0) >= 1000
    copies.confirm(FIRST)
    assert (copies.find_age_s() or 0) < 900


def test_a_refresh_brings_changes_and_undoes_those_of_this_folder(
    machine: FleetMachine, place: LedgerPlace
) -> None:
    copy, before = machine.copies.folder / "acme.toml", machine.copy_of("acme")
    copy.write_text("by hand")
    refresh(place, machine.copies)
    assert copy.read_text() == "by hand"  # The ledger has not changed, and no file is compared.
    refresh(place, machine.copies, must_check=True)
    assert copy.read_text() == before
    with place.write() as ledger:
        ledger.execute("UPDATE workspace_files SET deleted = 1, version = 9")
        ledger.execute("UPDATE fleet_version SET version = 9")
    refresh(place, machine.copies)
    assert machine.copies.list_ids() == []
    with place.write() as ledger:
        ledger.execute("DELETE FROM workspace_files")
        ledger.execute("UPDATE fleet_version SET version = 1")  # As after a restore.
    put_files(place, "beta")
    refresh(place, machine.copies)
    assert machine.copies.list_ids() == ["beta"]

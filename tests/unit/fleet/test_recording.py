"""A file in the ledger, its audit line and the keys that it ends are committed together, or none of them is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rig.ledger_files import FleetMachine, text_in
from rig.settings_files import HASH_A, HASH_B
from rig.tcp_links import TcpLink

from addon.edits.recording import ChangeRecord, Recording, apply_recorded, record_of
from addon.edits.workspace_files import EditError, Plan
from addon.fleet.recording import EditedLedger, RevokingRecord, editing
from addon.settings.settings import SettingsFiles
from addon.store.money.audit.audit import AuditLine
from addon.store.money.ledger import LedgerPlace
from addon.store.protocol import StoreUnavailable


def make_line(change: ChangeRecord) -> AuditLine:
    return AuditLine("command", "", "", "tests", change.workspace, change.subject, change.text, "ann")


@contextmanager
def elsewhere(change: ChangeRecord) -> Iterator[Recording]:
    """The record of what is not in the ledger."""
    raise AssertionError(change)
    yield Recording()


def edited(machine: FleetMachine, change_id: str | None = None) -> EditedLedger:
    return EditedLedger(machine.place, machine.copies, make_line, elsewhere, change_id)


def plan(machine: FleetMachine, workspace: str, old: str, new: str) -> Plan:
    before = machine.copy_of(workspace)
    file = machine.copies.folder / f"{workspace}.toml"
    return Plan(file, before.encode(), before.replace(old, new), f"Change {workspace}")


def make(machine: FleetMachine, record: EditedLedger, made: Plan) -> None:
    apply_recorded(made, SettingsFiles(machine.conf_file, {}), record, "ci")


def read(place: LedgerPlace, sql: str) -> list[tuple[object, ...]]:
    with place.read() as ledger:
        return ledger.execute(sql).fetchall()


LINES = "SELECT action, workspace, subject, outcome FROM audit"
REVOKED = "SELECT hash, workspace, key_id, revoked_by FROM revoked_keys"
LINE = ("tests", "acme", "ci", "made")
OFF = ("active = true", "active = false")


def test_a_change_is_committed_with_its_line_and_the_keys_that_it_ends(
    machine: FleetMachine, place: LedgerPlace
) -> None:
    make(machine, edited(machine), plan(machine, "acme", *OFF))
    assert "active = true" not in text_in(place, "acme")
    assert machine.copy_of("acme") == text_in(place, "acme")
    assert read(place, LINES) == [LINE]
    assert read(place, REVOKED) == [(HASH_A, "acme", "ci", "ann")]
    make(
        machine,
        edited(machine),
        plan(machine, "acme", f'{HASH_A}"   # made in May\nactive = false', f'{HASH_A}"\nactive = true'),
    )
    assert read(place, REVOKED) == []
    assert read(place, LINES) == [LINE] * 2


def test_nothing_is_committed_where_the_file_has_changed(machine: FleetMachine, place: LedgerPlace) -> None:
    make(machine, edited(machine), plan(machine, "acme", "Acme", "First"))
    stale = Plan(
        machine.copies.folder / "acme.toml", b"before", machine.copy_of("acme").replace(*OFF), "Change acme"
    )
    with (
        pytest.raises(EditError, match=r"file of acme was changed at .* by ann"),
        edited(machine)(record_of(stale, "ci")) as recording,
    ):
        recording.write(stale.file, stale.after, stale.before)
    assert "First" in text_in(place, "acme")
    assert (len(read(place, LINES)), read(place, REVOKED)) == (1, [])


def test_a_key_that_another_workspace_has_is_not_committed(machine: FleetMachine, place: LedgerPlace) -> None:
    make(machine, edited(machine), plan(machine, "beta", "Beta", "Better"))
    taken = plan(machine, "acme", HASH_A, HASH_B)
    with (
        pytest.raises(EditError, match="a key of workspace acme has the same hash as one of workspace beta"),
        edited(machine)(record_of(taken, "ci")) as recording,
    ):
        recording.write(taken.file, taken.after, taken.before)
    assert HASH_B not in text_in(place, "acme")
    assert len(read(place, LINES)) == 1


def write_and_fail(recording: Recording, made: Plan) -> None:
    recording.write(made.file, made.after, made.before)
    raise EditError("it does not load, and no last good text is here")


def test_what_was_written_before_an_error_stays(machine: FleetMachine, place: LedgerPlace) -> None:
    off = plan(machine, "acme", *OFF)
    with (
        pytest.raises(EditError, match="no last good text"),
        edited(machine)(record_of(off, "ci")) as recording,
    ):
        write_and_fail(recording, off)
    assert read(place, LINES) == [LINE]
    assert [hash_ for hash_, *_ in read(place, REVOKED)] == [HASH_A]
    before_writing = plan(machine, "acme", "Acme", "Second")
    with pytest.raises(EditError), edited(machine)(record_of(before_writing, "ci")):
        raise EditError("it would not load")
    assert read(place, LINES) == [LINE]


def test_a_change_with_an_id_is_found_after_its_commit(machine: FleetMachine) -> None:
    record = edited(machine, "0123")
    assert not record.has_committed()
    make(machine, record, plan(machine, "acme", "Acme", "First"))
    assert record.has_committed()
    assert not edited(machine, "4567").has_committed()


def test_an_edit_begins_with_the_newest_files(
    machine: FleetMachine, place: LedgerPlace, postgres_ledger_url: str, tmp_path: Path
) -> None:
    other = FleetMachine(tmp_path / "other", postgres_ledger_url, {})
    make(other, edited(other), plan(other, "acme", "Acme", "First"))
    record = edited(machine)
    make(machine, record, plan(machine, "acme", 'plan = "pro"', 'plan = "standard"'))
    assert text_in(place, "acme").startswith('name = "First"\nplan = "standard"')


def test_without_the_ledger_nothing_is_changed(
    machine: FleetMachine, place: LedgerPlace, link: TcpLink
) -> None:
    link.cut()
    record, before = edited(machine), machine.copy_of("acme")
    with pytest.raises(StoreUnavailable, match="nothing was changed: "):
        make(machine, record, plan(machine, "acme", *OFF))
    with pytest.raises(StoreUnavailable), editing(record, machine.copies):
        raise AssertionError("it has no lock to give")
    assert machine.copy_of("acme") == before == text_in(place, "acme")
    assert (read(place, LINES), read(place, REVOKED)) == ([], [])


@contextmanager
def here(_: ChangeRecord) -> Iterator[Recording]:
    yield Recording()


ENDS = ChangeRecord("Revoke", workspace="acme", subject="ci", ended=frozenset({HASH_A}))
ALLOWS = ChangeRecord("Enable", workspace="acme", subject="ci", allowed=frozenset({HASH_A}))


def test_a_key_that_ends_in_a_file_of_one_machine_ends_on_all(
    machine: FleetMachine, place: LedgerPlace
) -> None:
    record = RevokingRecord(place, make_line, here)
    version = read(place, "SELECT version FROM fleet_version")
    with record(ENDS):
        assert read(place, REVOKED) == [(HASH_A, "acme", "ci", "ann")]  # The others know of it first.
    assert read(place, "SELECT version FROM fleet_version") != version
    with record(ALLOWS):
        assert len(read(place, REVOKED)) == 1
    assert read(place, REVOKED) == []
    assert machine


@pytest.mark.parametrize("change", [ENDS, ALLOWS], ids=["ended", "allowed"])
def test_a_change_that_the_others_are_not_told_of_is_made_here_and_fails(
    machine: FleetMachine, link: TcpLink, change: ChangeRecord
) -> None:
    link.cut()
    made = []
    with (
        pytest.raises(
            StoreUnavailable, match=r"files of this machine only.* run it again when the ledger is back"
        ),
        RevokingRecord(machine.place, make_line, here)(change),
    ):
        made.append(change)
    assert made

"""``keys revoke`` where machines share a ledger: it ends the key on all of them, or fails and says what is not done."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.ledger_files import FleetMachine, put_files, text_in, through
from rig.settings_files import ACME, HASH_A, edit
from rig.tcp_links import TcpLink

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from unit.commands.test_fleet_copies import ENV, link, run

__all__ = ["link"]
REVOKE = ("keys", "revoke", "acme", "ci")


@pytest.fixture
def place(postgres_ledger_url: str) -> LedgerPlace:
    made = PostgresPlace(SecretStr(postgres_ledger_url))
    put_files(made, "acme")
    return made


@pytest.fixture
def machine(tmp_path: Path, place: LedgerPlace, postgres_ledger_url: str, link: TcpLink) -> FleetMachine:
    assert place
    return FleetMachine(tmp_path / "one", through(postgres_ledger_url, link.port), ENV)


def revoked(place: LedgerPlace) -> list[tuple[object, ...]]:
    with place.read() as ledger:
        return ledger.execute("SELECT hash, workspace, key_id FROM revoked_keys").fetchall()


def lines(place: LedgerPlace) -> list[tuple[object, ...]]:
    with place.read() as ledger:
        return ledger.execute("SELECT action, workspace, subject, outcome FROM audit").fetchall()


def test_with_the_files_in_the_ledger_nothing_is_half_done(
    machine: FleetMachine, place: LedgerPlace, link: TcpLink
) -> None:
    before = text_in(place, "acme")
    link.cut()
    failed = run(machine, *REVOKE)
    assert failed.returncode == 1
    assert "nothing was changed: " in failed.stderr
    assert machine.copy_of("acme") == before == text_in(place, "acme")
    assert (revoked(place), lines(place)) == ([], [])
    link.mend()
    assert run(machine, *REVOKE).returncode == 0
    assert revoked(place) == [(HASH_A, "acme", "ci")]
    assert lines(place) == [("keys revoke", "acme", "ci", "made")]
    assert machine.copy_of("acme") == before.replace("active = true", "active = false")


def test_with_files_of_its_own_a_machine_says_that_the_others_do_not_know(
    machine: FleetMachine, place: LedgerPlace, link: TcpLink
) -> None:
    edit(machine.conf_file, '[paths]\nworkspaces = "ledger"\n', "")
    file = machine.conf_file.parent / ACME
    link.cut()
    failed = run(machine, *REVOKE)
    assert failed.returncode == 1
    assert "for the files of this machine only, and could not be recorded for the others" in failed.stderr
    assert "run it again when the ledger is back" in failed.stderr
    assert "canary-postgres" not in failed.stderr
    assert "active = true" not in file.read_text()
    assert revoked(place) == []
    link.mend()
    assert run(machine, *REVOKE).returncode == 0
    assert revoked(place) == [(HASH_A, "acme", "ci")]


def test_a_new_key_needs_no_word_to_the_others_and_is_shown(
    machine: FleetMachine, place: LedgerPlace, link: TcpLink
) -> None:
    edit(machine.conf_file, '[paths]\nworkspaces = "ledger"\n', "")
    link.cut()
    made = run(machine, "keys", "create", "acme")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("tg_")
    assert revoked(place) == []

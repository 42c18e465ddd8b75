"""What machines share in PostgreSQL: files that are written over what was read only, claims of keys, revocations."""

import json

import pytest
from rig.settings_files import HASH_A, HASH_B

from addon.edits.workspace_files import EditError
from addon.fleet import tables
from addon.fleet.tables import FileWrite
from addon.store.money.ledger import LedgerPlace


def write(place: LedgerPlace, *writes: FileWrite, user: str = "ann") -> tables.Version:
    with place.write() as ledger:
        return tables.write_files(ledger, writes, user)


def text_of(place: LedgerPlace, workspace: str) -> str:
    with place.read() as ledger:
        return tables.read_texts(ledger, [workspace])[workspace]


def test_each_write_is_a_version_and_names_who_made_it(place: LedgerPlace) -> None:
    with place.read() as ledger:
        before = tables.read_version(ledger)
    made = write(place, FileWrite("gamma", "text", None))
    assert (made.ledger, made.version) == (before.ledger, before.version + 1)
    assert made.mark != before.mark
    with place.read() as ledger:
        assert tables.read_version(ledger) == made
        file = tables.read_files(ledger)["gamma"]
        assert sorted(tables.read_digests(ledger)) == ["acme", "beta", "gamma"]
    assert (file.text, file.version, file.changed_by) == ("text", made.version, "ann")


def test_a_file_that_someone_else_has_changed_is_not_written(place: LedgerPlace) -> None:
    before = text_of(place, "acme").encode()
    write(place, FileWrite("acme", "first", before))
    with pytest.raises(EditError, match=r"file of acme was changed at 20\S+ by ann; nothing was written"):
        write(
            place,
            FileWrite("beta", "second", text_of(place, "beta").encode()),
            FileWrite("acme", "second", before),
        )
    assert text_of(place, "acme") == "first"
    assert text_of(place, "beta") != "second"


def test_a_file_that_is_there_is_not_made_new_and_a_removed_one_is(place: LedgerPlace) -> None:
    with pytest.raises(EditError, match="was changed at"):
        write(place, FileWrite("acme", "new", None))
    before = text_of(place, "acme").encode()
    write(place, FileWrite("acme", None, before))
    with pytest.raises(EditError, match="was removed at"):
        write(place, FileWrite("acme", "late", before))
    with pytest.raises(EditError, match="the ledger has no file of none"):
        write(place, FileWrite("none", "late", b"before"))
    write(place, FileWrite("acme", "again", None))
    assert text_of(place, "acme") == "again"


def test_a_key_stays_revoked_until_it_is_allowed(place: LedgerPlace) -> None:
    with place.write() as ledger:
        tables.revoke(ledger, {HASH_A, HASH_B}, "acme", "ci", "ann")
        tables.revoke(ledger, {HASH_A}, "acme", "ci", "bob")
        tables.allow(ledger, {HASH_B})
    with place.read() as ledger:
        assert ledger.execute(f"{tables.REVOKED} ORDER BY hash").fetchall() == [(HASH_A,)]
        assert ledger.execute("SELECT revoked_by FROM revoked_keys").fetchall() == [("ann",)]


def claim(place: LedgerPlace, machine: str, **claims: set[str]) -> None:
    encoded = tables.encode_claims(claims)
    with place.write() as ledger:
        ledger.execute(tables.UNCLAIM, (machine, encoded))
        ledger.execute(tables.CLAIM, (machine, encoded))
        ledger.execute(tables.DESCRIBE, (machine, "1", "f", 1, 0, json.dumps({})))


def owners(place: LedgerPlace) -> dict[str, str]:
    with place.read() as ledger:
        return dict(ledger.execute(tables.OWNERS).fetchall())


def test_the_first_of_two_claims_owns_a_key_until_its_machine_is_gone(place: LedgerPlace) -> None:
    claim(place, "one", acme={HASH_A})
    claim(place, "two", acme={HASH_A}, beta={HASH_B})
    assert owners(place) == {}  # The same workspace on two machines is no contest.
    claim(place, "three", other={HASH_A})
    assert owners(place) == {HASH_A: "acme"}
    with place.write() as ledger:
        ledger.execute("UPDATE machines SET seen_at = seen_at - interval '1 hour' WHERE name <> 'three'")
    assert owners(place) == {}
    claim(place, "one", acme={HASH_A})
    claim(place, "three", other={HASH_B})
    assert owners(place) == {}
    claim(place, "two", acme={HASH_A}, beta={HASH_B})
    assert owners(place) == {HASH_B: "beta"}

"""A change that could not be made now can be confirmed again, and is still made once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from rig.settings_files import edit

from addon.console.changes import keys, wallet
from addon.console.changes.form import Form
from addon.console.changes.maker import ChangeMaker, RefusedError, UnavailableError
from addon.console.changes.waiting import PendingChange
from addon.store.money.sqlite import place
from unit.console.changes.test_forms import text_of
from unit.console.changes.test_maker import AT_ACME, CI, REQUESTER, lines


@contextmanager
def locked_ledger(conf: Path) -> Iterator[None]:
    """Lock the ledger as another program does."""
    with closing(sqlite3.connect(conf.parent / "var" / "tollgate.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "WRITE_TIMEOUT_S", 0.01)


async def show(maker: ChangeMaker, form: Form, names: dict[str, str], **typed: str) -> PendingChange:
    current = await maker.read_current(form, names)
    waiting = maker.waiting.get(await maker.show(form, names, {**current, **typed}), "")
    assert waiting is not None
    return waiting


async def test_a_locked_ledger_changes_nothing_and_the_change_is_made_later(
    maker: ChangeMaker, conf: Path, acme: Path
) -> None:
    waiting, before = await show(maker, keys.SET, CI, label="CI"), text_of(acme)
    with locked_ledger(conf), pytest.raises(UnavailableError, match="locked"):
        await maker.confirm(waiting, REQUESTER)
    assert "locked" in waiting.fault
    assert text_of(acme) == before
    assert waiting.result is None
    result = await maker.confirm(waiting, REQUESTER)
    assert (waiting.fault, waiting.result) == ("", result)
    assert [line["action"] for line in lines(conf)] == ["keys set"]


async def test_a_file_that_changed_in_between_is_refused(maker: ChangeMaker, conf: Path, acme: Path) -> None:
    waiting = await show(maker, keys.SET, CI, label="CI")
    with locked_ledger(conf), pytest.raises(UnavailableError):
        await maker.confirm(waiting, REQUESTER)
    edit(acme, "", "# by hand\n")
    with pytest.raises(RefusedError, match="the file has changed since") as refused:
        await maker.confirm(waiting, REQUESTER)
    assert not isinstance(refused.value, UnavailableError)
    assert lines(conf) == []


async def test_a_credit_without_a_reference_that_is_sent_again_is_one_credit(
    maker: ChangeMaker, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await show(maker, wallet.CREDIT, AT_ACME, amount="5")
    save_entry = wallet.save_entry

    def save_and_fail(*arguments: object) -> bool:
        save_entry(*arguments)  # type: ignore[arg-type]
        raise OSError("the connection to redis://user:not-a-real-secret@redis.example was lost")

    monkeypatch.setattr(wallet, "save_entry", save_and_fail)
    with pytest.raises(UnavailableError, match="was lost"):
        await maker.confirm(waiting, REQUESTER)
    assert "redis.example was lost" in waiting.fault
    assert "not-a-real-secret" not in waiting.fault
    monkeypatch.setattr(wallet, "save_entry", save_entry)
    result = maker.results.get(await maker.confirm(waiting, REQUESTER), REQUESTER.session)
    assert result is not None
    assert not result.is_made
    assert "Already entered: 5.00 USD, no reference" in result.lines[0]
    assert [(line["action"], line["outcome"]) for line in lines(conf)] == [("wallet credit", "made")]
    other = await show(maker, wallet.CREDIT, AT_ACME, amount="5")
    made = maker.results.get(await maker.confirm(other, REQUESTER), REQUESTER.session)
    assert made is not None
    assert made.is_made

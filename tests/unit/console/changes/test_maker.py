"""A change is shown first, made once, refused when its file is another one by then, and has one audit line."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig.audit import die_during
from rig.large import large_only
from rig.settings_files import ACME, HASH_A, edit
from rig.unrecorded import set_key

from addon.console.changes import keys, wallet
from addon.console.changes.field import FieldErrors
from addon.console.changes.form import Form
from addon.console.changes.maker import MAX_WAITING, BusyError, ChangeMaker, RefusedError
from addon.console.changes.making import Requester
from addon.edits.recording import file_evidence
from addon.settings.api_keys import hash_key
from addon.settings.settings import SettingsFiles, load_settings
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.place import SqlitePlace
from unit.console.changes.conftest import ENV

REQUESTER = Requester("203.0.113.9", "0123456789abcdef")
CI = {"workspace": "acme", "key": "ci"}
AT_ACME = {"workspace": "acme"}


def lines(conf: Path) -> list[dict[str, Any]]:
    with open_report(conf.parent / "var" / "tollgate.db") as ledger:
        ledger.row_factory = sqlite3.Row
        return [dict(row) for row in ledger.execute("SELECT * FROM audit ORDER BY number")]


async def make(maker: ChangeMaker, form: Form, names: Mapping[str, str], **typed: str) -> str:
    """Show a change, and confirm it."""
    current = await maker.read_current(form, names)
    token = await maker.show(form, names, {**current, **typed})
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    return await maker.confirm(waiting, REQUESTER)


async def test_nothing_is_changed_before_the_confirmation(maker: ChangeMaker, conf: Path) -> None:
    before = (conf.parent / ACME).read_bytes()
    token = await maker.show(keys.SET, CI, {"label": "CI"})
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    lines_shown = [str(line) for line in waiting.preview.lines if line.kind in ("added", "removed")]
    assert lines_shown == ['+label = "CI"']
    assert (conf.parent / ACME).read_bytes() == before
    assert lines(conf) == []


async def test_a_change_keeps_comments_and_has_one_line(maker: ChangeMaker, conf: Path) -> None:
    await make(maker, keys.SET, CI, label="CI")
    text = (conf.parent / ACME).read_text()
    assert "# made in May" in text
    assert 'label = "CI"' in text
    [line] = lines(conf)
    assert (line["source"], line["address"], line["session"]) == (
        "console",
        REQUESTER.address,
        REQUESTER.session,
    )
    assert (line["action"], line["workspace"], line["subject"]) == ("keys set", "acme", "ci")
    assert '+label = "CI"' in line["change"]
    assert HASH_A not in line["change"]


async def test_a_command_that_died_is_judged_before_its_file_changes_again(
    maker: ChangeMaker, conf: Path
) -> None:
    file, spool = conf.parent / ACME, AuditSpool(conf.parent / "var" / "tollgate.db")
    before, after = file.read_bytes(), file.read_text() + "# by a command\n"
    die_during(spool, file_evidence(file, before, after))
    file.write_text(after)
    await make(maker, keys.SET, CI, label="CI")
    spool.drain(SqlitePlace(conf.parent / "var" / "tollgate.db"), 1)
    assert [(line["source"], line["outcome"]) for line in lines(conf)] == [
        ("console", "made"),
        ("command", "made"),
    ]


async def test_confirmations_at_once_make_one_change(maker: ChangeMaker, conf: Path) -> None:
    token = await maker.show(keys.CREATE, AT_ACME, {"label": "twice"})
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    results = await asyncio.gather(*(maker.confirm(waiting, REQUESTER) for _ in range(5)))
    assert len(set(results)) == 1
    assert (conf.parent / ACME).read_text().count('label = "twice"') == 1
    assert len(lines(conf)) == 1


async def test_a_new_key_is_shown_once_and_is_nowhere_else(maker: ChangeMaker, conf: Path) -> None:
    result = maker.results.get(await make(maker, keys.CREATE, AT_ACME, id="phone"), REQUESTER.session)
    assert result is not None
    key = result.take_key()
    assert key is not None
    assert result.take_key() is None
    [made] = [one for one in load_settings(conf, {}).workspaces["acme"].keys if one.id == "phone"]
    assert made.hash == hash_key(key)
    ledger = b"".join(
        file.read_bytes() for file in (conf.parent / "var").glob("tollgate.db*") if file.is_file()
    )
    assert key.encode() not in ledger
    assert made.hash.encode() not in ledger


@pytest.mark.parametrize("new", ["# by hand\n", ""], ids=["changed", "changed and back"])
async def test_a_file_that_has_changed_since_is_refused(maker: ChangeMaker, conf: Path, new: str) -> None:
    token = await maker.show(keys.SET, CI, {"label": "CI"})
    edit(conf.parent / ACME, "", "# by hand\n")
    if not new:
        edit(conf.parent / ACME, "# by hand\n", "")
    before = (conf.parent / ACME).read_bytes()
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    if new:
        with pytest.raises(RefusedError, match="the file has changed since"):
            await maker.confirm(waiting, REQUESTER)
        assert (conf.parent / ACME).read_bytes() == before
        assert lines(conf) == []
    else:
        await maker.confirm(waiting, REQUESTER)
        assert len(lines(conf)) == 1


async def test_what_would_not_load_or_changes_nothing_is_refused(maker: ChangeMaker, conf: Path) -> None:
    with pytest.raises(RefusedError, match="nothing would change"):
        await maker.show(keys.SET, CI, {})
    with pytest.raises(FieldErrors, match="models"):
        await maker.show(keys.SET, CI, {"models": "a*b"})
    with pytest.raises(RefusedError, match="spend_reset has no effect without spend_cap_usd"):
        await maker.show(keys.SET, CI, {"spend_reset": "daily"})
    with pytest.raises(RefusedError, match='unknown workspace "acne"; did you mean "acme"'):
        await maker.show(keys.CREATE, {"workspace": "acne"}, {})
    assert lines(conf) == []


async def test_all_wrong_fields_are_named(maker: ChangeMaker) -> None:
    typed = {"spend_cap_usd": "ten", "request_cap": "0", "expires_at": "soon", "spend_reset": "hourly"}
    with pytest.raises(FieldErrors) as caught:
        await maker.show(keys.SET, CI, typed)
    assert set(caught.value.errors) == set(typed)


async def test_a_new_warning_is_shown(maker: ChangeMaker) -> None:
    token = await maker.show(keys.SET, CI, {"expires_at": "2d"})
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    assert any("expires" in warning for warning in waiting.preview.warnings)


async def test_a_key_is_changed_rotated_and_revoked(maker: ChangeMaker, conf: Path) -> None:
    await make(maker, keys.SET, CI, spend_cap_usd="20", spend_reset="monthly", models="gpt-4o*")
    await make(maker, keys.SET, CI, spend_cap_usd="")
    await make(maker, keys.ROTATE, CI, grace="24h")
    key = load_settings(conf, {}).workspaces["acme"].keys[0]
    assert (key.spend_cap_nanousd, key.previous_hash) == (None, HASH_A)
    await make(maker, keys.REVOKE, CI)
    assert not load_settings(conf, {}).workspaces["acme"].keys[0].active
    assert [line["action"] for line in lines(conf)] == ["keys set", "keys set", "keys rotate", "keys revoke"]


async def test_a_key_of_a_file_that_never_loaded_is_revoked_in_the_file(conf: Path) -> None:
    edit(conf.parent / ACME, 'plan = "pro"', 'plan = "gold"')
    maker = ChangeMaker(lambda: SettingsFiles(conf, ENV).load(), SettingsFiles(conf))
    token = await maker.show(keys.REVOKE, CI, {})
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    assert "plan" in waiting.preview.warnings[0]
    with pytest.raises(RefusedError, match="turned off in its file, which does not load"):
        await maker.confirm(waiting, REQUESTER)
    # It says that it is not done yet. But the file was changed, so there is a line.
    assert "active = false" in (conf.parent / ACME).read_text()
    assert [line["outcome"] for line in lines(conf)] == ["made"]


async def test_a_key_of_a_file_that_does_not_load_any_more_stays_revoked(conf: Path) -> None:
    files = SettingsFiles(conf)
    settings = files.load()
    maker = ChangeMaker(lambda: settings, files)
    edit(conf.parent / ACME, 'plan = "pro"', 'plan = "gold"')
    await make(maker, keys.REVOKE, CI)
    # The gateway did not write its last good text before. It writes the one without the key.
    files.keep()
    for now_s in range(3):
        after = files.look(now_s, settings.conf)
    for found in (after, SettingsFiles(conf).load()):
        assert [key.active for key in found.workspaces["acme"].keys] == [False, False]


async def test_one_reference_is_credited_once(maker: ChangeMaker, conf: Path) -> None:
    first = await maker.show(wallet.CREDIT, AT_ACME, {"amount": "12.5", "reference": "invoice 7"})
    again = await maker.show(wallet.CREDIT, AT_ACME, {"amount": "12.5", "reference": "invoice 7"})
    for token in (first, again):
        waiting = maker.waiting.get(token, "")
        assert waiting is not None
        shown = [line.text for line in waiting.preview.lines]
        assert shown[1:] == ["balance 0.00 USD", "balance 12.50 USD"]
        result = maker.results.get(await maker.confirm(waiting, REQUESTER), REQUESTER.session)
        assert result is not None
        assert result.is_made == (token is first)
    [line] = lines(conf)
    assert "invoice 7" in line["change"]
    with pytest.raises(RefusedError, match="already entered"):
        await maker.show(wallet.CREDIT, AT_ACME, {"amount": "12.5", "reference": "invoice 7"})
    with pytest.raises(FieldErrors, match="reference"):
        await maker.show(wallet.CREDIT, AT_ACME, {"amount": "-1"})


async def test_forms_and_commands_at_once_lose_nothing(maker: ChangeMaker, conf: Path) -> None:
    """Eight writers of one file: four forms, four commands. A refused form is shown again."""

    async def by_form(number: int) -> None:
        while True:
            try:
                await make(maker, keys.CREATE, AT_ACME, id=f"form-{number}")
                return
            except RefusedError as error:
                if "has changed since" not in str(error):
                    raise

    def by_command(number: int) -> None:
        set_key(
            conf, "acme", ("ci", "laptop")[number % 2], {("label", "request_cap")[number // 2]: number + 1}
        )

    await asyncio.gather(
        *(by_form(number) for number in range(4)),
        *(asyncio.to_thread(by_command, number) for number in (2, 3)),
    )
    acme = load_settings(conf, {}).workspaces["acme"]
    assert {f"form-{number}" for number in range(4)} <= {key.id for key in acme.keys}
    assert [key.request_cap for key in acme.keys[:2]] == [3, 4]
    assert len(lines(conf)) == 4
    with closing(sqlite3.connect(conf.parent / "var" / "tollgate.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM audit_intents").fetchone() == (0,)


@large_only
async def test_a_change_that_found_no_place_can_be_confirmed_again(maker: ChangeMaker, conf: Path) -> None:
    waiting = []
    for number in range(MAX_WAITING + 2):
        token = await maker.show(wallet.CREDIT, AT_ACME, {"amount": "1", "reference": f"INV-{number}"})
        waiting.append(maker.waiting.get(token, ""))
    first = await asyncio.gather(
        *(maker.confirm(one, REQUESTER) for one in waiting if one), return_exceptions=True
    )
    assert [type(one) for one in first].count(BusyError) == 2
    again = await asyncio.gather(*(maker.confirm(one, REQUESTER) for one in waiting if one))
    assert len(set(again)) == len(lines(conf)) == MAX_WAITING + 2
    assert [one for one in first if isinstance(one, str)] == list(again[:MAX_WAITING])


async def test_a_change_and_its_result_are_for_one_session(maker: ChangeMaker) -> None:
    token = await maker.show(keys.CREATE, AT_ACME, {}, REQUESTER.session)
    assert maker.waiting.get(token, "") is None
    assert maker.waiting.get(token, "fedcba9876543210") is None
    waiting = maker.waiting.get(token, REQUESTER.session)
    assert waiting is not None
    result = await maker.confirm(waiting, REQUESTER)
    assert maker.results.get(result, "fedcba9876543210") is None
    assert maker.results.get(result, REQUESTER.session) is not None
    other = await maker.show(keys.SET, CI, {"label": "CI"}, "fedcba9876543210")
    maker.forget(REQUESTER.session)
    assert maker.waiting.get(token, REQUESTER.session) is None
    assert maker.results.get(result, REQUESTER.session) is None
    assert maker.waiting.get(other, "fedcba9876543210") is not None

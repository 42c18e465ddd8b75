"""The console edits files in the ledger: in one transaction, on any machine, and never over the edit of another."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rig.ledger_files import FleetMachine, put_files, text_in, through
from rig.settings_files import HASH_A
from rig.tcp_links import TcpLink, TcpLinks

from addon.console.changes import keys, own_keys, workspaces
from addon.console.changes.file_change import FileChange
from addon.console.changes.form import AppliedChange, Change, EditedFiles, Form, RequestedChange
from addon.console.changes.forms import FORMS
from addon.console.changes.maker import ChangeMaker, RefusedError, UnavailableError
from addon.console.changes.waiting import PendingChange
from addon.edits.workspace_files import Write
from addon.settings.api_keys import hash_key
from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from unit.console.changes.conftest import ENV
from unit.console.changes.test_maker import AT_ACME, CI, REQUESTER, make

FIRST_RULE = {**AT_ACME, "rule": "1"}
OPENAI = {**AT_ACME, "provider": "OPENAI"}


@pytest.fixture
def place(postgres_ledger_url: str) -> LedgerPlace:
    made = PostgresPlace(SecretStr(postgres_ledger_url))
    put_files(made, "acme", "beta")
    return made


@pytest.fixture
def link(postgres_ledger_url: str) -> Iterator[TcpLink]:
    """The way of the second machine to PostgreSQL."""
    with TcpLinks() as links:
        yield links.link(int(postgres_ledger_url.rpartition(":")[2].partition("/")[0]))


@pytest.fixture
def machines(
    tmp_path: Path, postgres_ledger_url: str, place: LedgerPlace, link: TcpLink
) -> list[FleetMachine]:
    return [
        FleetMachine(tmp_path / "first", postgres_ledger_url, ENV),
        FleetMachine(tmp_path / "second", through(postgres_ledger_url, link.port), ENV),
    ]


@pytest.fixture
def makers(machines: list[FleetMachine]) -> Iterator[list[ChangeMaker]]:
    with ExitStack() as opened:
        made = [one.open_maker() for one in machines]
        for one in made:
            opened.callback(one.close)
        yield made


def audited(place: LedgerPlace) -> list[tuple[Any, ...]]:
    with place.read() as ledger:
        assert ledger.execute("SELECT count(*) FROM audit_intents").fetchone() == (0,)
        sql = "SELECT source, address, action, workspace, subject, outcome FROM audit ORDER BY number"
        return ledger.execute(sql).fetchall()


def line(action: str, workspace: str = "acme", subject: str | None = None) -> tuple[Any, ...]:
    return ("console", REQUESTER.address, action, workspace, subject, "made")


async def show(maker: ChangeMaker, form: Form, names: dict[str, str], **typed: str) -> PendingChange:
    await maker.find_obstacle(form)
    current = await maker.read_current(form, names)
    waiting = maker.waiting.get(await maker.show(form, names, {**current, **typed}), "")
    assert waiting is not None
    return waiting


STEPS: list[tuple[Form, dict[str, str], dict[str, str], str | None]] = [
    (workspaces.CREATE, {}, {"workspace": "gamma"}, None),
    (workspaces.SET, AT_ACME, {"name": "Acme & Co"}, None),
    (keys.CREATE, AT_ACME, {"id": "phone"}, "phone"),
    (keys.SET, CI, {"label": "CI"}, "ci"),
    (keys.ROTATE, CI, {"grace": "0"}, "ci"),
    (keys.REVOKE, CI, {}, "ci"),
    (FORMS["/changes/rules/add"], AT_ACME, {"keywords": "sea", "model": "sandbox-chat"}, None),
    (FORMS["/changes/rules/add"], AT_ACME, {"keywords": "tax", "model": "sandbox-chat"}, None),
    (FORMS["/changes/rules/set"], FIRST_RULE, {"keywords": "ocean"}, None),
    (FORMS["/changes/rules/move"], FIRST_RULE, {"place": "2"}, None),
    (FORMS["/changes/rules/remove"], FIRST_RULE, {}, None),
    (FORMS["/changes/heuristics/add"], AT_ACME, {"when": "images", "model": "gpt-4o-mini"}, None),
    (FORMS["/changes/heuristics/add"], AT_ACME, {"when": "tools", "model": "gpt-4o-mini"}, None),
    (FORMS["/changes/heuristics/set"], {**AT_ACME, "heuristic": "1"}, {"model": "sandbox-chat"}, None),
    (FORMS["/changes/heuristics/move"], {**AT_ACME, "heuristic": "1"}, {"place": "2"}, None),
    (FORMS["/changes/heuristics/remove"], {**AT_ACME, "heuristic": "1"}, {}, None),
    (FORMS["/changes/aliases/add"], AT_ACME, {"name": "fast", "model": "gpt-4o-mini"}, None),
    (FORMS["/changes/aliases/set"], {**AT_ACME, "alias": "1"}, {"name": "haiku-*"}, None),
    (FORMS["/changes/aliases/remove"], {**AT_ACME, "alias": "1"}, {}, None),
    (own_keys.ADD, AT_ACME, {"provider": "OPENAI", "secret": "obviously-fake"}, None),
    (own_keys.SET, OPENAI, {"routing": "true"}, None),
    (own_keys.REMOVE, OPENAI, {}, None),
    (workspaces.TEXT, AT_ACME, {"text": 'name = "Written"\n'}, None),
]


def test_each_form_of_a_file_has_a_step() -> None:
    assert {form.action for form, *_ in STEPS} | {"wallet credit", "wallet debit"} == {
        form.action for form in FORMS.values()
    }


@pytest.mark.usefixtures("master_key")
async def test_each_form_changes_the_file_in_the_ledger_and_has_its_line(
    machines: list[FleetMachine], makers: list[ChangeMaker], place: LedgerPlace
) -> None:
    for number, (form, names, typed, _) in enumerate(STEPS):
        maker, machine = makers[number % 2], machines[number % 2]
        await maker.find_obstacle(
            form
        )  # As when the form is opened: it has what the other machine has changed.
        before = text_in(place, "acme")
        await make(maker, form, names, **typed)
        workspace = names.get("workspace", "gamma")
        assert machine.copy_of(workspace) == text_in(place, workspace)
        assert (text_in(place, "acme") != before) == (workspace == "acme"), form.action
    assert audited(place) == [
        line(form.action, names.get("workspace", "gamma"), of) for form, names, _, of in STEPS
    ]
    with place.read() as ledger:
        assert (HASH_A,) in ledger.execute("SELECT hash FROM revoked_keys").fetchall()


async def test_of_two_edits_one_is_made_and_the_other_is_told_of_it(
    makers: list[ChangeMaker], place: LedgerPlace
) -> None:
    first = await show(makers[0], keys.SET, CI, label="First")
    second = await show(makers[1], keys.SET, CI, request_cap="7")
    await makers[0].confirm(first, REQUESTER)
    with pytest.raises(
        RefusedError, match=r"file of acme was changed at .* by the console, from 203\.0\.113\.9"
    ):
        await makers[1].confirm(second, REQUESTER)
    assert second.asked.typed["request_cap"] == "7"
    await make(makers[1], keys.SET, CI, request_cap="7")
    text = text_in(place, "acme")
    assert 'label = "First"' in text
    assert "request_cap = 7" in text
    assert audited(place) == [line("keys set", subject="ci")] * 2


@dataclass(frozen=True)
class WatchedChange(FileChange):
    """A change that calls ``watch`` when its file was written, before that is committed."""

    watch: Callable[[], None] = field(kw_only=True)

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:
        done = super().apply(files, write)
        self.watch()
        return done


def once(work: Callable[[], None]) -> Callable[[], None]:
    left = [work]
    return lambda: left.pop()() if left else None


def watched(form: Form, watch: Callable[[], None]) -> Form:
    def plan(asked: RequestedChange) -> Change:
        change = form.plan(asked)
        assert isinstance(change, FileChange)
        return WatchedChange(change.plan, change.subject, change.notes, change.done, watch=watch)

    return replace(form, plan=plan)


async def test_an_edit_that_is_made_between_plan_and_commit_is_not_lost(
    makers: list[ChangeMaker], place: LedgerPlace
) -> None:
    first = await show(makers[0], keys.SET, CI, label="First")
    loop = asyncio.get_running_loop()

    def edit_on_the_first() -> None:
        asyncio.run_coroutine_threadsafe(makers[0].confirm(first, REQUESTER), loop).result()

    second = await show(makers[1], watched(keys.SET, edit_on_the_first), CI, label="Second")
    with pytest.raises(RefusedError, match=r"file of acme was changed at .* nothing was written"):
        await makers[1].confirm(second, REQUESTER)
    assert 'label = "First"' in text_in(place, "acme")
    assert audited(place) == [line("keys set", subject="ci")]


async def test_many_edits_at_once_are_made_one_after_the_other_or_refused(
    makers: list[ChangeMaker], place: LedgerPlace
) -> None:
    shown = [await show(maker, keys.CREATE, AT_ACME, id=f"key-{n}") for n in range(3) for maker in makers]
    made = await asyncio.gather(
        *(makers[n % 2].confirm(one, REQUESTER) for n, one in enumerate(shown)), return_exceptions=True
    )
    assert sum(isinstance(one, str) for one in made) == 1
    assert {type(one) for one in made} == {str, RefusedError}
    assert len(audited(place)) == 1


async def test_while_the_ledger_is_away_nothing_that_was_typed_is_lost(
    makers: list[ChangeMaker],
    machines: list[FleetMachine],
    place: LedgerPlace,
    link: TcpLink,
    master_key: str,
) -> None:
    link.cut()
    maker, before = makers[1], machines[1].copy_of("acme")
    assert "can't be reached now" in (await maker.find_obstacle(own_keys.ADD) or "")
    waiting = await show(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret="obviously-fake")
    assert "can't be reached now" in waiting.preview.notes[-1]
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await maker.confirm(waiting, REQUESTER)
    assert machines[1].copy_of("acme") == before == text_in(place, "acme")
    assert audited(place) == []
    link.mend()
    await maker.confirm(waiting, REQUESTER)
    assert "[byok.OPENAI]" in text_in(place, "acme")
    assert audited(place) == [line("byok add")]
    assert master_key


async def test_a_silent_ledger_is_not_awaited_for_long(
    makers: list[ChangeMaker], place: LedgerPlace, link: TcpLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.fleet.recording.CHANGE_S", 0.3)
    waiting = await show(makers[1], watched(keys.SET, once(link.fall_silent)), CI, label="CI")
    with pytest.raises(UnavailableError):
        await makers[1].confirm(waiting, REQUESTER)
    link.mend()
    await makers[1].confirm(waiting, REQUESTER)
    assert audited(place) == [line("keys set", subject="ci")]


async def test_a_change_whose_answer_was_lost_is_made_once_and_shows_its_key(
    makers: list[ChangeMaker], place: LedgerPlace, link: TcpLink
) -> None:
    form = watched(keys.CREATE, once(lambda: link.cut_before_the_answer_to(b"COMMIT")))
    waiting = await show(makers[1], form, AT_ACME, id="phone")
    with pytest.raises(UnavailableError):
        await makers[1].confirm(waiting, REQUESTER)
    assert audited(place) == [line("keys create", subject="phone")]
    link.mend()
    result = makers[1].results.get(await makers[1].confirm(waiting, REQUESTER), REQUESTER.session)
    assert result is not None
    key = result.take_key()
    assert key is not None
    assert hash_key(key) in text_in(place, "acme")
    assert audited(place) == [line("keys create", subject="phone")]

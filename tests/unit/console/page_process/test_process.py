"""The process of pages: one that dies, hangs, prints or is not used delays no other page for long."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest
from rig.large import large_only
from rig.page_process import (
    HANGS,
    LIVE,
    PageGateway,
    explain,
    is_running,
    oom_score,
    pid_of,
    question,
    until,
    wait_for_bytes,
)
from rig.settings_files import edit

from addon.console.page_process import process as module
from addon.console.page_process.messages import Answer, Question
from addon.console.page_process.process import (
    MAX_WAITING,
    BusyError,
    EndedError,
    LateError,
    OutdatedError,
)
from addon.runtime.deadline import LATE_S
from addon.settings.settings import SettingsFiles


async def test_pages_show_the_settings_of_the_moment_and_calls_go_first(tmp_path: Path) -> None:
    gateway = PageGateway(tmp_path)
    async with gateway.pages() as pages:
        assert b"gpt-4o-mini" in (await pages.ask(question())).body
        pid = pid_of(pages)
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        assert oom_score(pid) == 1000
        edit(tmp_path / "catalog_data/models.toml", '["gpt-4o-mini"]', '["gpt-other"]')
        gateway.files = SettingsFiles(gateway.conf, {})
        gateway.load()
        assert b"gpt-other" in (await pages.ask(question())).body
        assert pid_of(pages) == pid
    assert not is_running(pid)
    with pytest.raises(EndedError):
        await pages.ask(question())


async def test_a_killed_process_is_replaced_and_its_pages_are_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        await pages.ask(question())
        first = pid_of(pages)
        os.kill(first, signal.SIGSTOP)  # so that it can't answer before it is killed
        asked = asyncio.create_task(pages.ask(question()))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        assert (await asked).status == 200
        assert pid_of(pages) != first
    assert [record.getMessage() for record in caplog.records] == ["the process of pages has ended with -9"]


@large_only
async def test_a_policy_that_hangs_ends_only_its_own_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")  # Without a key, no policy is asked.
    async with PageGateway(tmp_path, HANGS).pages() as pages:
        assert b"not an answer" not in (await pages.ask(explain("hello"))).body
        first = pid_of(pages)
        with monkeypatch.context() as hurried:
            hurried.setattr(module, "FORM_S", 0.05)
            with pytest.raises(LateError):
                await pages.ask(explain("hang"))
        assert (await pages.ask(question())).status == 200
        assert (await pages.ask(explain("hello"))).status == 200
        assert pid_of(pages) != first
    assert not is_running(first)


@large_only
async def test_a_client_that_leaves_ends_neither_a_start_nor_the_time_of_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")
    async with PageGateway(tmp_path, HANGS).pages() as pages:
        asked = asyncio.create_task(pages.ask(question()))
        await until(lambda: pages._running is not None)
        asked.cancel()
        first = pid_of(pages)
        assert (await pages.ask(question())).status == 200
        assert pid_of(pages) == first
        with monkeypatch.context() as hurried:
            hurried.setattr(module, "FORM_S", 0.05)
            asked = asyncio.create_task(pages.ask(explain("hang")))
            await asyncio.sleep(0)
            asked.cancel()
            await until(lambda: not is_running(first))
        assert (await pages.ask(explain("hello"))).status == 200


@large_only
async def test_time_in_which_the_gateway_was_stopped_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        await pages.ask(question())
        monkeypatch.setattr(module, "PAGE_S", 0.05)
        asked = asyncio.create_task(pages.ask(question()))
        await asyncio.sleep(0)
        wait_for_bytes(pages)
        time.sleep(2 * module.PAGE_S + LATE_S)  # noqa: ASYNC251  (it is stopped)
        assert (await asked).status == 200


@large_only
async def test_a_process_that_writes_no_answers_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")
    async with PageGateway(tmp_path, HANGS).pages() as pages:
        with pytest.raises(EndedError):
            await pages.ask(explain("write"))
        assert (await pages.ask(question())).status == 200
    messages = {record.getMessage() for record in caplog.records}
    assert messages == {"the process of pages is ended, because it sent no answer"}


@large_only
async def test_an_unused_process_ends_and_the_next_page_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    async with PageGateway(tmp_path).pages() as pages:
        await pages.ask(question())
        first = pid_of(pages)
        await until(lambda: not is_running(first))
        monkeypatch.undo()
        assert (await pages.ask(question())).status == 200
        second = pid_of(pages)
        assert (await pages.ask(question())).status == 200
        assert pid_of(pages) == second != first


@large_only
async def test_more_pages_than_may_wait_are_refused_and_left_ones_make_room(tmp_path: Path) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        await pages.ask(question())
        os.kill(pid_of(pages), signal.SIGSTOP)
        asked = [asyncio.create_task(pages.ask(question())) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await pages.ask(question())
        for one in asked[1:]:
            one.cancel()
        await asyncio.gather(*asked[1:], return_exceptions=True)
        os.kill(pid_of(pages), signal.SIGCONT)
        both: list[Awaitable[Answer]] = [asked[0], pages.ask(question())]
        assert [one.status for one in await asyncio.gather(*both)] == [200, 200]


@large_only
async def test_a_process_that_can_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        for program in (str(tmp_path / "nothing"), "/bin/false"):
            monkeypatch.setattr("sys.executable", program)
            with pytest.raises(EndedError):
                await pages.ask(question())
        assert "can't be started" in caplog.text
        assert "has ended with 1" in caplog.text
        monkeypatch.undo()
        assert (await pages.ask(question())).status == 200


@large_only
async def test_new_code_is_not_run_next_to_an_old_gateway(tmp_path: Path) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        assert (await pages.ask(question())).status == 200
        first = pages._running
        pages._code_version = "that of an older program"
        os.kill(pid_of(pages), signal.SIGKILL)
        with pytest.raises(OutdatedError):
            await pages.ask(question())
        assert pages._running is first  # none was started


async def test_code_that_changes_during_the_start_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_code_version", lambda: "that of an older program")
    async with PageGateway(tmp_path).pages() as pages:
        with pytest.raises(OutdatedError):
            await pages.ask(question())


async def test_settings_that_can_not_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = PageGateway(tmp_path)
    broken = gateway.snapshot().model_copy(update={"started_conf": (b"[lsten]", 0o600)})
    monkeypatch.setattr(gateway, "snapshot", lambda: broken)
    async with gateway.pages() as pages:
        answer = await pages.ask(question())
    assert answer.status == 503
    assert answer.message
    assert "lsten" in answer.message


@large_only
async def test_a_fault_is_for_the_log_and_unknown_pages_are_none(tmp_path: Path) -> None:
    async with PageGateway(tmp_path).pages() as pages:
        assert (await pages.ask(question("/nothing"))).status == 404
        broken = Question(0, "/models", {}, None, "", False, None, "never", LIVE)  # type: ignore[arg-type]
        with pytest.raises(AttributeError):
            await pages.ask(broken)
        assert (await pages.ask(question())).status == 200

"""The process of pages: one that dies, hangs, prints or is not used delays no other page for long."""

import asyncio
import os
import select
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.settings_files import edit, write_files

from addon.console.page_process import process as module
from addon.console.page_process.messages import Answer, Question
from addon.console.page_process.process import (
    MAX_WAITING,
    BusyError,
    EndedError,
    LateError,
    OutdatedError,
    PageProcess,
)
from addon.console.sources import Live, Sources
from addon.runtime.deadline import LATE_S
from addon.settings.settings import SettingsFiles
from addon.settings.snapshot import Snapshot
from addon.telemetry.admin import Readiness

HANGS = """
import os, struct, subprocess, time
print("not an answer")

def review(call):
    print("not an answer either")
    subprocess.run(["cat"])  # It reads until its input ends.
    if call.last_user_text == "hang":
        while True:
            time.sleep(0.01)
    if call.last_user_text == "write":
        for file in os.listdir("/proc/self/fd"):
            if os.readlink(f"/proc/self/fd/{file}").startswith("pipe:") and int(file) > 2:
                try:
                    os.write(int(file), struct.pack(">cII", b"A", 2, 0) + b"{]")
                except OSError:
                    pass  # the other pipe
"""
LIVE = Live(Readiness(True, {}), {}, None, 0.0)


def question(path: str = "/models", form: dict[str, str] | None = None) -> Question:
    return Question(0, path, {}, form, "token", False, None, datetime.now(UTC), LIVE)


def explain(text: str) -> Question:
    body = f'{{"model": "gpt-4o-mini", "messages": [{{"role": "user", "content": "{text}"}}]}}'
    return question("/explain", {"workspace": "acme", "key": "ci", "body": body})


class Gateway:
    """What a process of pages needs of its gateway: files, and the settings in them."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.conf = write_files(folder)
        if extra:
            (folder / "policies" / "house.py").write_text(extra)
            edit(self.conf, "[billing]", '[policies]\nextra = ["house"]\n[billing]')
        self.files = SettingsFiles(self.conf, {})
        self.load()

    def load(self) -> None:
        self.settings = self.files.load()

    def snapshot(self) -> Snapshot:
        built_from = self.files.built_from()
        return Snapshot.of(self.settings, built_from, built_from.shared_files[self.conf])

    @asynccontextmanager
    async def pages(self) -> AsyncIterator[PageProcess]:
        async def unused() -> None:
            raise AssertionError

        pages = PageProcess(
            Sources(
                settings=lambda: self.settings,
                snapshot=self.snapshot,
                readiness=unused,  # type: ignore[arg-type]
                gauges=dict,
                file_fault=lambda: None,
                settings_age_s=lambda: 0.0,
                find_files=dict,
                files=self.files,
            )
        )
        try:
            yield pages
        finally:
            await pages.close()


def pid_of(pages: PageProcess) -> int:
    assert pages._running
    return pages._running._process.pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def wait_for_bytes(pages: PageProcess) -> None:
    """Wait until the process of pages has written something. Nothing else runs."""
    assert pages._running
    pipe = pages._running._process._transport.get_pipe_transport(1)
    assert pipe
    readable, _, _ = select.select([pipe.get_extra_info("pipe")], [], [], BOUND_S)
    assert readable


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():  # noqa: ASYNC110  (another process does it)
            await asyncio.sleep(0.005)


async def test_pages_show_the_settings_of_the_moment_and_calls_go_first(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
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
    async with Gateway(tmp_path).pages() as pages:
        await pages.ask(question())
        first = pid_of(pages)
        os.kill(first, signal.SIGSTOP)  # so that it can't answer before it is killed
        asked = asyncio.create_task(pages.ask(question()))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        assert (await asked).status == 200
        assert pid_of(pages) != first
    assert [record.getMessage() for record in caplog.records] == ["the process of pages has ended with -9"]


async def test_a_policy_that_hangs_ends_only_its_own_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")  # Without a key, no policy is asked.
    async with Gateway(tmp_path, HANGS).pages() as pages:
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


async def test_a_client_that_leaves_ends_neither_a_start_nor_the_time_of_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")
    async with Gateway(tmp_path, HANGS).pages() as pages:
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


async def test_time_in_which_the_gateway_was_stopped_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Gateway(tmp_path).pages() as pages:
        await pages.ask(question())
        monkeypatch.setattr(module, "PAGE_S", 0.05)
        asked = asyncio.create_task(pages.ask(question()))
        await asyncio.sleep(0)
        wait_for_bytes(pages)
        time.sleep(2 * module.PAGE_S + LATE_S)  # noqa: ASYNC251  (it is stopped)
        assert (await asked).status == 200


async def test_a_process_that_writes_no_answers_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-obviously-fake")
    async with Gateway(tmp_path, HANGS).pages() as pages:
        with pytest.raises(EndedError):
            await pages.ask(explain("write"))
        assert (await pages.ask(question())).status == 200
    messages = {record.getMessage() for record in caplog.records}
    assert messages == {"the process of pages is ended, because it sent no answer"}


async def test_an_unused_process_ends_and_the_next_page_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    async with Gateway(tmp_path).pages() as pages:
        await pages.ask(question())
        first = pid_of(pages)
        await until(lambda: not is_running(first))
        monkeypatch.undo()
        assert (await pages.ask(question())).status == 200
        second = pid_of(pages)
        assert (await pages.ask(question())).status == 200
        assert pid_of(pages) == second != first


async def test_more_pages_than_may_wait_are_refused_and_left_ones_make_room(tmp_path: Path) -> None:
    async with Gateway(tmp_path).pages() as pages:
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


async def test_a_process_that_can_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Gateway(tmp_path).pages() as pages:
        for program in (str(tmp_path / "nothing"), "/bin/false"):
            monkeypatch.setattr("sys.executable", program)
            with pytest.raises(EndedError):
                await pages.ask(question())
        assert "can't be started" in caplog.text
        assert "has ended with 1" in caplog.text
        monkeypatch.undo()
        assert (await pages.ask(question())).status == 200


async def test_new_code_is_not_run_next_to_an_old_gateway(tmp_path: Path) -> None:
    async with Gateway(tmp_path).pages() as pages:
        assert (await pages.ask(question())).status == 200
        pages._code_version = "that of an older program"
        os.kill(pid_of(pages), signal.SIGKILL)
        with pytest.raises(OutdatedError):
            await pages.ask(question())


async def test_settings_that_can_not_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Gateway(tmp_path)
    broken = gateway.snapshot().model_copy(update={"started_conf": (b"[lsten]", 0o600)})
    monkeypatch.setattr(gateway, "snapshot", lambda: broken)
    async with gateway.pages() as pages:
        answer = await pages.ask(question())
    assert answer.status == 503
    assert answer.message
    assert "lsten" in answer.message


async def test_a_fault_is_for_the_log_and_unknown_pages_are_none(tmp_path: Path) -> None:
    async with Gateway(tmp_path).pages() as pages:
        assert (await pages.ask(question("/nothing"))).status == 404
        broken = Question(0, "/models", {}, None, "", False, None, "never", LIVE)  # type: ignore[arg-type]
        with pytest.raises(AttributeError):
            await pages.ask(broken)
        assert (await pages.ask(question())).status == 200

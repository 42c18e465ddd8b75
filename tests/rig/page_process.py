"""A process of pages, and what it needs of its gateway."""

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from addon.console.page_process.messages import Question
from addon.console.page_process.process import PageProcess
from addon.console.sources import Live, Sources
from addon.settings.settings import SettingsFiles
from addon.settings.snapshot import Snapshot
from addon.telemetry.admin import Readiness
from rig.bounds import BOUND_S
from rig.settings_files import edit, write_files

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


class PageGateway:
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

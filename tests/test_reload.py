"""Edits on disk reach a running gateway; a set that does not load changes nothing and is said once."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from settings_files_on_disk import edit, replace, write_files

from addon.reload import Watcher, is_due
from addon.settings import Settings, load_settings


class Environment(dict[str, str]):
    """An environment that acts in the middle of a load, when OPENAI_KEY is looked up: after providers.toml is read."""

    def __init__(self) -> None:
        super().__init__(OPENAI_KEY="sk-obviously-fake")
        self.at_next_load: Callable[[], None] = lambda: None

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        if name == "OPENAI_KEY":
            self.at_next_load, act = lambda: None, self.at_next_load
            act()
        return super().get(name, default)


class Running:
    """A watcher over real files, and the settings that it handed over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = Environment()
        self.conf_file = write_files(folder)
        self.settings = load_settings(self.conf_file, self.env)
        self.applied: asyncio.Queue[Settings] = asyncio.Queue()
        self.watcher = self.watch(self.applied.put_nowait)

    def watch(self, apply: Callable[[Settings], None]) -> Watcher:
        return Watcher(self.conf_file, self.settings, apply, env=self.env, interval_s=0.01)

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.folder / name, old, new)

    async def next(self) -> Settings:
        return await asyncio.wait_for(self.applied.get(), BOUND_S)


class Lines(logging.Handler):
    """The log lines of the watcher, awaited by a word that they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, str]] = []
        self._grew = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.levelno, record.getMessage()))
        self._grew.set()

    def having(self, word: str, level: int = logging.INFO) -> list[str]:
        """The lines of at least ``level`` with ``word``."""
        return [line for number, line in self.seen if number >= level and word in line]

    async def wait_for(self, word: str, times: int = 1) -> str:
        async with asyncio.timeout(BOUND_S):
            while len(self.having(word, logging.DEBUG)) < times:
                self._grew.clear()
                await self._grew.wait()
        return self.having(word, logging.DEBUG)[-1]


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    handler, logger = Lines(), logging.getLogger("tollgate.reload")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
async def running(tmp_path: Path, lines: Lines) -> AsyncIterator[Running]:
    """A watcher that has had its first look."""
    made = Running(tmp_path)
    made.watcher.start()
    await lines.wait_for("nothing is new")
    yield made
    await made.watcher.stop()


async def test_an_edited_file_takes_effect(running: Running) -> None:
    running.edit("catalog_data/models.toml", '"0.15"', '"0.25"')
    assert (await running.next()).models["gpt-4o-mini"].wholesale.input_microusd_per_mtok == 250_000


async def test_a_file_replaced_by_another_of_one_size_and_time_takes_effect(running: Running) -> None:
    file = running.folder / "policies/workspaces/acme.toml"
    before = file.stat()
    other = running.folder / "other"
    other.write_text(file.read_text().replace('"Acme"', '"Emca"'))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)
    assert (await running.next()).workspaces["acme"].name == "Emca"


async def test_a_new_workspace_takes_effect_and_so_does_its_removal(running: Running) -> None:
    file = running.folder / "policies/workspaces/new.toml"
    replace(file, 'name = "New"\n')
    assert "new" in (await running.next()).workspaces
    file.unlink()
    assert "new" not in (await running.next()).workspaces


async def test_a_renewed_secret_file_takes_effect(running: Running) -> None:
    secret = running.folder / "groq.secret"
    secret.write_text("gsk-fake-old")
    running.edit("catalog_data/providers.toml", "env:GROQ_KEY", "file:../groq.secret")
    [before] = (await running.next()).providers["GROQ"].platform_keys
    assert before.get_secret_value() == "gsk-fake-old"
    replace(secret, "gsk-fake-renewed")
    [after] = (await running.next()).providers["GROQ"].platform_keys
    assert after.get_secret_value() == "gsk-fake-renewed"


async def test_a_change_made_before_the_watcher_began_is_not_missed(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.edit("policies/workspaces/acme.toml", '"Acme"', '"Early"')
    running.watcher.start()
    assert (await running.next()).workspaces["acme"].name == "Early"
    await running.watcher.stop()


@pytest.mark.parametrize(
    ("before", "now", "due"),
    [
        ("loaded", "loaded", False),
        ("loaded", "half", False),
        ("half", "whole", False),
        ("whole", "whole", True),
        ("half", "loaded", False),
        ("whole", None, False),
        (None, None, True),
    ],
)
def test_a_changed_file_is_due_when_it_has_stood_still_for_one_look(
    before: str | None, now: str | None, due: bool
) -> None:
    stamps: dict[str | None, tuple[int, int, int] | None] = {
        None: None,
        "loaded": (1, 9, 1),
        "half": (2, 0, 1),
        "whole": (3, 9, 1),
    }
    file = Path("acme.toml")
    assert is_due({file: stamps["loaded"]}, {file: stamps[before]}, {file: stamps[now]}) is due


async def test_what_was_read_while_somebody_wrote_is_not_handed_over(tmp_path: Path) -> None:
    running = Running(tmp_path)

    # A load that went on would have the providers of before and the workspaces of after.
    def write() -> None:
        running.edit("catalog_data/providers.toml", "127.0.0.1:9999", "127.0.0.1:1111")
        running.edit("policies/workspaces/acme.toml", '"Acme"', '"Emca"')

    running.env.at_next_load = write
    running.watcher.start()
    settings = await running.next()
    await running.watcher.stop()
    assert settings.providers["GROQ"].base_url == "http://127.0.0.1:1111"
    assert settings.workspaces["acme"].name == "Emca"
    assert running.applied.empty()


async def test_a_bad_set_changes_nothing_is_logged_once_and_is_shown_until_it_is_mended(
    running: Running, lines: Lines
) -> None:
    running.edit("policies/workspaces/acme.toml", 'plan = "pro"', 'plan = "gold"')
    line = await lines.wait_for("acme.toml: plan: must be 'standard' or 'pro'")
    assert running.watcher.error is not None
    assert running.watcher.error in line
    # Another file changes, so the set is loaded again, and it is as bad as before.
    running.edit("proxy.conf", "", "[limits]\npro_rpm = 7\n")
    await lines.wait_for("must be 'standard' or 'pro'", times=2)
    running.edit("policies/workspaces/acme.toml", 'plan = "gold"', 'plan = "standard"')
    settings = await running.next()
    assert (settings.workspaces["acme"].plan, settings.conf.limits.pro_rpm) == ("standard", 7)
    assert running.watcher.error is None
    assert len(lines.having("acme.toml")) == 1
    assert running.applied.empty()


async def test_a_file_that_was_missing_and_comes_mends_the_set(running: Running, lines: Lines) -> None:
    secret = running.folder / "groq.secret"
    running.edit("catalog_data/providers.toml", "env:GROQ_KEY", "file:../groq.secret")
    await lines.wait_for("GROQ.platform_key: the file that it names can't be read")
    replace(secret, "gsk-obviously-fake")
    assert len((await running.next()).providers["GROQ"].platform_keys) == 1
    await lines.wait_for("load again")
    assert not lines.having("gsk-obviously-fake")


async def test_sections_that_need_a_restart_keep_their_values_and_are_warned_of_once(
    running: Running, lines: Lines
) -> None:
    running.edit("proxy.conf", "port = 9000", "port = 9001")
    running.edit("proxy.conf", "", '[paths]\nworkspaces = "nowhere"\n[limits]\npro_rpm = 7\n')
    settings = await running.next()
    while settings.conf.limits.pro_rpm != 7:  # The two edits may be seen one by one.
        settings = await running.next()
    assert settings.conf.listen.port == 9000
    assert settings.conf.paths == running.settings.conf.paths
    assert "acme" in settings.workspaces
    assert settings.written.listen.port == 9001
    assert "[listen], [paths] in proxy.conf take effect after a restart" in await lines.wait_for("[paths]")
    running.edit("policies/workspaces/acme.toml", '"Acme"', '"Emca"')
    await running.next()
    assert len(lines.having("[paths]")) == 1


async def test_what_the_command_line_overrode_stays_and_is_no_reason_to_warn(
    tmp_path: Path, lines: Lines
) -> None:
    running = Running(tmp_path)
    running.settings = running.settings.with_listen(port=0)
    watcher = running.watch(running.applied.put_nowait)
    watcher.start()
    running.edit("policies/workspaces/acme.toml", '"Acme"', '"Emca"')
    assert (await running.next()).conf.listen.port == 0
    await watcher.stop()
    assert not lines.having("restart")


async def test_files_that_only_look_new_are_not_handed_over(running: Running, lines: Lines) -> None:
    os.utime(running.folder / "policies/workspaces/acme.toml")
    await lines.wait_for("nothing is new", times=2)
    assert running.applied.empty()


async def test_a_watcher_that_dies_says_so(tmp_path: Path, lines: Lines) -> None:
    running = Running(tmp_path)

    def fail(settings: Settings) -> None:
        raise RuntimeError(f"refused {settings.fingerprint}")

    watcher = running.watch(fail)
    running.edit("policies/workspaces/acme.toml", '"Acme"', '"Emca"')
    watcher.start()
    await lines.wait_for("no longer reloaded; restart")
    await watcher.stop()
    assert watcher.error == "the settings are no longer reloaded; restart the gateway"


async def test_a_stopped_watcher_leaves_no_task_behind(running: Running) -> None:
    await running.watcher.stop()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "settings reload"] == []

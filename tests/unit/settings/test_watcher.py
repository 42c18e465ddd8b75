"""The watcher applies edits to a running gateway, and logs and reports broken files."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.live_settings import LiveSettings
from rig.settings_files import ACME, BETA, CONF, MODELS, edit, replace, write_files

from addon.settings.settings import Settings, SettingsFiles
from addon.settings.watcher import MAX_REPORTED, Watcher

NEW = "policies/workspaces/new.toml"


def test_readyz_names_the_first_broken_files_and_counts_the_others(live: LiveSettings) -> None:
    for number in range(MAX_REPORTED + 5):
        live.write(f"policies/workspaces/w{number}.toml", "broken")
    live.after(2)
    assert len(live.settings.problems) == MAX_REPORTED + 5
    assert live.problems.endswith("; 5 more files do not load")


class Running:
    """A watcher over real files, and the settings that it applied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = SettingsFiles(write_files(folder), {"OPENAI_KEY": "sk-obviously-fake"})
        self.settings = files.load()
        self.applied: asyncio.Queue[Settings] = asyncio.Queue()
        self.watcher = Watcher(files, self.settings, self.applied.put_nowait, interval_s=0.01)

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.folder / name, old, new)

    async def next(self) -> Settings:
        return await asyncio.wait_for(self.applied.get(), BOUND_S)


class Lines(logging.Handler):
    """The log lines of the watcher."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []
        self.died = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)
        if record.levelno == logging.CRITICAL and "no longer reloaded; restart" in record.getMessage():
            self.died.set()

    def seen_events(self, event: str) -> list[logging.LogRecord]:
        return [record for record in self.seen if record.__dict__.get("event") == event]

    def having(self, word: str, level: int = logging.INFO) -> list[str]:
        """Return the lines of at least ``level`` that contain ``word``."""
        return [
            record.getMessage()
            for record in self.seen
            if record.levelno >= level and word in record.getMessage()
        ]


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    handler = Lines()
    loggers = [logging.getLogger(f"tollgate.{name}") for name in ("reload", "settings")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    yield handler
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture
async def running(tmp_path: Path, lines: Lines) -> AsyncIterator[Running]:
    made = Running(tmp_path)
    made.watcher.start()
    yield made
    await made.watcher.stop()


async def test_an_edit_is_applied(running: Running, lines: Lines) -> None:
    running.edit(ACME, '"Acme"', '"Emca"')
    settings = await running.next()
    assert settings.workspaces["acme"].name == "Emca"
    [line] = lines.seen_events("settings reloaded")
    assert line.getMessage() == "settings reloaded: acme.toml: name"
    assert line.__dict__["fingerprint"] == settings.fingerprint
    assert running.watcher.age_s < BOUND_S


async def test_the_start_is_one_line_with_what_is_served_and_each_warning_is_one(
    running: Running, lines: Lines
) -> None:
    [start] = lines.seen_events("settings loaded")
    fields = ("workspaces", "keys", "active_keys", "platform_models", "own_key_models", "warnings")
    assert [start.__dict__[name] for name in fields] == [2, 3, 2, "OPENAI 1", "GROQ 1", 0]
    running.edit(BETA, '"Beta"', '"Beta"\ndefault_model = "sandbox-chat"')
    await running.next()
    running.edit(ACME, '"Acme"', '"Emca"')
    await running.next()
    [warning] = lines.seen_events("settings warning")
    assert warning.getMessage().endswith(
        "beta.toml: default_model: sandbox-chat serves no call: it is not active"
    )
    assert (warning.__dict__["kind"], warning.__dict__["key"]) == ("model_unserved", "default_model")


async def test_a_file_that_breaks_is_no_reload(running: Running, lines: Lines) -> None:
    running.edit(ACME, 'plan = "pro"', 'plan = "gold"')
    await running.next()
    assert lines.seen_events("settings reloaded") == []


async def test_a_broken_file_is_logged_once_and_reported_until_it_is_fixed(
    running: Running, lines: Lines
) -> None:
    running.edit(ACME, 'plan = "pro"', 'plan = "gold"')
    broken = await running.next()
    [line] = lines.having("acme.toml: plan: must be 'standard' or 'pro'", logging.ERROR)
    assert line == f"workspace acme keeps its last good settings: {running.watcher.error}"
    assert broken.fingerprint == running.settings.fingerprint
    # Another edit does not log it again.
    running.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    assert (await running.next()).conf.limits.pro_rpm == 7
    running.edit(ACME, 'plan = "gold"', 'plan = "standard"')
    assert (await running.next()).workspaces["acme"].plan == "standard"
    assert running.watcher.error is None
    assert len(lines.having("acme.toml: plan", logging.ERROR)) == 1
    assert len(lines.having("acme.toml loads again")) == 1
    assert [record.__dict__.get("event") for record in lines.seen if "acme.toml" in record.getMessage()] == [
        "file broken",
        "file mended",
        "settings reloaded",
    ]


async def test_a_file_that_is_broken_at_the_start_is_logged_too(tmp_path: Path, lines: Lines) -> None:
    write_files(tmp_path)
    (tmp_path / NEW).write_text("broken")
    files = SettingsFiles(tmp_path / CONF, {})
    watcher = Watcher(files, files.load(), lambda _: None)
    watcher.start()
    assert lines.having("workspace new is not served: ", logging.ERROR)
    await watcher.stop()


async def test_the_shared_settings_load_again_only_when_all_their_files_do(
    running: Running, lines: Lines
) -> None:
    models = running.folder / MODELS
    good = models.read_text()
    replace(models, "[[[")
    await running.next()
    running.edit(CONF, "", "surprise = 1\n")
    await running.next()
    replace(models, good)
    # This edit takes effect only after the one above.
    running.edit(ACME, '"Acme"', '"Emca"')
    while "Emca" not in str((await running.next()).workspaces["acme"]):
        pass
    assert not lines.having("load again")
    running.edit(CONF, "surprise = 1\n", "")
    await running.next()
    assert lines.having("the settings load again") == ["the settings load again"]
    assert all(
        line.startswith("the settings do not load, the last good ones stay: ")
        for line in lines.having("not load")
    )


async def test_a_section_that_waits_for_a_restart_gives_one_warning(running: Running, lines: Lines) -> None:
    running.edit(CONF, "port = 9000", 'port = 9001\n[paths]\nworkspaces = "nowhere"')
    await running.next()
    running.edit(ACME, '"Acme"', '"Emca"')
    await running.next()
    assert lines.having("take effect after a restart") == [
        "changes of [listen], [paths] in proxy.conf take effect after a restart"
    ]


async def test_an_override_of_the_command_line_stays_without_a_warning(tmp_path: Path, lines: Lines) -> None:
    files = SettingsFiles(write_files(tmp_path), {})
    settings = files.load().with_listen(port=0)
    applied: asyncio.Queue[Settings] = asyncio.Queue()
    watcher = Watcher(files, settings, applied.put_nowait, interval_s=0.01)
    watcher.start()
    edit(tmp_path / ACME, '"Acme"', '"Emca"')
    assert (await asyncio.wait_for(applied.get(), BOUND_S)).conf.listen.port == 0
    await watcher.stop()
    assert not lines.having("restart")


def put_file_in_place_of(folder: Path) -> None:
    """Replace a folder by a file. The watcher may create the folder again in between, so try again."""
    for number in range(100):
        folder.rename(folder.with_name(f"moved-{number}"))
        with suppress(IsADirectoryError):
            folder.write_text("no folder")
            return
    raise AssertionError(f"{folder} is created again and again")


async def test_a_folder_that_can_not_be_written_gives_one_warning(running: Running, lines: Lines) -> None:
    running.edit(ACME, '"Acme"', '"Emca"')
    await running.next()
    put_file_in_place_of(running.folder / "var")
    for name in ("One", "Two", "Three"):
        text = (running.folder / BETA).read_text()
        replace(running.folder / BETA, text.replace(text.splitlines()[0], f'name = "{name}"'))
        await running.next()
    assert len(lines.having("can't be kept for the next start", logging.WARNING)) == 1


async def test_a_failed_look_is_logged_once_and_the_next_may_succeed(
    running: Running, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(range(3))

    def fail(*_: object) -> None:
        if next(failures, None) is None:
            monkeypatch.undo()
        raise RuntimeError

    monkeypatch.setattr("addon.settings.builder.load_shared_settings", fail)
    running.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    assert (await running.next()).conf.limits.pro_rpm == 7
    assert running.watcher.error is None
    assert len(lines.having("the files can't be checked", logging.ERROR)) == 1


async def test_a_watcher_that_dies_reports_it(tmp_path: Path, lines: Lines) -> None:
    files = SettingsFiles(write_files(tmp_path), {})

    def fail(settings: Settings) -> None:
        raise RuntimeError(f"refused {settings.fingerprint}")

    watcher = Watcher(files, files.load(), fail, interval_s=0.01)
    edit(tmp_path / ACME, '"Acme"', '"Emca"')
    watcher.start()
    async with asyncio.timeout(BOUND_S):
        await lines.died.wait()
    assert watcher.error == "the settings are no longer reloaded; restart the gateway"
    await watcher.stop()


async def test_a_stopped_watcher_leaves_no_task_behind(running: Running) -> None:
    await running.watcher.stop()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "settings reload"] == []

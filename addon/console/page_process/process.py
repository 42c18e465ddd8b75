"""``PageProcess``: asks for pages. It starts the process at the first page, again when it dies, and ends it unused."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from addon.console.page_process.code_version import find_code_version
from addon.console.page_process.messages import (
    ANSWER,
    HEAD,
    LEFT,
    READY,
    SETTINGS,
    Answer,
    Question,
    pack,
)
from addon.console.sources import Sources
from addon.runtime.tasks import wait_for_first
from addon.settings.settings import Settings

log = logging.getLogger("tollgate.console")

MAX_WAITING: Final = 16
"""How many pages may be in work or wait."""

START_S: Final = 30.0
"""How long the process may take until it is ready."""

PAGE_S: Final = 15.0
"""How long a page may take. Its statements end before, so only a fault of ours takes longer."""

FORM_S: Final = 5.0
"""How long a page with a form may take: it runs operators' own policies, which may hang."""

IDLE_S: Final = 600.0
"""How long an unused process stays. An open page updates itself more often."""

ATTEMPTS: Final = 2
"""How often a page is asked for: the process may be ended because of another one."""

_ROOT: Final = str(Path(__file__).parents[3])
_STDERR: Final = 2


class BusyError(Exception):
    """Too many pages wait already."""


class LateError(Exception):
    """A page was not there in time."""


class EndedError(Exception):
    """The process has ended, or did not start."""


class OutdatedError(Exception):
    """The program's files have changed since the gateway started, so a new process would run other code."""


class PageProcess:
    """The process of pages of one gateway, whose state it gets from ``sources``."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._code_version = find_code_version()
        self._numbers = count(1)
        self._waiting = 0
        self._starting = asyncio.Lock()
        self._running: _Running | None = None
        self._is_closed = False

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question, which gets a number here.

        Raises BusyError, LateError, EndedError and OutdatedError.
        """
        if self._waiting >= MAX_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            return await self._ask(question)
        finally:
            self._waiting -= 1

    async def _ask(self, question: Question) -> Answer:
        for _ in range(ATTEMPTS):
            running = await self._find_running()
            try:
                return await running.ask(replace(question, number=next(self._numbers)))
            except EndedError:
                continue
        raise EndedError

    async def _find_running(self) -> "_Running":
        async with self._starting:
            if self._is_closed:
                raise EndedError
            if self._running and self._running.has_ended:
                await self._running.end()
                self._running = None
            if self._running is None:
                running = await _start(self._sources)
                if running.has_ended:
                    raise EndedError
                if running.code_version != self._code_version:
                    await running.end()
                    raise OutdatedError
                self._running = running
            return self._running

    async def close(self) -> None:
        """End the process. No page can be asked for any more."""
        self._is_closed = True
        if self._running:
            await self._running.end()


async def _start(sources: Sources) -> "_Running":
    """Start the process, and wait until it is ready. Raises EndedError."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.getenv("PYTHONPATH")))),
    }
    try:
        # Ctrl-C on a terminal signals a whole process group, but the gateway ends this process itself.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "addon.console.page_process"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=_STDERR,
            env=environment,
            process_group=0,
        )
    except OSError as error:
        log.error("the process of pages can't be started: %s", error)
        raise EndedError from error
    running = _Running(process, sources)
    try:
        async with asyncio.timeout(START_S):
            await wait_for_first(running.ready.wait(), process.wait())
    except BaseException as error:
        await running.end()
        if isinstance(error, TimeoutError):
            log.error("the process of pages was not ready within %g s", START_S)
            raise EndedError from None
        raise
    return running


class _Running:
    """A process that was started. ``ready`` is set when it answers, ``has_ended`` when it will never answer again."""

    def __init__(self, process: Process, sources: Sources) -> None:
        self.ready = asyncio.Event()
        self.has_ended = False
        self.code_version = ""
        self._process = process
        self._sources = sources
        self._sent: Settings | None = None
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._is_ending = False
        self._reading = asyncio.create_task(self._read())
        self._unused: asyncio.TimerHandle | None = None

    async def ask(self, question: Question) -> Answer:
        """Return the answer. Raises LateError and EndedError."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[question.number] = answer
        self._set_idle_timer(None)
        limit_s = PAGE_S if question.form is None else FORM_S
        try:
            async with asyncio.timeout(limit_s):
                await self._send(question)
                return await answer
        except TimeoutError:
            log.error("a page was not made within %g s, so its process is ended: %s", limit_s, question.path)
            self._kill()
            raise LateError from None
        finally:
            del self._answers[question.number]
            if not answer.done() and not self.has_ended:
                self._write(pack(LEFT, str(question.number)))
            answer.cancel()
            if not self._answers:
                self._set_idle_timer(IDLE_S)

    async def _send(self, question: Question) -> None:
        if self.has_ended:
            raise EndedError
        settings = self._sources.settings()
        if settings is not self._sent:
            self._sent = settings
            self._write(pack(SETTINGS, self._sources.snapshot().model_dump_json()))
        self._write(question.pack())
        try:
            await self._pipe.drain()
        except ConnectionError:
            raise EndedError from None

    def _write(self, message: bytes) -> None:
        self._pipe.write(message)

    @property
    def _pipe(self) -> asyncio.StreamWriter:
        assert self._process.stdin  # noqa: S101  (a pipe)
        return self._process.stdin

    def _set_idle_timer(self, idle_s: float | None) -> None:
        """End the process after ``idle_s``; never if that is None."""
        if self._unused:
            self._unused.cancel()
        self._unused = (idle_s and asyncio.get_running_loop().call_later(idle_s, self._kill)) or None

    async def end(self) -> None:
        """End the process, and wait until it is gone."""
        self._set_idle_timer(None)
        self._kill()
        await self._reading

    def _kill(self) -> None:
        self._is_ending = self.has_ended = True
        if self._process.returncode is None:
            self._process.kill()

    async def _read(self) -> None:
        """Give the answers to those who wait, until the process ends."""
        try:
            while True:
                kind, size, body_size = HEAD.unpack(await self._read_exactly(HEAD.size))
                content, body = await self._read_exactly(size), await self._read_exactly(body_size)
                if kind == READY:
                    self.code_version = content.decode()
                    self.ready.set()
                elif kind == ANSWER:
                    self._take(Answer.parse(content, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.has_ended = True
            self._pipe.close()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(EndedError())
            if not self._is_ending:
                log.error("the process of pages has ended with %d", await self._process.wait())
            await self._process.wait()

    async def _read_exactly(self, size: int) -> bytes:
        assert self._process.stdout  # noqa: S101  (a pipe)
        return await self._process.stdout.readexactly(size)

    def _take(self, answer: Answer) -> None:
        waiting = self._answers.get(answer.number)
        if waiting and not waiting.done():
            waiting.set_result(answer)

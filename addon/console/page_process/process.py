"""``PageProcess``: asks for pages. It starts the process at the first page, again when it dies, and ends it unused."""

import asyncio
import logging
from asyncio.subprocess import Process
from dataclasses import replace
from itertools import count
from typing import Final

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
from addon.runtime.deadline import Deadline, within
from addon.runtime.module_process import start_module
from addon.settings.code_version import find_code_version
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

MAX_ANSWER_BYTES: Final = 67_108_864
"""The largest answer. The largest pages have some megabytes."""

ATTEMPTS: Final = 2
"""How often a page is asked for: the process may be ended because of another one."""


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
        self._replacing = asyncio.Lock()
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
        async with self._replacing:
            if self._is_closed:
                raise EndedError
            running = self._running
            if running is None or running.has_ended:
                if running:
                    await running.end()
                # A process takes a second to find out, again for each page.
                if find_code_version() != self._code_version:
                    raise OutdatedError
                running = self._running = await _start(self._sources)
        # A client that leaves now does not end the start: the process is for all pages.
        await running.wait_until_ready(self._code_version)
        return running

    async def close(self) -> None:
        """End the process. No page can be asked for any more."""
        self._is_closed = True
        async with self._replacing:
            if self._running:
                await self._running.end()


async def _start(sources: Sources) -> "_Running":
    """Start the process, which is not ready yet. Raises EndedError."""
    try:
        process = await start_module("addon.console.page_process")
    except OSError as error:
        log.error("the process of pages can't be started: %s", error)
        raise EndedError from error
    return _Running(process, sources)


class _Running:
    """A process that was started. ``has_ended`` is set when it will never answer again."""

    def __init__(self, process: Process, sources: Sources) -> None:
        self.has_ended = False
        self._process = process
        self._sources = sources
        self._ready = asyncio.Event()
        self._code_version: str | None = None
        self._sent: Settings | None = None
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._left: dict[int, Deadline] = {}
        self._is_ending = False
        self._reading = asyncio.create_task(self._read())
        late = f"the process of pages was not ready within {START_S:g} s"
        self._end_timer = Deadline(START_S, lambda: self._end_late(late))

    async def wait_until_ready(self, code_version: str) -> None:
        """Wait until it can answer. Raises EndedError, and OutdatedError when its code is of another version."""
        await self._ready.wait()
        if self._code_version is None:
            raise EndedError
        if self._code_version != code_version:
            self._kill()
            raise OutdatedError

    async def ask(self, question: Question) -> Answer:
        """Return the answer. Raises LateError and EndedError."""
        self._send(question)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[question.number] = answer
        self._end_timer.cancel()
        limit_s = PAGE_S if question.form is None else FORM_S
        late = f"a page was not made within {limit_s:g} s, so its process is ended: {question.path}"
        try:
            async with within(limit_s):
                await self._pipe.drain()
                return await answer
        except ConnectionError:
            self.has_ended = True
            raise EndedError from None
        except TimeoutError:
            self._end_late(late)
            raise LateError from None
        except asyncio.CancelledError:
            if question.number in self._answers and not self.has_ended:
                self._leave(question.number, limit_s, late)
            raise
        finally:
            self._answers.pop(question.number, None)
            self._end_if_unused()

    def _leave(self, number: int, limit_s: float, late: str) -> None:
        """Say that no one needs an answer any more. The process must get done with it in time all the same."""
        self._write(pack(LEFT, str(number)))
        self._left[number] = Deadline(limit_s, lambda: self._end_late(late))

    def _send(self, question: Question) -> None:
        if self.has_ended:
            raise EndedError
        settings, message = self._sources.settings(), question.pack()
        if settings is not self._sent:
            self._write(pack(SETTINGS, self._sources.snapshot().model_dump_json()))
            self._sent = settings
        self._write(message)

    def _write(self, message: bytes) -> None:
        self._pipe.write(message)

    @property
    def _pipe(self) -> asyncio.StreamWriter:
        assert self._process.stdin  # noqa: S101  (a pipe)
        return self._process.stdin

    def _end_if_unused(self) -> None:
        """End the process after ``IDLE_S``, unless there is a page to make."""
        self._end_timer.cancel()
        if not self._answers and not self._left and not self.has_ended:
            self._end_timer = Deadline(IDLE_S, self._kill)

    def _end_late(self, message: str) -> None:
        log.error("%s", message)
        self._kill()

    async def end(self) -> None:
        """End the process, and wait until it is gone."""
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
                await self._read_message()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception:
            log.exception("the process of pages is ended, because it sent no answer")
            self._kill()
        finally:
            self._note_end()
            if not self._is_ending:
                log.error("the process of pages has ended with %d", await self._process.wait())
            await self._process.wait()
            self._ready.set()

    async def _read_message(self) -> None:
        kind, size, body_size = HEAD.unpack(await self._read_exactly(HEAD.size))
        if size + body_size > MAX_ANSWER_BYTES:
            raise ValueError(f"a message of {size + body_size} bytes")
        content, body = await self._read_exactly(size), await self._read_exactly(body_size)
        if kind == READY:
            self._code_version = content.decode()
            self._ready.set()
            self._end_if_unused()
        elif kind == ANSWER:
            self._take(Answer.parse(content, body))

    async def _read_exactly(self, size: int) -> bytes:
        assert self._process.stdout  # noqa: S101  (a pipe)
        return await self._process.stdout.readexactly(size)

    def _take(self, answer: Answer) -> None:
        waiting = self._answers.pop(answer.number, None)
        if waiting and not waiting.done():
            waiting.set_result(answer)
        if late := self._left.pop(answer.number, None):
            late.cancel()
            self._end_if_unused()

    def _note_end(self) -> None:
        self.has_ended = True
        self._pipe.close()
        for timer in (self._end_timer, *self._left.values()):
            timer.cancel()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(EndedError())

"""``python -m addon.console.page_process``: makes pages for one gateway.

Messages arrive on standard input, and answers leave on standard output. When the input ends, the gateway has ended or
needs no more pages, and so the process ends at once: it only reads.
"""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, Lock
from typing import BinaryIO, Final

from addon.console.page_process.maker import make_answer
from addon.console.page_process.messages import (
    HEAD,
    LEFT,
    QUESTION,
    READY,
    SETTINGS,
    Answer,
    Question,
    pack,
)
from addon.runtime.process_options import end_with_parent, give_way
from addon.settings.code_version import find_code_version
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings
from addon.settings.snapshot import Snapshot, SnapshotBuilder
from addon.telemetry.logs import configure_logging

THREADS: Final = 2
"""How many pages are made at the same time: a slow one does not delay all others."""


class PageWorker:
    """Reads messages and writes answers. Questions with a form have a thread of their own: policies may hang."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._turn = Lock()
        self._pages = ThreadPoolExecutor(THREADS)
        self._forms = ThreadPoolExecutor(1)
        self._left: dict[int, Event] = {}
        self._builder = SnapshotBuilder(os.environ)
        self._settings: Settings | None = None
        self._fault = "none were sent"

    def follow(self, messages: BinaryIO) -> None:
        """Do what the messages say until they end."""
        self._write(pack(READY, find_code_version()))
        while head := messages.read(HEAD.size):
            kind, size, _ = HEAD.unpack(head)
            content = messages.read(size)
            if kind == SETTINGS:
                self._build(content)
            elif kind == QUESTION:
                self._begin(Question.parse(content))
            elif kind == LEFT and (left := self._left.get(int(content))):
                left.set()

    def _build(self, content: bytes) -> None:
        try:
            self._settings = self._builder.build(Snapshot.model_validate_json(content))
        except SettingsError as error:
            self._settings, self._fault = None, str(error)

    def _begin(self, question: Question) -> None:
        settings = self._settings
        if settings is None:
            message = f"The settings of the gateway can't be read here: {self._fault}"
            return self._write(Answer(question.number, 503, message=message).pack())
        is_left = self._left[question.number] = Event()
        threads = self._pages if question.form is None else self._forms
        threads.submit(self._answer, question, settings, is_left)
        return None

    def _answer(self, question: Question, settings: Settings, is_left: Event) -> None:
        # Clients that leave one after the other must not delay those who stay.
        is_needed = not is_left.is_set()
        answer = make_answer(question, settings, is_left) if is_needed else Answer(question.number, 503)
        self._left.pop(question.number, None)
        self._write(answer.pack())

    def _write(self, message: bytes) -> None:
        # Without a reader there is nothing to do. The input ends, too.
        with self._turn, suppress(BrokenPipeError):
            self._answers.write(message)
            self._answers.flush()


def main() -> None:
    """Make pages until the input ends."""
    # A policy that keeps the interpreter's lock would keep this process from seeing the end of its input.
    end_with_parent()
    give_way()
    # A policy of an operator, or a program that it runs, may read and print: messages and answers are not for it.
    messages, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    configure_logging()
    PageWorker(answers).follow(messages)
    logging.shutdown()
    os._exit(0)  # Threads may be busy.


if __name__ == "__main__":
    main()

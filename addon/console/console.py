"""``Console``: answers the requests of the admin port that are not for health, readiness and metrics."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, override

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, StaticFileHandler

from addon.console.access.guard import SAFE_METHODS, AccessError, Guard
from addon.console.access.login import LoginHandler, LogoutHandler
from addon.console.changes.handlers import DoneHandler, FormHandler
from addon.console.changes.maker import ChangeMaker
from addon.console.page import ConsoleHandler, ViewHandler, find_posted
from addon.console.page_process.process import PageProcess
from addon.console.security_headers import set_headers
from addon.console.sources import Sources
from addon.runtime.local_http import connection_of

log = logging.getLogger("tollgate.console")

MAX_FORM_BYTES: Final = 4_194_304
"""The largest form of someone who is logged in: a whole workspace file, whose characters take up to twelve bytes."""

MAX_EXPLAINED_BYTES: Final = 1_048_576
"""The largest request to explain, where no one needs to log in."""

MAX_UNKNOWN_BYTES: Final = 262_144
"""The largest request to explain of a program, whose password is checked after its body is here."""

MAX_BODY_BYTES: Final = 16_384
"""The largest body of everyone else."""

ANSWER_S: Final = 60.0
"""How long an answer may take until its client has it."""

_FOLDER: Final = Path(__file__).parent


class _StaticHandler(StaticFileHandler):
    """The style sheet, the script and the icon, also for those who are not logged in."""

    guard: Guard

    @override
    def initialize(self, path: str, guard: Guard) -> None:  # type: ignore[override]
        super().initialize(path)
        self.guard = guard

    @override
    def set_default_headers(self) -> None:
        set_headers(self)
        # A browser asks whether it has changed, and mostly gets a 304.
        self.set_header("Cache-Control", "no-cache")

    @override
    def prepare(self) -> None:
        try:
            self.guard.check_address(self.request, changes=self.request.method not in SAFE_METHODS)
        except AccessError as error:
            return self.send_error(error.status)
        if "%00" in self.request.path:
            # No file can have this name, and tornado would fail.
            return self.send_error(404)
        return None

    @override
    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", ", ".join(SAFE_METHODS))
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(f"{status_code}\n")

    @override
    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        ConsoleHandler.log_exception(self, typ, value, tb)  # type: ignore[arg-type]


class Console:
    """The console of one gateway. Its work ends with ``close``.

    ``addresses`` are those of its listening sockets, as ``getsockname`` gives them.
    """

    def __init__(self, sources: Sources, addresses: Sequence[object]) -> None:
        self._pages = PageProcess(sources)
        self._guard = Guard(sources.settings, addresses)
        self._maker = ChangeMaker(sources.settings, sources.files)
        self._maker.end_abandoned_intents()
        parts: dict[str, Any] = {"sources": sources, "pages": self._pages, "guard": self._guard}
        static = {"path": _FOLDER / "static", "guard": self._guard}
        self._application = Application(
            [
                (r"/static/(.*)", _StaticHandler, static),
                (r"/login", LoginHandler, parts),
                (r"/logout", LogoutHandler, parts),
                (r"/changes/done/([^/]+)", DoneHandler, parts),
                (r"/changes/.*", FormHandler, parts),
                (r".*", ViewHandler, parts),
            ],
            maker=self._maker,
            log_function=lambda _: None,  # no access log, as on the rest of the port
        )

    @property
    def is_open(self) -> bool:
        """Whether the console is served. If not, its paths do not exist."""
        return self._guard.is_open

    def find_max_body(self, request: HTTPServerRequest) -> int:
        """Return the largest body of a request, of which only the head is here."""
        if self._guard.may_post(request):
            return MAX_FORM_BYTES
        if find_posted(request.path) is None:
            return MAX_BODY_BYTES
        return MAX_UNKNOWN_BYTES if self._guard.needs_login else MAX_EXPLAINED_BYTES

    async def answer(self, request: HTTPServerRequest) -> None:
        """Answer a request. Close its connection when its client does not take the answer."""
        found = self._application.find_handler(request)
        handler = found.handler_class(self._application, request, **found.handler_kwargs)
        if task := asyncio.current_task():
            # tornado would go on for a client that has left.
            connection_of(request).set_close_callback(lambda: _cancel(task))
        try:
            async with asyncio.timeout(ANSWER_S):
                await handler._execute([], *found.path_args, **found.path_kwargs)
        except TimeoutError:
            connection_of(request).close()

    async def close(self) -> None:
        """Begin no more pages, and no more changes."""
        self._guard.close()
        self._maker.close()
        await self._pages.close()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()

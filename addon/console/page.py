"""The handlers of the console's requests: pages, their data for programs, and errors."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http.client import responses
from math import ceil
from typing import Any, Final, override

from tornado.httputil import url_concat
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from addon.console.access.browsers import Cookie
from addon.console.access.guard import SAFE_METHODS, AccessError, Guard, LoginNeededError, Visitor
from addon.console.access.password import TooOftenError
from addon.console.changes.maker import ChangeMaker
from addon.console.frame import Frame
from addon.console.page_process.messages import SLOW, Answer, Question
from addon.console.page_process.process import (
    FORM_S,
    BusyError,
    EndedError,
    LateError,
    OutdatedError,
    PageProcess,
)
from addon.console.pages import Page, find_page, is_data
from addon.console.posted_form import parse_form
from addon.console.query import ParameterError, Query
from addon.console.rendering import render
from addon.console.security_headers import set_headers
from addon.console.sources import Sources
from addon.text.masking import mask_credentials
from addon.text.table_formats import format_json

log = logging.getLogger("tollgate.console")

JSON: Final = "application/json; charset=UTF-8"

STUCK: Final = (
    f"The answer was not there within {FORM_S:g} s. A policy of [policies] extra may hang: calls run it, too."
)

OUTDATED: Final = (
    "The program's files have changed since the gateway started. Restart it, or let a new one take over."
)


class ConsoleHandler(RequestHandler):
    """A request to the console. Every answer has ``security_headers``."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")
    sources: Sources
    pages: PageProcess
    guard: Guard
    query: Query
    visitor: Visitor

    @override
    def initialize(self, sources: Sources, pages: PageProcess, guard: Guard) -> None:
        self.sources = sources
        self.pages = pages
        self.guard = guard
        self.query = Query({})
        self.visitor = Visitor()

    @override
    def set_default_headers(self) -> None:
        set_headers(self)

    @override
    async def prepare(self) -> None:
        """Answer a request that may not see the page. Else set ``visitor``."""
        try:
            self.guard.check_address(self.request, changes=self.changes)
            if self.request.method not in self.find_methods():
                return self.send_error(405)
            await self.admit()
        except AccessError as error:
            return self.fail(error.status, str(error))
        except TooOftenError as error:
            return self.fail_too_often(error)
        except LoginNeededError:
            return self._ask_for_login()
        self.use_cookie(self.visitor.cookie)
        return None

    def find_methods(self) -> Sequence[str]:
        """Return the methods of this page."""
        found: list[str] = [
            one
            for one in self.SUPPORTED_METHODS
            if getattr(type(self), one.lower()) is not getattr(RequestHandler, one.lower())
        ]
        return found

    @property
    def changes(self) -> bool:
        """Whether the request may change something."""
        return self.request.method not in SAFE_METHODS

    async def admit(self) -> None:
        """Set ``visitor``. Raises as ``Guard.admit`` does."""
        self.visitor = await self.guard.admit(self.request, is_api=self.is_api, changes=self.changes)

    def _ask_for_login(self) -> None:
        if self.is_api:
            # Basic works, too. It is not offered, because a browser would ask for a user and keep the password.
            self.set_header("WWW-Authenticate", 'Bearer realm="tollgate console"')
            return self.fail(
                401, "Send the password of the console as a Bearer token, in the header Authorization."
            )
        wanted = (self.request.method in SAFE_METHODS and self.request.uri) or "/"
        self.redirect(url_concat("/login", {"next": wanted}) if wanted != "/" else "/login", status=303)
        return None

    def use_cookie(self, cookie: Cookie | None) -> None:
        """Set a cookie, if there is one."""
        if cookie:
            self.set_cookie(cookie.name, cookie.value, **cookie.attributes)

    def fail_too_often(self, error: TooOftenError) -> None:
        """Answer that the password was sent too often."""
        self.set_header("Retry-After", str(ceil(error.wait_s)))
        self.fail(429, f"Too many attempts. Try again in {ceil(error.wait_s)} s.")

    @property
    def maker(self) -> ChangeMaker:
        """The maker of the changes of this console."""
        found: ChangeMaker = self.settings["maker"]
        return found

    @property
    def frame(self) -> Frame:
        """The frame around the content of the page."""
        is_in = self.visitor.session is not None
        path, token = self.request.path, self.visitor.form_token
        return Frame(path, self.query, token, is_in, self.maker.find_edit_obstacle())

    def show(self, template: str, title: str, marked: str, **values: Any) -> None:
        """Answer with a page. ``marked`` is the name of the view that the navigation marks."""
        self.finish(render(f"{template}.html", self.frame, **{"title": title, "page_name": marked, **values}))

    @override
    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", ", ".join(self.find_methods()))
        # No message of tornado: it may quote the request.
        self.fail(status_code, responses.get(status_code, "Error"))

    def fail(self, status: int, message: str) -> None:
        """Answer with an error: a page, or JSON below ``API``. A message may quote the request, so it is masked."""
        self.set_status(status)
        message = mask_credentials(message)
        if self.is_api:
            self.set_header("Content-Type", JSON)
            self.finish(format_json({"error": {"code": status, "message": message}}))
        else:
            is_still = holds_still(status, self.query)
            self.show("error", "Error", "error", status=status, message=message, is_still=is_still)

    @override
    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        # A client that leaves, or sends what is no request, is no fault.
        if not isinstance(value, HTTPError | StreamClosedError):
            log.error("a page failed: %s", self.request.path, exc_info=(typ, value, tb))

    @property
    def is_api(self) -> bool:
        """Whether a program asks, for JSON or CSV."""
        return is_data(self.request.path)


class ViewHandler(ConsoleHandler):
    """The pages of ``PAGES``, and the same data below ``API``."""

    @property
    @override
    def changes(self) -> bool:
        return self.request.method not in SAFE_METHODS and find_posted(self.request.path) is None

    @override
    def find_methods(self) -> Sequence[str]:
        return SAFE_METHODS if find_posted(self.request.path) is None else (*SAFE_METHODS, "POST")

    async def get(self) -> None:
        """Answer with the page or its data."""
        await self._answer(None)

    async def post(self) -> None:
        """Answer a form that changes nothing, with the page or its data."""
        page = find_posted(self.request.path)
        assert page  # noqa: S101  (``prepare`` has refused any other)
        try:
            form = parse_form(self.request, page.fields)
        except ParameterError as error:
            return self.fail(400, str(error))
        await self._answer(form)
        return None

    async def _answer(self, form: Mapping[str, str] | None) -> None:
        try:
            answer = await self._ask(form)
        except ParameterError as error:
            return self._refuse(400, str(error))
        except BusyError:
            return self.fail(503, "Too many pages are asked for at once. Try again.")
        except LateError:
            return self.fail(503, SLOW if form is None else STUCK)
        except OutdatedError:
            return self.fail(503, OUTDATED)
        except EndedError:
            return self.fail(503, "The process that makes pages does not run. The log says why. Try again.")
        if answer is None:
            return self.fail(404, "There is no such page.")
        if answer.fault:
            log.error("a page failed: %s\n%s", self.request.path, answer.fault)
            return self.fail(answer.status, responses[answer.status])
        if answer.message is not None:
            return self._refuse(answer.status, answer.message)
        self.set_status(answer.status)
        self.set_header("Content-Type", answer.content_type)
        await self.finish(answer.body)
        return None

    def _refuse(self, status: int, message: str) -> None:
        if status == 400:
            # No link of the error's page leads to the same error.
            self.query = Query({})
        self.fail(status, message)

    @override
    async def head(self) -> None:
        await self.get()

    async def _ask(self, form: Mapping[str, str] | None) -> Answer | None:
        """Return the answer of the process of pages. Return None when there is no such page."""
        found = find_page(self.request.path)
        if found is None:
            return None
        page, _ = found
        arguments = {
            name: [value.decode("utf-8", "replace") for value in values]
            for name, values in self.request.query_arguments.items()
        }
        # The process reads them, too. Here they are for the links of a page with an error.
        self.query = Query.parse(arguments, page.all_parameters(is_data=self.is_api))
        frame, live = self.frame, await self.sources.read(with_files=page.shows_files)
        return await self.pages.ask(
            Question(
                number=0,
                path=frame.path,
                arguments=arguments,
                form=form,
                form_token=frame.form_token,
                is_logged_in=frame.is_logged_in,
                edit_obstacle=frame.edit_obstacle,
                asked_at=datetime.now(UTC),
                live=live,
            )
        )


def holds_still(status: int, query: Query) -> bool:
    """Return whether the page of an error does not reload itself. One that may be there soon does.

    A find never does: what took too long would take it each time.
    """
    return status < 500 or query.text("find") is not None


def find_posted(path: str) -> Page | None:
    """Return the page at a path, of the page or of its data, if it has a form that changes nothing."""
    found = find_page(path)
    return found[0] if found and found[0].fields else None

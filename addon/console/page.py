"""The handlers of the console's requests: pages, their data for programs, and errors."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http.client import responses
from math import ceil
from typing import Any, Final, override

from tornado.escape import url_unescape
from tornado.httputil import url_concat
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from addon.console.access.browsers import Cookie
from addon.console.access.guard import READING, AccessError, Guard, LoginNeededError, Visitor
from addon.console.access.password import TooOftenError
from addon.console.changes.links import make_edit_link
from addon.console.notices import find_notices, find_sums_begin
from addon.console.operator_thread import LIMIT_S, StuckError
from addon.console.pages import NAVIGATION, PAGES, RESERVED, Page
from addon.console.posted_form import parse_form
from addon.console.query import ParameterError, Query
from addon.console.reader import BusyError, Reader, SlowError
from addon.console.security_headers import set_headers
from addon.console.sources import Sources
from addon.console.template_names import make_namespace
from addon.console.urls import API
from addon.console.view import NotFoundError, Reading, View
from addon.text.masking import mask_credentials
from addon.text.table_formats import format_json, format_spreadsheet

log = logging.getLogger("tollgate.console")

HTML, JSON, CSV = "text/html; charset=UTF-8", "application/json; charset=UTF-8", "text/csv; charset=UTF-8"


STUCK: Final = (
    f"The answer was not there within {LIMIT_S:g} s. A policy of [policies] extra may hang: calls run it, too."
    " Until it ends, requests can't be explained here. All other pages work."
)


class ConsoleHandler(RequestHandler):
    """A request to the console. Every answer has ``security_headers``."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")
    sources: Sources
    reader: Reader
    guard: Guard
    query: Query
    visitor: Visitor

    @override
    def initialize(self, sources: Sources, reader: Reader, guard: Guard) -> None:
        self.sources = sources
        self.reader = reader
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
        return self.request.method not in READING

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
        wanted = (self.request.method in READING and self.request.uri) or "/"
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
    @override
    def xsrf_token(self) -> bytes:
        """The token of forms, for ``xsrf_form_html`` in templates."""
        return self.visitor.form_token.encode()

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
            self.finish(
                self.render_string("error.html", status=status, message=message, **self.frame("error"))
            )

    @override
    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        # A client that leaves, or sends what is no request, is no fault.
        if not isinstance(value, HTTPError | StreamClosedError):
            log.error("a page failed: %s", self.request.path, exc_info=(typ, value, tb))

    @property
    def is_api(self) -> bool:
        """Whether a program asks, for JSON or CSV."""
        return self.request.path.startswith(f"{API}/")

    @override
    def get_template_namespace(self) -> dict[str, Any]:
        made = make_namespace(self.request.path, self.query) | {"edit_link": make_edit_link(self)}
        return super().get_template_namespace() | made

    def frame(self, name: str) -> Mapping[str, Any]:
        """Return what the frame of every page needs."""
        is_in = self.visitor.session is not None
        return {
            "title": name.capitalize(),
            "page_name": name,
            "navigation": NAVIGATION,
            "is_logged_in": is_in,
        }


class ViewHandler(ConsoleHandler):
    """The pages of ``PAGES``, and the same data below ``API``."""

    @property
    @override
    def changes(self) -> bool:
        return self.request.method not in READING and find_posted(self.request.path) is None

    @override
    def find_methods(self) -> Sequence[str]:
        return READING if find_posted(self.request.path) is None else (*READING, "POST")

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
        found = _find_page(_page_path(self.request.path))
        if found is None:
            return self.fail(404, "There is no such page.")
        try:
            with self.reader.turn():
                content_type, body, errors = await self._read(*found, form)
        except ParameterError as error:
            # No link of the error's page leads to the same error.
            self.query = Query({})
            return self.fail(400, str(error))
        except NotFoundError as error:
            return self.fail(404, str(error))
        except BusyError:
            return self.fail(503, "Too many pages are asked for at once. Try again.")
        except StuckError:
            return self.fail(503, STUCK)
        except SlowError:
            return self.fail(503, await self._describe_slow())
        except (OSError, sqlite3.Error) as error:
            return self.fail(503, f"The ledger can't be read: {error}")
        if errors and self.is_api:
            return self.fail(400, "; ".join(f"{name}: {reason}" for name, reason in errors.items()))
        self.set_status(400 if errors else 200)
        self.set_header("Content-Type", content_type)
        await self.finish(body)
        return None

    async def _describe_slow(self) -> str:
        """Return why a page took too long."""
        with suppress(OSError, sqlite3.Error, SlowError):
            since = await self.reader.read(lambda ledger: find_sums_begin(ledger, datetime.now(UTC)))
            if since:
                return (
                    f"The page took too long, because the sums of calls before {since} UTC are still being made."
                    " Choose a later time, or try again later."
                )
        return "The page took too long. Choose a shorter time."

    @override
    async def head(self) -> None:
        await self.get()

    async def _read(
        self, page: Page, names: Sequence[str], form: Mapping[str, str] | None
    ) -> tuple[str, str | bytes, Mapping[str, str]]:
        """Return the content type, the body and the wrong fields of a form.

        A thread of the reader makes them, templates included.
        """
        self.query = query = self._parse_query(page)
        live, settings, now = await self.sources.read(), self.sources.settings(), datetime.now(UTC)

        def make(ledger: sqlite3.Connection) -> tuple[str, str | bytes, Mapping[str, str]]:
            reading = Reading(settings, ledger, live, now, query, names, form)
            notices = find_notices(reading)
            view = page.load(reading)
            if self.is_api:
                return *_make_data(view, query, notices), view.errors
            return HTML, self._render(page, reading, view, notices), view.errors

        read = self.reader.read if form is None else self.reader.read_with_policies
        return await read(make)

    def _parse_query(self, page: Page) -> Query:
        arguments = {
            name: [value.decode("utf-8", "replace") for value in values]
            for name, values in self.request.query_arguments.items()
        }
        return Query.parse(arguments, page.parameters | RESERVED if self.is_api else page.parameters)

    def _render(self, page: Page, reading: Reading, view: View, notices: Sequence[str] = ()) -> bytes:
        # The address of the same data for programs. Links of tables add the name of their table.
        data_url = url_concat(API + self.request.path, dict(reading.query.given()))
        frame = {**self.frame(page.name), "title": page.title, "data_url": data_url}
        shown = {"tables": view.tables, "values": view.values, "errors": view.errors, **view.shown}
        shown["notices"] = notices
        return self.render_string(f"{page.name}.html", reading=reading, query=reading.query, **frame, **shown)


def _page_path(path: str) -> str:
    return path.removeprefix(API) if path.startswith(f"{API}/") else path


def find_posted(path: str) -> Page | None:
    """Return the page at a path, of the page or of its data, if it has a form that changes nothing."""
    found = _find_page(_page_path(path))
    return found[0] if found and found[0].fields else None


def _find_page(path: str) -> tuple[Page, Sequence[str]] | None:
    for page in PAGES:
        if (names := page.matches(path)) is not None:
            return page, [url_unescape(name, plus=False) for name in names]
    return None


def _make_data(view: View, query: Query, notices: Sequence[str]) -> tuple[str, str]:
    """Return JSON of everything or of one table, or CSV of one table: the first unless ``table`` names one.

    Only JSON of everything has ``notices``, if there are any.
    """
    form = query.choice("format", ("json", "csv"), "json")
    name = query.text("table")
    if name is None and form == "json":
        return JSON, format_json(
            {
                **({"notices": notices} if notices else {}),
                **view.values,
                **{name: one.records() for name, one in view.tables.items()},
            }
        )
    table = view.tables[query.choice("table", tuple(view.tables), next(iter(view.tables)))]
    return (CSV, format_spreadsheet(table)) if form == "csv" else (JSON, format_json(table.records()))

"""``PageMaker``: makes the answers to questions, each from one read-only view of the ledger."""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Final

from addon.console.frame import Frame
from addon.console.notices import find_notices, find_sums_begin
from addon.console.page_process.messages import SLOW, Answer, Question
from addon.console.pages import Page, find_page, is_data
from addon.console.query import ParameterError, Query
from addon.console.rendering import render
from addon.console.view import NotFoundError, Reading, View
from addon.console.views.loaders import load_view
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.ledger import SlowError
from addon.store.protocol import StoreUnavailable
from addon.text.table_formats import format_json, format_spreadsheet

HTML: Final = "text/html; charset=UTF-8"
JSON: Final = "application/json; charset=UTF-8"
CSV: Final = "text/csv; charset=UTF-8"

TIMEOUT_S: Final = 10.0
"""How long the statements of one page may take together."""

DESCRIBE_S: Final = 1.0
"""How long it may take to find out why a page took too long."""


def make_answer(question: Question, settings: Settings, is_left: Event) -> Answer:
    """Return the page that is asked for, or why there is none. Never raises."""
    number = question.number
    try:
        return _make_page(question, settings, is_left)
    except ParameterError as error:
        return Answer(number, 400, message=str(error))
    except NotFoundError as error:
        return Answer(number, 404, message=str(error))
    except SlowError:
        return Answer(number, 503, message=_describe_slow(settings, question, is_left))
    except StoreUnavailable as error:
        return Answer(number, 503, message=f"The ledger can't be read: {error}")
    except Exception:  # noqa: BLE001  (the gateway logs it)
        return Answer(number, 500, fault=traceback.format_exc())


def _make_page(question: Question, settings: Settings, is_left: Event) -> Answer:
    found = find_page(question.path)
    if found is None:
        raise NotFoundError("There is no such page.")
    page, names = found
    is_api = is_data(question.path)
    query = Query.parse(question.arguments, page.all_parameters(is_data=is_api))
    live, now = question.live, question.asked_at
    with find_ledger(settings.conf).read_in_time(TIMEOUT_S, is_left) as ledger:
        if question.form is not None:
            # A policy that hangs must not hold a view of the ledger, which would let its WAL file grow.
            ledger.execute("ROLLBACK")
        reading = Reading(settings, ledger, live, now, query, names, question.form)
        notices = find_notices(reading)
        view = load_view(page, reading)
        if is_api and view.errors:
            message = "; ".join(f"{name}: {reason}" for name, reason in view.errors.items())
            return Answer(question.number, 400, message=message)
        content_type, body = (
            make_data(view, query, notices)
            if is_api
            else (HTML, render_page(page, make_frame(question, query), reading, view, notices))
        )
    return Answer(question.number, 400 if view.errors else 200, content_type, body)


def make_frame(question: Question, query: Query) -> Frame:
    """Return the frame of the page that is asked for."""
    return Frame(question.path, query, question.form_token, question.is_logged_in, question.edit_obstacle)


def render_page(page: Page, frame: Frame, reading: Reading, view: View, notices: Sequence[str] = ()) -> bytes:
    """Return a view as HTML."""
    return render(
        f"{page.name}.html",
        frame,
        **{"page_name": page.name, "title": page.title},
        **{"reading": reading, "query": reading.query, "notices": notices},
        **{"tables": view.tables, "values": view.values, "errors": view.errors, **view.shown},
    )


def make_data(view: View, query: Query, notices: Sequence[str]) -> tuple[str, bytes]:
    """Return the content type and the data of a view, as JSON of everything or of one table, or as CSV of one table.

    The table is the first unless ``table`` names one. Only JSON of everything has ``notices``, if there are any.
    """
    form = query.choice("format", ("json", "csv"), "json")
    name = query.text("table")
    if name is None and form == "json":
        everything: Mapping[str, object] = {
            **({"notices": notices} if notices else {}),
            **view.values,
            **{name: one.records() for name, one in view.tables.items()},
        }
        return JSON, format_json(everything).encode()
    table = view.tables[query.choice("table", tuple(view.tables), next(iter(view.tables)))]
    if form == "csv":
        return CSV, format_spreadsheet(table).encode()
    return JSON, format_json(table.records()).encode()


def _describe_slow(settings: Settings, question: Question, is_left: Event) -> str:
    """Return why a page took too long."""
    with (
        suppress(StoreUnavailable, SlowError),
        find_ledger(settings.conf).read_in_time(DESCRIBE_S, is_left) as ledger,
    ):
        if since := find_sums_begin(ledger, question.asked_at):
            return (
                f"The page took too long, because the sums of calls before {since} UTC are still being made."
                " Choose a later time, or try again later."
            )
    return SLOW

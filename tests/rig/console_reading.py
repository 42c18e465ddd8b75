"""A ``Reading`` of the console over files and a ledger on disk, for tests of views."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from addon.console.pages import PAGES, RESERVED
from addon.console.query import Query
from addon.console.sources import Live
from addon.console.view import Reading, View
from addon.console.views.loaders import load_view
from addon.settings.settings import SettingsFiles
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.connection import open_connection
from addon.telemetry.admin import Readiness
from addon.telemetry.metric_families import FAMILIES, Sample

NOW = datetime(2026, 1, 31, 14, 20, tzinfo=UTC)


def make_live(**changes: Any) -> Live:
    """Return the state of a gateway that has served nothing."""
    gauges: dict[str, Any] = {name: () for name, family in FAMILIES.items() if family.kind == "gauge"}
    gauges["tollgate_start_time_seconds"] = (Sample({}, NOW.timestamp()),)
    fields: dict[str, Any] = {
        "readiness": Readiness(True, {}),
        "gauges": gauges,
        "file_fault": None,
        "settings_age_s": 60.0,
        "files": {},
    }
    return Live(**fields | changes)


def load_page(conf_file: Path, url: str, now: datetime = NOW, **live: Any) -> View:
    """Return the view at a path with its query, of the files and the ledger of ``conf_file``."""
    with open_reading(conf_file, url, now, **live) as (page, reading):
        return load_view(page, reading)


@contextmanager
def open_reading(
    conf_file: Path, url: str, now: datetime = NOW, env: Mapping[str, str] | None = None, **live: Any
) -> Iterator[tuple[Any, Reading]]:
    """Give the page of a URL, and what it is loaded from."""
    path, _, text = url.partition("?")
    page = next(page for page in PAGES if page.matches(path) is not None)
    settings = SettingsFiles(conf_file, env or {}).load()
    given: dict[str, Sequence[str]] = {
        name: [unquote(value)] for name, _, value in (part.partition("=") for part in text.split("&") if part)
    }
    query = Query.parse(given, page.parameters | RESERVED)
    with open_report(settings.conf.paths.database) as ledger:
        yield (
            page,
            Reading(
                settings,
                ledger,
                make_live(**live),
                now,
                query,
                [unquote(name) for name in page.matches(path) or ()],
            ),
        )


@contextmanager
def open_new_ledger(path: Path) -> Iterator[sqlite3.Connection]:
    """Make a ledger that can be written."""
    path.parent.mkdir(exist_ok=True)
    connection = open_connection(path)
    try:
        yield connection
    finally:
        connection.close()

"""``PAGES``: all views of the console, by path.

The functions that load them are in ``views/loaders.py``, which only the process that makes pages imports.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tornado.escape import url_unescape

from addon.console.query import CALL_FILTERS, NAME_FILTERS
from addon.console.time_range import PARAMETERS as TIMES

RESERVED: Final = frozenset({"table", "format"})
"""The parameters of the API, which choose one table, and JSON or CSV."""


@dataclass(frozen=True, slots=True)
class Page:
    """A view with its URL.

    | field | is |
    |---|---|
    | ``path`` | a regular expression of the whole path; its groups are ``Reading.names`` |
    | ``name`` | the template's name, and the word in the navigation that is marked |
    | ``parameters`` | the parameters that its URL may have |
    | ``fields`` | the fields of its form, which changes nothing; without any, the page is only read |
    | ``shows_files`` | whether it shows the files of the settings |
    """

    path: str
    name: str
    title: str
    parameters: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    shows_files: bool = False

    def all_parameters(self, *, is_data: bool) -> frozenset[str]:
        """Return the parameters that the URL of the page may have, or that of its data."""
        return self.parameters | RESERVED if is_data else self.parameters

    def matches(self, path: str) -> tuple[str, ...] | None:
        """Return the groups of the path, None when the path is another page's."""
        found = re.fullmatch(self.path, path)
        return found.groups() if found else None


_ID: Final = "([^/]{1,256})"

PAGES: Final = (
    Page("/(?:overview)?", "overview", "Overview", TIMES | {*NAME_FILTERS, "by"}),
    Page("/calls", "calls", "Calls", TIMES | {*CALL_FILTERS, "before", "after", "limit", "find"}),
    Page("/calls/new", "calls_new", "New calls", TIMES | {*CALL_FILTERS, "written_after"}),
    Page(f"/calls/{_ID}", "call", "Call"),
    Page("/workspaces", "workspaces", "Workspaces", TIMES | {"q", "sort", "after"}),
    Page(f"/workspaces/{_ID}", "workspace", "Workspace", TIMES | {"keys_after", "entries_before"}),
    Page("/models", "models", "Models", TIMES | {"q", "provider", "workspace", "sort"}),
    Page(
        "/explain",
        "explain",
        "Explain",
        parameters=frozenset({"workspace", "key", "example"}),
        fields=frozenset({"workspace", "key", "api", "body"}),
    ),
    Page("/settings", "settings", "Settings", shows_files=True),
    Page("/machines", "machines", "Machines"),
    Page("/audit", "audit", "Audit", frozenset({"workspace", "action", "before"})),
    Page("/audit/([0-9]{1,15})", "audit_line", "Change"),
)

API: Final = "/api/v1"
"""The beginning of the path of a page's data."""


def is_data(path: str) -> bool:
    """Return whether a path is that of data for programs."""
    return path.startswith(f"{API}/")


def find_page(path: str) -> tuple[Page, Sequence[str]] | None:
    """Return the page at a path, or the one whose data is there, and the variable parts of the path."""
    path = path.removeprefix(API) if is_data(path) else path
    for page in PAGES:
        if (names := page.matches(path)) is not None:
            return page, [url_unescape(name, plus=False) for name in names]
    return None


NAVIGATION: Final = (
    ("/", "overview", "Overview"),
    ("/calls", "calls", "Calls"),
    ("/workspaces", "workspaces", "Workspaces"),
    ("/models", "models", "Models"),
    ("/explain", "explain", "Explain"),
    ("/settings", "settings", "Settings"),
    ("/machines", "machines", "Machines"),
    ("/audit", "audit", "Audit"),
)
"""The links at the top of each page: path, name of the page, text."""

"""``PAGES``: all views of the console, by path."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tornado.escape import url_unescape

from addon.console.view import Reading, View
from addon.console.views.audit import PARAMETERS as AUDIT_PARAMETERS
from addon.console.views.audit import load_audit, load_audit_line
from addon.console.views.call import load_call
from addon.console.views.call_query import CALLS, NEW_CALLS
from addon.console.views.calls import load_calls, load_new_calls
from addon.console.views.explain import FIELDS as EXPLAIN_FIELDS
from addon.console.views.explain import PARAMETERS as EXPLAIN_PARAMETERS
from addon.console.views.explain import load_explain
from addon.console.views.models import PARAMETERS as MODELS_PARAMETERS
from addon.console.views.models import load_models
from addon.console.views.overview import PARAMETERS as OVERVIEW_PARAMETERS
from addon.console.views.overview import load_overview
from addon.console.views.settings import load_gateway_settings
from addon.console.views.workspace import PARAMETERS as WORKSPACE_PARAMETERS
from addon.console.views.workspace import load_workspace
from addon.console.views.workspaces import PARAMETERS as WORKSPACES_PARAMETERS
from addon.console.views.workspaces import load_workspaces

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
    load: Callable[[Reading], View]
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
    Page("/(?:overview)?", "overview", "Overview", load_overview, OVERVIEW_PARAMETERS),
    Page("/calls", "calls", "Calls", load_calls, CALLS),
    Page("/calls/new", "calls_new", "New calls", load_new_calls, NEW_CALLS),
    Page(f"/calls/{_ID}", "call", "Call", load_call),
    Page("/workspaces", "workspaces", "Workspaces", load_workspaces, WORKSPACES_PARAMETERS),
    Page(f"/workspaces/{_ID}", "workspace", "Workspace", load_workspace, WORKSPACE_PARAMETERS),
    Page("/models", "models", "Models", load_models, MODELS_PARAMETERS),
    Page("/explain", "explain", "Explain", load_explain, EXPLAIN_PARAMETERS, EXPLAIN_FIELDS),
    Page("/settings", "settings", "Settings", load_gateway_settings, shows_files=True),
    Page("/audit", "audit", "Audit", load_audit, AUDIT_PARAMETERS),
    Page("/audit/([0-9]{1,15})", "audit_line", "Change", load_audit_line),
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
    ("/audit", "audit", "Audit"),
)
"""The links at the top of each page: path, name of the page, text."""

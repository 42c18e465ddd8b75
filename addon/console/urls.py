"""The URLs of views and of their data. A link carries the time and the filters of a page to another page."""

from collections.abc import Container, Iterable, Mapping
from typing import Final
from urllib.parse import quote, urlencode

from addon.console.pages import PAGES
from addon.console.query import FILTERS, Query
from addon.console.time_range import PARAMETERS as TIMES

_POSITIONS: Final = ("before", "after")
"""The endings of parameters that say where in a list a page begins. A link that changes anything else drops them."""


def make_link(query: Query, to: str, names: Iterable[str], changes: Mapping[str, object]) -> str:
    """Return the URL of a view, with the time and the filters of this page where that view has them.

    ``names`` are the variable parts of its path: ``link("/calls", id)``. A parameter that is None is left out.
    """
    path = "/".join([to.rstrip("/"), *(quote(name, safe="") for name in names)]) or "/"
    page = next((page for page in PAGES if page.matches(path) is not None), None)
    kept = (TIMES | set(FILTERS)) & (page.parameters if page else frozenset())
    given = {name: value for name, value in query.given().items() if name in kept}
    return join_url(path, given | _format_parameters(changes))


def make_link_here(path: str, query: Query, changes: Mapping[str, object]) -> str:
    """Return the URL of this page with some parameters changed. None removes a parameter."""
    return join_url(path, find_kept(query) | _format_parameters(changes))


def find_kept(query: Query, without: Container[str] = ()) -> dict[str, str]:
    """Return the parameters that a link to this page keeps, but those in ``without``."""
    return {
        name: value
        for name, value in query.given().items()
        if name not in without and not name.endswith(_POSITIONS)
    }


def _format_parameters(changes: Mapping[str, object]) -> dict[str, str]:
    """Return parameters as texts. ``from_`` is ``from``, which Python has as a word of its own."""
    return {name.rstrip("_"): "" if value is None else str(value) for name, value in changes.items()}


def join_url(path: str, parameters: Mapping[str, str]) -> str:
    """Return a URL with those parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path

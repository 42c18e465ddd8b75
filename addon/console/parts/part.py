"""``Part``: a shared part of pages, with the frame of the page that it is on."""

from collections.abc import Callable
from typing import Any, Protocol

from addon.console.frame import Frame
from addon.console.query import Query
from addon.console.urls import make_link_here


class ShowTemplate(Protocol):
    """Returns a template with these values as HTML."""

    def __call__(self, template: str, /, **values: Any) -> str: ...


class Part:
    """A shared part of a page. Each has a method ``render`` that returns its HTML."""

    render: Callable[..., str]

    def __init__(self, frame: Frame, show: ShowTemplate) -> None:
        self.frame = frame
        self._show = show

    @property
    def query(self) -> Query:
        return self.frame.query

    @property
    def path(self) -> str:
        return self.frame.path

    def here(self, **changes: object) -> str:
        return make_link_here(self.path, self.query, changes)

    def show(self, template: str, **values: Any) -> str:
        """Return the template of this part with ``values``."""
        return self._show(f"parts/{template}.html", **values)

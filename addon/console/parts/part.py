"""``Part``: a shared part of pages, with the page that it is on."""

from typing import Any

from tornado.web import UIModule

from addon.console.query import Query
from addon.console.urls import make_link_here


class Part(UIModule):
    """A shared part of pages."""

    @property
    def query(self) -> Query:
        found: Query = getattr(self.handler, "query", Query({}))
        return found

    @property
    def path(self) -> str:
        return str(self.handler.request.path)

    def here(self, **changes: object) -> str:
        return make_link_here(self.path, self.query, changes)

    def show(self, template: str, **values: Any) -> str:
        return self.render_string(f"parts/{template}.html", **values).decode()

"""Pages of the console as HTML, without a server: the view, its template, and the frame."""

from pathlib import Path
from typing import Any

from tornado.httputil import HTTPConnection, HTTPServerRequest
from tornado.web import Application

from addon.console.page import ViewHandler
from addon.console.template_names import PARTS
from rig.configuration import ROOT
from rig.console_reading import NOW, open_reading


class _Connection(HTTPConnection):
    def set_close_callback(self, callback: Any) -> None:
        """A request without a client never closes."""


def render_page(conf_file: Path, url: str, now: Any = NOW, **live: Any) -> str:
    """Return the page at a URL, of the files and the ledger of ``conf_file``."""
    application = Application(
        [], ui_modules=PARTS, template_path=str(ROOT / "addon" / "console" / "templates")
    )
    request = HTTPServerRequest("GET", url, connection=_Connection())
    handler = ViewHandler(application, request, sources=None, reader=None, guard=None)
    with open_reading(conf_file, url, now, **live) as (page, reading):
        handler.query = reading.query
        return handler._render(page, reading, page.load(reading)).decode()

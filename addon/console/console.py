"""``Console``: answers the requests of the admin port that are not for health, readiness and metrics."""

from pathlib import Path
from typing import Any, Final, override

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, StaticFileHandler

from addon.console.page import ViewHandler, set_headers
from addon.console.parts import PARTS
from addon.console.reader import Reader
from addon.console.sources import Sources

_FOLDER: Final = Path(__file__).parent


class _StaticHandler(StaticFileHandler):
    """The style sheet, the script and the icon."""

    @override
    def set_default_headers(self) -> None:
        set_headers(self)


class Console:
    """The console of one gateway, with the ledger at ``database``. Its work ends with ``close``."""

    def __init__(self, sources: Sources, database: Path) -> None:
        self._reader = Reader(database)
        parts: dict[str, Any] = {"sources": sources, "reader": self._reader}
        self._application = Application(
            [(r"/static/(.*)", _StaticHandler, {"path": _FOLDER / "static"}), (r".*", ViewHandler, parts)],
            ui_modules=PARTS,
            template_path=str(_FOLDER / "templates"),
            log_function=lambda _: None,  # no access log, as on the rest of the port
        )

    def answer(self, request: HTTPServerRequest) -> None:
        """Begin to answer a request."""
        self._application(request)

    def close(self) -> None:
        """Begin no more pages."""
        self._reader.close()

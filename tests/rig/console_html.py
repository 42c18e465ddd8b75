"""Pages of the console as HTML, without a server: the view, its template, and the frame."""

from pathlib import Path
from typing import Any

from addon.console.frame import Frame
from addon.console.page_process.maker import render_page as render
from addon.console.views.loaders import load_view
from rig.console_reading import NOW, open_reading

EDIT_OBSTACLE = "Changes need a password: set [admin] console_password."


def render_page(conf_file: Path, url: str, now: Any = NOW, **live: Any) -> str:
    """Return the page at a URL, of the files and the ledger of ``conf_file``."""
    with open_reading(conf_file, url, now, **live) as (page, reading):
        frame = Frame(url.partition("?")[0], reading.query, edit_obstacle=EDIT_OBSTACLE)
        return render(page, frame, reading, load_view(page, reading)).decode()

"""Make the pictures of docs/console.md and README.md again: a running gateway, believable data, a real browser.

    PYTHONPATH=.:tests .venv/bin/python docs/make_pictures.py

Each picture is one WebP file for light systems and one for dark ones, in docs/pictures/.
"""

import base64
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rig.browser import Tab, chromium_program, running_chromium
from rig.configuration import ROOT, Configuration
from rig.gateway import Gateway
from rig.pictured_gateway import ENVIRONMENT, PASSWORD, write_files, write_ledger

FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1200, 840
QUALITY = 40


class _Files(Configuration):
    """The files and the ledger of the pictures, instead of those of a test."""

    def write(self, folder: Path) -> Path:
        conf = write_files(folder)
        write_ledger(conf, datetime.now(UTC))
        return conf


def _open_explain(tab: Tab) -> None:
    tab.open("/explain")
    with tab.page.expect_navigation():
        tab.page.get_by_role("link", name="A stream with a cap").click()
    tab.press("Explain")


def _open_change(tab: Tab) -> None:
    tab.open("/changes/keys/set/northlight-legal/contracts")
    tab.page.get_by_label("Spend cap").first.fill("80")
    tab.press("Show the difference")


PICTURES: dict[str, str | Callable[[Tab], None]] = {
    "overview": "/?range=7d",
    "calls": "/calls?range=7d",
    "workspace": "/workspaces/northlight-legal",
    "models": "/models",
    "explain": _open_explain,
    "change": _open_change,
}
"""The path of each picture by name, or how to come to it."""

TOPS = {"explain": "label[for=field-body]"}
"""The element with which a picture begins, if not with the page."""

HEIGHTS = {"overview": 1060, "models": 640}
"""The height of a picture that needs more than ``HEIGHT``, or less."""


def main() -> None:
    """Make all pictures."""
    FOLDER.mkdir(exist_ok=True)
    files = _Files({}, {}, environment=ENVIRONMENT)
    with (
        tempfile.TemporaryDirectory() as folder,
        Gateway(files, Path(folder), {}) as gateway,
        running_chromium(chromium_program()) as browser,
    ):
        tab = Tab(browser, gateway.admin_url, width=WIDTH)
        tab.open("/login")
        tab.page.get_by_label("Password of the console").fill(PASSWORD)
        tab.press("Log in")
        for name, place in PICTURES.items():
            if isinstance(place, str):
                tab.open(place)
            else:
                place(tab)
            for scheme in ("light", "dark"):
                tab.use_scheme(scheme)
                file = FOLDER / f"{name}-{scheme}.webp"
                size = _take(tab, file, TOPS.get(name, "body"), HEIGHTS.get(name, HEIGHT))
                print(f"{name}-{scheme}.webp: {size} bytes")
            if tab.faults:
                raise SystemExit(f"{name}: {tab.faults}")
        tab.close()


def _take(tab: Tab, file: Path, top: str, most: int) -> int:
    """Write the page from the element ``top`` on, at most ``most`` pixels of it. Return the size in bytes."""
    tab.evaluate("scrollTo(0, 0)")  # the bar at the top stays in the window
    begin = tab.evaluate("top => document.querySelector(top).getBoundingClientRect().top + scrollY", top)
    bottom = tab.evaluate("document.querySelector('footer').getBoundingClientRect().bottom + scrollY")
    height = min(most, bottom - begin)
    devtools = tab.page.context.new_cdp_session(tab.page)
    shot = {
        "format": "webp",
        "quality": QUALITY,
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": begin, "width": WIDTH, "height": height, "scale": 1},
    }
    data = base64.b64decode(devtools.send("Page.captureScreenshot", shot)["data"])
    devtools.detach()
    return file.write_bytes(data)


if __name__ == "__main__":
    main()

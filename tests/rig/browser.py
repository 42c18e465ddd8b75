"""A real Chromium without windows, and tabs that keep everything that goes wrong in their pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rig.server_process import installed_program

if TYPE_CHECKING:  # every process of the tests imports this module, and few start a browser
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response

ELEMENT_BOUND_S = 30.0
"""How long a page may take to load, or to show what a test looks for."""

NARROW, WIDE = 400, 1600
"""The widths of a telephone and of a desk, in pixels."""


def chromium_program() -> Path:
    """Return the path of a Chromium, and fetch one when there is none. Raise RuntimeError with the reason."""
    try:
        return installed_program("install_chromium.sh")
    except RuntimeError as error:
        raise RuntimeError(str(error).strip().removeprefix("tollgate: ")) from None


@contextmanager
def running_chromium(program: Path) -> Iterator["Browser"]:
    """Run a browser until the end of the block.

    It draws as users' browsers do: with compositing in one thread, a page gets no frames, and a click waits for them.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A tab of a new profile, which shows pages of ``origin``. ``page`` is Playwright's.

    ``faults`` has, since the last ``open``, each error in the console, script error, dialog, failed request,
    answer of 400 or more, and request to another origin. The status of the page itself is no fault: ``open`` returns
    it. ``answers`` has the path and the status of each answer.
    """

    def __init__(
        self, browser: "Browser", origin: str, *, width: int = WIDE, with_script: bool = True
    ) -> None:
        self.origin = origin
        self.faults: list[str] = []
        self.answers: list[tuple[str, int]] = []
        self._context = browser.new_context(
            base_url=origin,
            viewport={"width": width, "height": 900},
            java_script_enabled=with_script,
            reduced_motion="reduce",  # a colour that changes slowly has no contrast on its way
            locale="en-US",
            timezone_id="UTC",
        )
        self._context.set_default_timeout(ELEMENT_BOUND_S * 1000)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        self.page.on("dialog", self._close_dialog)
        self.page.on("request", self._note_request)
        self.page.on("requestfailed", self._note_failure)
        self.page.on("response", self._note_answer)

    def close(self) -> None:
        """Close the tab and forget its cookies."""
        self._context.close()

    def open(self, path: str) -> int:
        """Forget the faults so far, and show the page at ``path``. Return the status of its answer."""
        self.faults.clear()
        self.answers.clear()
        answer = self.page.goto(path)
        assert answer is not None
        return answer.status

    def press(self, button: str) -> None:
        """Press the button with this text, and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button, exact=True).click()

    def resize(self, width: int) -> None:
        """Give the window another width."""
        self.page.set_viewport_size({"width": width, "height": 900})

    def use_scheme(self, scheme: Any) -> None:
        """Show the page as on a system that is ``light`` or ``dark``."""
        self.page.emulate_media(color_scheme=scheme)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Run ``script`` in the page and return its result."""
        return self.page.evaluate(script, argument)

    def _note_message(self, message: "ConsoleMessage") -> None:
        is_of_page = message.text.startswith("Failed to load resource") and (
            message.location["url"] == self.page.url
        )
        if message.type in ("error", "warning") and not is_of_page:
            self.faults.append(f"console: {message.text}")

    def _close_dialog(self, dialog: "Dialog") -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_request(self, request: "Request") -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.faults.append(f"request to another origin: {request.url}")

    def _note_failure(self, request: "Request") -> None:
        if request.failure != "net::ERR_ABORTED":  # the next page came before this one was whole
            self.faults.append(f"failed request: {request.url}: {request.failure}")

    def _note_answer(self, response: "Response") -> None:
        self.answers.append((response.url.removeprefix(self.origin), response.status))
        if response.status >= 400 and not response.request.is_navigation_request():
            self.faults.append(f"answer {response.status}: {response.url}")

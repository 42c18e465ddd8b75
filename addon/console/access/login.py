"""The handlers of ``/login`` and ``/logout``."""

import re
from typing import Final, override

from addon.console.access.guard import AccessError
from addon.console.access.password import TooOftenError
from addon.console.page import ConsoleHandler

MAX_NEXT_CHARS: Final = 2048
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")
"""A path of this server. Browsers read ``//host`` and ``/\\host`` as another one."""


def find_next(wanted: str) -> str:
    """Return the path to go to after the login: ``wanted`` if that is a path of the console, else ``/``. Pure."""
    if len(wanted) > MAX_NEXT_CHARS or not _LOCAL.fullmatch(wanted):
        return "/"
    return "/" if wanted.partition("?")[0] in ("/login", "/logout") else wanted


class LoginHandler(ConsoleHandler):
    """The form to log in."""

    @override
    async def admit(self) -> None:
        """Everyone may see the form."""

    async def get(self) -> None:
        """Show the form. Go on to the wanted page if there is a session already, or no password."""
        wanted = find_next(self.get_query_argument("next", "/"))
        is_login = not self.guard.needs_login
        if not is_login:
            self.visitor, is_login = await self.guard.visit(self.request)
            self.use_cookie(self.visitor.cookie)
        if is_login:
            return self.redirect(wanted, status=303)
        if self.request.headers.get("Sec-Fetch-Site") == "cross-site":
            # A link on another site brings no cookie. The same page again does, as it comes from here.
            self.set_header("Refresh", "0")
        return self._show(wanted)

    @override
    async def head(self) -> None:
        await self.get()

    async def post(self) -> None:
        """Check the password. Begin a session, and go to the wanted page."""
        wanted = find_next(self.get_body_argument("next", "/"))
        try:
            cookie = await self.guard.log_in(
                self.request, self.get_body_argument("password", "", strip=False)
            )
        except AccessError as error:
            return self.fail(error.status, str(error))
        except TooOftenError as error:
            return self.fail_too_often(error)
        if cookie:
            self.use_cookie(cookie)
            return self.redirect(wanted, status=303)
        self.visitor, _ = await self.guard.visit(self.request)
        self.set_status(403)
        return self._show(wanted, "The password is wrong.")

    def _show(self, wanted: str, fault: str = "") -> None:
        self.show("login", "Log in", "login", wanted=wanted, fault=fault, navigation=(), is_logged_in=False)


class LogoutHandler(ConsoleHandler):
    """The end of a session. There is no ``get``, because a link must not end a session."""

    async def post(self) -> None:
        """End the session, and show the form to log in."""
        if self.visitor.session:
            self.use_cookie(await self.guard.log_out(self.request, self.visitor.session))
            self.settings["maker"].forget(self.visitor.shown_session)
        self.redirect("/login", status=303)

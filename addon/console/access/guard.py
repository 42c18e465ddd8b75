"""``Guard``: decides for each request to the console who may see it. Source: docs/console.md, "Who may see it"."""

import base64
import binascii
import hashlib
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from tornado.httputil import HTTPServerRequest

from addon.console.access.browsers import Browsers, Cookie
from addon.console.access.edits_allowed import NO_CHANGES
from addon.console.access.hosts import find_host_fault
from addon.console.access.password import PasswordCheck, PasswordKeys
from addon.console.access.session import Session, make_form_token
from addon.console.posted_form import FORM_TOKEN
from addon.runtime.listening import is_loopback
from addon.settings.overview import find_closed_reason
from addon.settings.settings import Settings

log = logging.getLogger("tollgate.console")

SAFE_METHODS: Final = ("GET", "HEAD")
"""Methods that change nothing. Source: RFC 9110, 9.2.1."""

_FORWARDED: Final = (
    *("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host"),
    *("X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip"),
)
"""Headers that a reverse proxy adds."""


class AccessError(Exception):
    """A request is refused. ``str`` is one line for its sender."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LoginNeededError(Exception):
    """A request needs a session or the password."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of an accepted request. ``session`` is None for programs, and without a password.

    ``form_token`` is for the forms of the page, ``cookie`` is one to set.
    """

    session: Session | None = None
    form_token: str = ""
    cookie: Cookie | None = None

    @property
    def shown_session(self) -> str:
        """The name of the session in the audit log: equal for all requests of a login, no help to find its cookie."""
        return hashlib.sha256(self.session.id.encode()).hexdigest()[:16] if self.session else ""


class Guard:
    """Decides who may see the console that listens at ``addresses``, as ``getsockname`` gives them."""

    def __init__(self, settings: Callable[[], Settings], addresses: Sequence[object]) -> None:
        self._settings = settings
        self._is_private = bool(addresses) and all(_is_private(one) for one in addresses)
        self._check = PasswordCheck(settings().conf.paths.session_keys)
        self._browsers = Browsers()
        self._host_name = socket.gethostname().lower()
        self._configure()
        if not self.is_open and find_closed_reason(settings()) is None:
            # proxy.conf does not say so: the sockets are those of systemd or of another process.
            reason = "its sockets are not on loopback, and [admin] console_password is empty"
            log.warning("the console is closed: %s", reason, extra={"event": "console closed"})

    @property
    def needs_login(self) -> bool:
        """Whether a password is configured."""
        return self._settings().console_password is not None

    @property
    def is_open(self) -> bool:
        """Whether anyone may see the console."""
        password = self._settings().console_password
        return self._is_private if password is None else password.secret is not None

    def close(self) -> None:
        """Begin no more work."""
        self._check.close()

    def check_address(self, request: HTTPServerRequest, *, changes: bool) -> None:
        """Raise AccessError when the request is for another server, or came from elsewhere without a password.

        ``changes``: it may change something.
        """
        admin = self._settings().conf.admin
        known = {admin.host.lower(), self._host_name, *admin.console_hosts}
        if fault := find_host_fault(request.headers.get_list("Host"), known):
            raise AccessError(421, fault)
        if not request.path.startswith("/"):
            raise AccessError(400, "The target of a request must be a path.")
        if _is_embedded(request):
            raise AccessError(403, "Another site asked for this. It may only link to it.")
        if self.needs_login:
            return
        if any(name in request.headers for name in _FORWARDED):
            raise AccessError(
                403, "A proxy passed this request on. Set [admin] console_password to allow that."
            )
        if changes:
            raise AccessError(403, NO_CHANGES)
        if request.method not in SAFE_METHODS and not self._is_own_form(request):
            raise AccessError(403, "Another site sent this form.")

    async def admit(self, request: HTTPServerRequest, *, is_api: bool, changes: bool) -> Visitor:
        """Return who sent a request. Raises LoginNeededError, AccessError and TooOftenError.

        Call ``check_address`` before.
        """
        if not self.needs_login:
            return Visitor()
        keys = await self._keys()
        session = self._current(request, keys)
        if session is None or session.kind != "login":
            # Browsers never send this by themselves, so only reading is allowed: there is no token of a form.
            if is_api and not changes and await self._is_program(request):
                return Visitor()
            raise LoginNeededError
        if request.method not in SAFE_METHODS:
            self._check_form(request, session, keys)
        renewed = session.renewed(time.time())
        cookie = self._browsers.make_cookie(request, renewed, keys) if renewed else None
        return Visitor(session, make_form_token(keys.signing, session), cookie)

    def may_post(self, request: HTTPServerRequest) -> bool:
        """Return whether the request has the session of a login. It may be asked before the body is read."""
        if not (self.is_open and self._configure()) or (keys := self._check.keys_now) is None:
            return False
        session = self._current(request, keys)
        return session is not None and session.kind == "login"

    async def visit(self, request: HTTPServerRequest) -> tuple[Visitor, bool]:
        """Return the visitor of the form to log in, and whether the session is a login already.

        The form of a browser that has logged in before goes on with its old session: it has a back-off of its own.
        """
        keys = await self._keys()
        session, cookie = self._browsers.find(request, keys), None
        if session is None or (session.kind == "visit" and not session.is_current(time.time())):
            session = self._browsers.begin("visit")
            cookie = self._browsers.make_cookie(request, session, keys)
        is_login = session.kind == "login" and session.is_current(time.time())
        return Visitor(session, make_form_token(keys.signing, session), cookie), is_login

    async def log_in(self, request: HTTPServerRequest, password: str) -> Cookie | None:
        """Return the cookie of a new session, None when the password is wrong. Raises AccessError, TooOftenError."""
        keys = await self._keys()
        before = self._browsers.find(request, keys)
        if before is None:
            raise AccessError(403, "Your browser sent no cookie. Allow cookies here, and try again.")
        self._check_form(request, before, keys)
        browser = before.id if before.kind == "login" else ""
        client = find_client(request)
        if not await self._check.is_right(password, client, browser):
            return None
        log.info("a login to the console, from %s", client, extra={"event": "console login"})
        return self._browsers.make_cookie(request, self._browsers.begin("login"), await self._keys())

    async def log_out(self, request: HTTPServerRequest, session: Session) -> Cookie:
        """End a session. Return the cookie that removes it from the browser."""
        self._browsers.end(session)
        return self._browsers.make_cookie(request, None, await self._keys())

    def _configure(self) -> bool:
        """Take the password over when it has changed. Return whether there is one."""
        password = self._settings().console_password
        if password is None or password.secret is None:
            return False
        self._check.configure(password, password.secret)
        return True

    async def _keys(self) -> PasswordKeys:
        if not self._configure():
            raise AccessError(404, "There is no such page.")
        return await self._check.keys()

    def _current(self, request: HTTPServerRequest, keys: PasswordKeys) -> Session | None:
        session = self._browsers.find(request, keys)
        return session if session and session.is_current(time.time()) else None

    async def _is_program(self, request: HTTPServerRequest) -> bool:
        password = _find_password(request)
        return password is not None and await self._check.is_right(password, find_client(request))

    def _check_form(self, request: HTTPServerRequest, session: Session, keys: PasswordKeys) -> None:
        """Raise AccessError when a form comes from another site, or is not one of this session."""
        if not self._is_own_form(request):
            raise AccessError(403, "Another site sent this form.")
        tokens = request.body_arguments.get(FORM_TOKEN, [])
        token = tokens[0].decode("utf-8", "replace") if len(tokens) == 1 else ""
        if not self._browsers.is_form_of(session, token, keys):
            raise AccessError(403, "This form is not of your session. Load its page again.")

    def _is_own_form(self, request: HTTPServerRequest) -> bool:
        """Return False when the browser says that another site sends the form. Old browsers say nothing."""
        if sites := request.headers.get_list("Sec-Fetch-Site"):
            return sites == ["same-origin"]
        return all(self._is_own_origin(one, request.host) for one in request.headers.get_list("Origin"))

    def _is_own_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin.lower())
            name = parts.hostname
        except ValueError:
            return False
        if parts.scheme not in ("http", "https"):
            return False
        return parts.netloc == host.lower() or name in self._settings().conf.admin.console_hosts


def find_client(request: HTTPServerRequest) -> str:
    """Return the address of a client, for the back-off and for records. A program on this machine can forge it.

    A proxy on this machine names its client last in ``X-Forwarded-For``. Without that, one client of the proxy could
    keep all others out.
    """
    peer = request.remote_ip or ""
    named = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    try:
        # The zone after "%" may be any text.
        address = ip_address(named if is_loopback(peer) and named and "%" not in named else peer)
    except ValueError:
        return peer
    # A socket for IPv6 and IPv4 gives ::ffff:192.0.2.1.
    return str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else str(address)


def _is_embedded(request: HTTPServerRequest) -> bool:
    """Return whether the browser says that a page of another site sent the request, other than by a link.

    That page can't read the answer, but it could keep the console busy, and measure how long the answer takes. Browsers
    count another port of the same host as the same site, and send it the cookie.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = (
        request.method in SAFE_METHODS
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    return site not in ("same-origin", "none") and not is_link


def _is_private(address: object) -> bool:
    """Return whether this is the address of a TCP socket that only this machine reaches."""
    return isinstance(address, tuple) and isinstance(address[0], str) and is_loopback(address[0])


def _find_password(request: HTTPServerRequest) -> str | None:
    """Return the password of an ``Authorization`` header: ``Bearer PASSWORD``, or Basic with any user."""
    scheme, _, value = request.headers.get("Authorization", "").strip().partition(" ")
    try:
        if scheme.lower() == "bearer":
            return value.encode("latin-1").decode() or None
        if scheme.lower() == "basic":
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
    except (binascii.Error, ValueError):
        pass
    return None

"""``Browsers``: the sessions of browsers, in signed cookies."""

import hmac
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

from tornado.httputil import HTTPServerRequest

from addon.console.access.hosts import split_port
from addon.console.access.password import PasswordKeys
from addon.console.access.session import (
    LONGEST_S,
    REMEMBERED_DAYS,
    Session,
    make_cookie,
    make_form_token,
    read_cookie,
)

_MAX_ENDED: Final = 1024


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie to set. An empty value removes it."""

    name: str
    value: str
    is_secure: bool

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that keep it from scripts and other sites."""
        expires = REMEMBERED_DAYS if self.value else -1
        return {
            "httponly": True,
            "samesite": "Strict",
            "path": "/",
            "secure": self.is_secure,
            "expires_days": expires,
        }


class Browsers:
    """The sessions of one console. It remembers only those that ended before their time."""

    def __init__(self) -> None:
        self._ended: dict[str, float] = {}

    def find(self, request: HTTPServerRequest, keys: PasswordKeys) -> Session | None:
        """Return the session of a browser, also one that is over, but none that was logged out."""
        name = _name_cookie(request)
        found = request.cookies.get(name)
        session = read_cookie(keys.signing, name, found.value) if found else None
        return None if session is None or session.id in self._ended else session

    def begin(self, kind: Literal["login", "visit"]) -> Session:
        """Return a new session."""
        now = int(time.time())
        return Session(kind, secrets.token_urlsafe(18), now, now)

    def end(self, session: Session) -> None:
        """End a session before its time. Other machines, and this process after a restart, don't know that."""
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        if len(self._ended) >= _MAX_ENDED:
            self._ended.pop(next(iter(self._ended)))
        self._ended[session.id] = now + LONGEST_S

    def make_cookie(self, request: HTTPServerRequest, session: Session | None, keys: PasswordKeys) -> Cookie:
        """Return the cookie of a session, or the one that removes it."""
        name = _name_cookie(request)
        value = make_cookie(keys.signing, name, session) if session else ""
        return Cookie(name, value, _is_https(request))

    def is_form_of(self, session: Session, token: str, keys: PasswordKeys) -> bool:
        """Return whether a form has the token of the session."""
        expected = make_form_token(keys.signing, session)
        return hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace"))


def _is_https(request: HTTPServerRequest) -> bool:
    """Return whether the browser uses HTTPS, as its proxy says. The port itself has none."""
    return request.headers.get("X-Forwarded-Proto", "").rpartition(",")[2].strip().lower() == "https"


def _name_cookie(request: HTTPServerRequest) -> str:
    """Return the name, with the port: browsers send a cookie to all ports of a host."""
    port = split_port(request.host)
    return f"{'__Host-' if _is_https(request) else ''}tollgate_session{f'_{port}' if port else ''}"

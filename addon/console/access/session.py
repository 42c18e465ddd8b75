"""``Session``: what the signed cookie of a browser says. Pure: each function gets the time.

The key comes from ``SessionKeys`` and the password, so a session ends when the password changes.
"""

import hmac
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Literal, Self

from tornado.web import create_signed_value, decode_signed_value

IDLE_S: Final = 12 * 3600
"""A session that is not used for so long ends."""

LONGEST_S: Final = 7 * 86_400
"""A session ends so long after its login, also when it is used."""

RENEW_S: Final = 1800
"""The cookie of a session in use is renewed when it is older."""

REMEMBERED_DAYS: Final = 30
"""A browser keeps its cookie for so long. After the session it only says that this browser has logged in before."""

_CLOCK_ERROR_S: Final = 300
"""How far the clocks of two machines may differ."""

_VALUE: Final = re.compile(r"(login|visit)\.([A-Za-z0-9_-]{16,64})\.([0-9]{1,12})\.([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class Session:
    """A browser with its random ``id``. A ``visit`` has only seen the form to log in."""

    kind: Literal["login", "visit"]
    id: str
    began_s: int
    used_s: int

    def is_current(self, now_s: float) -> bool:
        """Return whether the session has not ended."""
        latest_s = now_s + _CLOCK_ERROR_S
        return (
            self.began_s <= latest_s
            and self.used_s <= latest_s
            and now_s - self.used_s < IDLE_S
            and now_s - self.began_s < LONGEST_S
        )

    def renewed(self, now_s: float) -> Self | None:
        """Return the session as used now, None when its cookie is new enough."""
        return replace(self, used_s=int(now_s)) if now_s - self.used_s >= RENEW_S else None


def make_cookie(key: str, name: str, session: Session) -> str:
    """Return the signed value of the cookie ``name``."""
    value = f"{session.kind}.{session.id}.{session.began_s}.{session.used_s}"
    return create_signed_value(key, name, value).decode()


def read_cookie(key: str, name: str, value: str) -> Session | None:
    """Return the session of a cookie, also one that has ended; None when the signature is wrong."""
    found = decode_signed_value(key, name, value, max_age_days=REMEMBERED_DAYS, min_version=2)
    parts = _VALUE.fullmatch(found.decode("ascii", "replace")) if found else None
    if parts is None:
        return None
    kind: Literal["login", "visit"] = "login" if parts[1] == "login" else "visit"
    return Session(kind, parts[2], int(parts[3]), int(parts[4]))


def make_form_token(key: str, session: Session) -> str:
    """Return what the forms of a session send back. Another site can't read it, so it can't send a form."""
    return hmac.new(key.encode(), f"form {session.kind} {session.id}".encode(), sha256).hexdigest()

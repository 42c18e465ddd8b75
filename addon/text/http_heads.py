"""The heads of HTTP messages as plain values. Pure.

Names of fields are in lower case. Values are latin-1 text: each byte is the character of the same number.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, overload

Version = Literal["1.0", "1.1", "2"]
Field = tuple[str, str]

CREDENTIAL_FIELDS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}
)
"""The fields whose whole value is a credential."""


class Headers:
    """The fields of one head, in order."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Field] = ()) -> None:
        self.fields: tuple[Field, ...] = tuple(fields)

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value of ``name`` (lower case), or ``default``. Several values are joined by commas."""
        found = [value for one, value in self.fields if one == name]
        if len(found) == 1:
            return found[0]
        return ", ".join(found) if found else default

    def get_all(self, name: str) -> list[str]:
        """Return every value of ``name`` (lower case)."""
        return [value for one, value in self.fields if one == name]

    def __contains__(self, name: object) -> bool:
        return any(one == name for one, _ in self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return f"Headers({self.fields!r})"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request. ``target`` is a path with its query, or ``*``, or the authority of a CONNECT.

    ``authority`` is the host of an absolute target or of ``:authority``, else empty.
    """

    method: str
    target: str
    version: Version
    headers: Headers
    authority: str = ""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of an answer that was read, or is to be sent. Framing and ``Date`` are added when it is sent."""

    status: int
    headers: Headers
    version: Version = "1.1"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer for a client. ``close``: its HTTP/1 connection is closed after it."""

    status: int
    headers: Headers
    body: bytes = b""
    close: bool = False

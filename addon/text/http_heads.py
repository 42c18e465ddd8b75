"""The heads of HTTP messages as plain values. Pure.

Names of fields are in lower case. Values are latin-1 text: each byte is the character of the same number.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Version = Literal["1.0", "1.1", "2"]
Field = tuple[str, str]

CREDENTIAL_FIELDS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}
)
"""The fields whose whole value is a credential."""


class Headers(dict[str, str]):
    """The fields of one head, in order, and the value of each name. Never changed.

    As a dictionary, it has one value for a name: several are joined by commas. Names are in lower case.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Field] = ()) -> None:
        self.fields = fields = tuple(fields)
        super().__init__(fields)
        if len(self) < len(fields):
            self._join_repeated()

    def _join_repeated(self) -> None:
        values: dict[str, list[str]] = {}
        for name, value in self.fields:
            values.setdefault(name, []).append(value)
        self.update({name: ", ".join(found) for name, found in values.items()})

    def get_all(self, name: str) -> list[str]:
        """Return every value of ``name`` (lower case)."""
        return [value for one, value in self.fields if one == name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.fields == other.fields

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.fields)

    def __repr__(self) -> str:
        return f"Headers({self.fields!r})"


class RequestHead(Struct, frozen=True):
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


class ResponseHead(Struct, frozen=True):
    """The head of an answer that was read, or is to be sent. Framing and ``Date`` are added when it is sent."""

    status: int
    headers: Headers
    version: Version = "1.1"


class Response(Struct, frozen=True):
    """A whole answer for a client. ``close``: its HTTP/1 connection is closed after it."""

    status: int
    headers: Headers
    body: bytes = b""
    close: bool = False

"""``Origin``: the address that a connection leads to. ``Unreachable``: why there is no connection."""

from typing import Literal

from msgspec import Struct


class Origin(Struct, frozen=True, gc=False):
    """A provider's address. Tenants never share a connection. Calls on platform keys have no ``tenant``.

    ``is_direct``: it is a part of this process, so an egress proxy is never used for it.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    tenant: str = ""
    is_direct: bool = False


class Unreachable(Exception):  # noqa: N818  (it names what is wrong with the provider)
    """No connection could be made. ``reason`` may be logged and has no secret.

    ``lagged``: this process was late, or too many name look-ups waited. It is no sign of a fault of the provider.
    """

    def __init__(self, reason: str, *, lagged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lagged = lagged

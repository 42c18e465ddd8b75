"""Where a connection leads, and why there may be none."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Origin:
    """A provider's address. Connections of one ``tenant`` are never shared with another; platform calls have none.

    ``is_direct``: no egress proxy is asked for it, since it is a part of this process.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    tenant: str = ""
    is_direct: bool = False


class Unreachable(Exception):  # noqa: N818  (it names what is wrong with the provider)
    """No connection could be made. ``reason`` is fit for a log and holds no secret.

    ``lagged``: this process was late, or too many names waited to be looked up: it says nothing of the provider.
    """

    def __init__(self, reason: str, *, lagged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lagged = lagged

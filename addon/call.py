"""``Call``: what one flow carries between the hooks: the exchange, the settings it began with, and its reader.

State alone, no I/O; it knows mitmproxy's flow, to be found on it again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from mitmproxy.http import HTTPFlow

from addon.chat import ChatRequest
from addon.errors import ErrorAnswer
from addon.exchange import Exchange
from addon.relay import Relay
from addon.settings import Settings
from policies.refusal import Refusal

_METADATA_KEY = "tollgate"


@dataclass(slots=True)
class Call:
    """One flow's state. The settings stay those it began with, whatever is reloaded meanwhile.

    ``first_byte_s`` is when the client got the first byte of an answer, by the clock of ``exchange.started_s``.
    """

    exchange: Exchange
    settings: Settings
    request: ChatRequest | None = None
    relay: Relay | None = None
    refusal: Refusal | None = None
    failure: ErrorAnswer | None = None
    first_byte_s: float | None = None
    client_is_behind: Callable[[], bool] = field(default=lambda: False)

    def attach(self, flow: HTTPFlow) -> None:
        """Bind this call to its flow."""
        flow.metadata[_METADATA_KEY] = self


def call_of(flow: HTTPFlow) -> Call | None:
    """Return the flow's call, or None where no head was ever accepted."""
    call = flow.metadata.get(_METADATA_KEY)
    return call if isinstance(call, Call) else None

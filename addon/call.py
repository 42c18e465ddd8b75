"""``Call``: what one flow carries between the hooks: the exchange, the settings it began with, and its reader. Pure."""

from dataclasses import dataclass
from typing import Protocol

from mitmproxy.http import HTTPFlow

from addon.chat import ChatRequest
from addon.errors import ErrorAnswer
from addon.exchange import Exchange
from addon.settings import Settings
from policies.facts import Usage
from policies.refusal import Refusal

_METADATA_KEY = "tollgate"


class Relay(Protocol):
    """Turns the bytes of one upstream answer into the bytes for the client, and reads its facts on the way.

    It never raises: what goes wrong is in ``failure``, and from then on it returns nothing.
    """

    usage: Usage | None
    finish_reason: str | None
    relayed_text_chars: int
    failure: ErrorAnswer | None

    def feed(self, piece: bytes) -> bytes:
        """Take bytes as they came from the network; return those that may go to the client now."""

    def finish(self) -> bytes:
        """The upstream ended its message; return what is left for the client."""


@dataclass(slots=True)
class Call:
    """One flow's state. The settings stay those it began with, whatever is reloaded meanwhile."""

    exchange: Exchange
    settings: Settings
    request: ChatRequest | None = None
    relay: Relay | None = None
    refusal: Refusal | None = None
    failure: ErrorAnswer | None = None

    def attach(self, flow: HTTPFlow) -> None:
        """Bind this call to its flow."""
        flow.metadata[_METADATA_KEY] = self


def call_of(flow: HTTPFlow) -> Call | None:
    """Return the flow's call, or None where no head was ever accepted."""
    call = flow.metadata.get(_METADATA_KEY)
    return call if isinstance(call, Call) else None

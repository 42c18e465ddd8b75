"""The wire shapes that providers speak: one module a shape, each with the same four functions. Pure.

``request`` makes what is sent; ``stream``, ``whole`` and ``error`` make the reader of what comes back.
"""

from typing import Protocol

from addon.dialects import openai
from addon.relay import Relay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt


class Dialect(Protocol):
    """What every module of this package offers."""

    def request(self, attempt: Attempt, body: dict[str, object]) -> UpstreamRequest:
        """Make the HTTP request of one attempt from a sanitized chat body."""

    def stream(self, attempt: Attempt) -> Relay:
        """Make the reader of a streamed answer."""

    def whole(self, attempt: Attempt, max_bytes: int) -> Relay:
        """Make the reader of a whole answer."""

    def error(self, attempt: Attempt, status: int) -> Relay:
        """Make the reader of an error answer."""


DIALECTS: dict[str, Dialect] = {"openai": openai}

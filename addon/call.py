"""``Call``: what one flow carries between the hooks: the exchange, the settings it began with, and its reader.

No I/O; it knows mitmproxy's flow, to be found on it again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from mitmproxy.http import HTTPFlow

from addon.chat import ChatRequest
from addon.errors import INTERNAL, ErrorAnswer
from addon.exchange import Exchange, Stage
from addon.relay import Relay
from addon.retry_after import NO_ADVICE, RetryAdvice
from addon.settings import Settings
from policies.facts import Attempt
from policies.fallback import is_failure
from policies.refusal import Refusal
from policies.sanitize import Sanitized

_METADATA_KEY = "tollgate"


@dataclass(slots=True)
class Call:
    """One flow's state. The settings stay those it began with, whatever is reloaded meanwhile.

    ``first_byte_s`` is when the client got the first byte of an answer, by the clock of ``exchange.started_s``.
    ``cap_tokens`` is what the client and operators' policies let the next attempt's completion have, None for no limit;
    ``narrowed_tokens`` is the policies' part in it; ``sanitized`` what became of the request for it. ``chosen`` is the
    attempt under way with the platform key whose turn it was, which an access token may stand in for.
    ``upstream_status``, ``retry_after`` and ``advice`` stood in the head of its answer. ``first_failure`` is that of
    the attempt before it. ``lagged``: what failed is this process, which was late all along, and no provider.
    ``dropped_by_attempt`` is ``X-Gateway-Dropped`` of each attempt, by its number.

    Of the attempt under way: ``is_sent``: its request may have reached the provider; ``head_s`` is when its answer's
    head came; ``last_bytes`` is what a large answer's end left for the client. ``is_cut_off``: the gateway would not
    wait for its client any more.
    """

    exchange: Exchange
    settings: Settings
    request: ChatRequest | None = None
    cap_tokens: int | None = None
    narrowed_tokens: int | None = None
    sanitized: Sanitized | None = None
    dropped_by_attempt: dict[int, str | None] = field(default_factory=dict)
    chosen: Attempt | None = None
    relay: Relay | None = None
    upstream_status: int | None = None
    retry_after: str | None = None
    advice: RetryAdvice = NO_ADVICE
    refusal: Refusal | None = None
    failure: ErrorAnswer | None = None
    first_failure: ErrorAnswer | None = None
    first_byte_s: float | None = None
    lagged: bool = False
    is_sent: bool = False
    head_s: float | None = None
    last_bytes: bytes = b""
    is_cut_off: bool = False
    client_is_behind: Callable[[], bool] = field(default=lambda: False)

    @property
    def chat(self) -> ChatRequest:
        """The request. Raises RuntimeError before its body was read."""
        if self.request is None:
            raise RuntimeError(f"call {self.exchange.id}: its body was not read")
        return self.request

    @property
    def dropped(self) -> str | None:
        """``X-Gateway-Dropped`` of the attempt that answered, or failed, as the client is told."""
        return self.dropped_by_attempt.get(self.exchange.answered_by or self.exchange.attempts)

    def has_failed(self, failure: ErrorAnswer | None) -> bool:
        """Tell whether an attempt that ended so failed at its provider, as one with another might not."""
        if failure is None or failure.code == INTERNAL.code:
            return False
        in_success = self.upstream_status is not None and 200 <= self.upstream_status < 300
        before_net = self.exchange.attempt.mode == "byok" and self.exchange.routed.has_safety_net
        return is_failure(failure.status, in_success=in_success, before_net=before_net)

    def may_go_on(self, failure: ErrorAnswer) -> bool:
        """Tell whether another attempt may follow one that failed: only the first, and before the client has a byte."""
        is_first = self.exchange.stage is Stage.DISPATCHED and self.first_failure is None
        return is_first and self.first_byte_s is None and self.has_failed(failure)

    def answer_with(self, failure: ErrorAnswer) -> ErrorAnswer:
        """Return what the client is told of a call that failed: of two attempts, how the first did."""
        has_ended = self.exchange.stage is not Stage.DISPATCHED
        if self.first_failure is None or self.first_byte_s is not None or has_ended:
            return failure
        self.relay, self.exchange = None, self.exchange.note(answered_by=1)
        return self.first_failure

    def forget_request(self) -> None:
        """Let go of the body: mitmproxy's objects refer to each other, so they stay until they are collected."""
        self.request = self.sanitized = None

    def attach(self, flow: HTTPFlow) -> None:
        """Bind this call to its flow."""
        flow.metadata[_METADATA_KEY] = self


def call_of(flow: HTTPFlow) -> Call | None:
    """Return the flow's call, or None where no head was ever accepted."""
    call = flow.metadata.get(_METADATA_KEY)
    return call if isinstance(call, Call) else None

"""``Call``: what is known of one call while it is served. No I/O."""

from dataclasses import dataclass

from addon.answers.readers import Relay
from addon.calls.attempt import UpstreamAttempt
from addon.calls.chat_request import ChatRequest
from addon.settings.settings import Settings
from addon.text.errors import INTERNAL, ErrorAnswer
from policies.exchange import Exchange, Stage
from policies.fallback import is_failure


@dataclass(slots=True)
class Call:
    """One call. The settings stay those that it began with, whatever is loaded meanwhile.

    ``current`` is the attempt that is made now or was made last, ``failed`` the one before it, where one was sent, and
    ``first_failure`` what went wrong then. ``sent_s`` is when the first attempt was sent, and ``first_byte_s`` when the
    client got the first byte of an answer, by the clock of ``exchange.started_s``. ``is_committed``: it has some byte,
    if only of a heartbeat, so no other attempt may follow. ``body_bytes`` are counted in the budget of all bodies.
    ``is_cut_off``: the gateway would not wait for its client any more.
    """

    exchange: Exchange
    settings: Settings
    request: ChatRequest | None = None
    current: UpstreamAttempt | None = None
    failed: UpstreamAttempt | None = None
    first_failure: ErrorAnswer | None = None
    sent_s: float | None = None
    first_byte_s: float | None = None
    is_committed: bool = False
    body_bytes: int = 0
    is_cut_off: bool = False

    @property
    def chat(self) -> ChatRequest:
        """The request. Raises RuntimeError before its body was read."""
        if self.request is None:
            raise RuntimeError(f"call {self.exchange.id}: its body was not read")
        return self.request

    @property
    def attempt(self) -> UpstreamAttempt:
        """The attempt that is made now or was made last. Raises RuntimeError before the first."""
        if self.current is None:
            raise RuntimeError(f"call {self.exchange.id}: no attempt was made")
        return self.current

    @property
    def reader(self) -> Relay | None:
        """The reader of the answer that the client gets, None where there is none."""
        if self.current is None or self.exchange.answered_by is not None:
            return None
        return self.current.reader

    @property
    def dropped(self) -> str | None:
        """``X-Gateway-Dropped`` of the attempt that answered, or failed, as the client is told."""
        told = self.failed if self.exchange.answered_by is not None else self.current
        return told.dropped if told else None

    def has_failed(self, attempt: UpstreamAttempt, failure: ErrorAnswer | None) -> bool:
        """Tell whether an attempt that ended so failed at its provider, as one with another might not."""
        if failure is None or failure.code == INTERNAL.code:
            return False
        in_success = attempt.status is not None and 200 <= attempt.status < 300
        before_net = attempt.target.mode == "byok" and self.exchange.routed.has_safety_net
        return is_failure(failure.status, in_success=in_success, before_net=before_net)

    def may_go_on(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> bool:
        """Tell whether another attempt may follow this one: only the first, and before the client has a byte."""
        is_first = self.exchange.stage is Stage.DISPATCHED and self.first_failure is None
        return is_first and not self.is_committed and self.has_failed(attempt, failure)

    def answer_with(self, failure: ErrorAnswer) -> ErrorAnswer:
        """Return what the client is told of a call that failed: of two attempts, how the first did."""
        has_ended = self.exchange.stage is not Stage.DISPATCHED
        if self.first_failure is None or self.is_committed or has_ended:
            return failure
        self.exchange = self.exchange.note(answered_by=1)
        return self.first_failure

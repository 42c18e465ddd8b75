"""``Call``: all that is known of one call while it is served. No I/O."""

from typing import Any, Final

from msgspec import Struct

from addon.answers.reader import AnswerReader
from addon.calls.attempt import UpstreamAttempt
from addon.calls.chat_request import ChatRequest
from addon.settings.settings import Settings
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer
from policies.call_stages import Stage
from policies.exchange import Exchange, NotKnown
from policies.fallback import is_failure, may_fit

NO_CHAT: Final[Any] = NotKnown("a call has no request before its body is read and after it has ended")


class Call(Struct, eq=False):
    """One call.

    | field | is |
    |---|---|
    | ``exchange`` | its stage, and all that its ledger row needs |
    | ``settings`` | the settings that it began with; a later reload does not change them |
    | ``chat`` | the chat request, false before the body is read and after the call has ended |
    | ``current`` | the attempt that is made now, or the last one |
    | ``failed`` | the attempt before ``current``, None where none was sent |
    | ``first_failure`` | how the first of two attempts failed |
    | ``first_sent_s`` | when the first attempt was sent, by the clock of ``exchange.started_s`` |
    | ``first_byte_s`` | when the client got the first byte of an answer, by the same clock |
    | ``is_head_sent`` | the client has the head of a streamed answer, so no other attempt may follow |
    | ``counted_bytes`` | how many bytes of its body the budget of all bodies counts |
    | ``without_token`` | the exchange from before the rate limit, while the token is to be taken with the hold |
    | ``has_stalled_client`` | the client read nothing for too long |
    """

    exchange: Exchange
    settings: Settings
    chat: ChatRequest = NO_CHAT
    current: UpstreamAttempt | None = None
    failed: UpstreamAttempt | None = None
    first_failure: ErrorAnswer | None = None
    first_sent_s: float | None = None
    first_byte_s: float | None = None
    is_head_sent: bool = False
    counted_bytes: int = 0
    without_token: Exchange | None = None
    has_stalled_client: bool = False

    @property
    def attempt(self) -> UpstreamAttempt:
        """The attempt that is made now, or the last one. Raises RuntimeError before the first."""
        if self.current is None:
            raise RuntimeError(f"call {self.exchange.id}: no attempt was made")
        return self.current

    @property
    def reader(self) -> AnswerReader | None:
        """The reader of the answer that the client gets, None where there is none."""
        if self.current is None or self.exchange.answered_by is not None:
            return None
        return self.current.reader

    def has_failed(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> bool:
        """Return whether an attempt failed and another attempt might succeed.

        A fault of the gateway itself is no such failure.
        """
        if failure.code == INTERNAL_ERROR.code:
            return False
        in_success = attempt.status is not None and 200 <= attempt.status < 300
        before_net = attempt.target.mode == "byok" and self.exchange.route.has_safety_net
        return is_failure(failure.status, in_success=in_success, before_net=before_net)

    def may_fall_back(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> bool:
        """Return whether another attempt may follow: only after the first, and before the client has any byte."""
        is_first = self.exchange.stage is Stage.DISPATCHED and self.first_failure is None
        if not is_first or self.is_head_sent:
            return False
        return self.has_failed(attempt, failure) or self._may_fit_next(attempt, failure)

    def _may_fit_next(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> bool:
        """Return whether the provider refused the prompt as too long, and the model of the next attempt takes more."""
        following, has_answered = self.exchange.next_target, attempt.status is not None
        return (
            has_answered
            and bool(following)
            and may_fit(failure.status, failure.message, attempt.target.model, following.model)
        )

    def finish_with_error(self, failure: ErrorAnswer) -> ErrorAnswer:
        """Return the error that the client gets for a failed call, and note which attempt it is from.

        Of two failed attempts, the client gets the failure of the first. Once it has the head of a stream, it gets the
        failure that ended this stream.
        """
        has_ended = self.exchange.stage is not Stage.DISPATCHED
        if self.first_failure is None or self.is_head_sent or has_ended:
            return failure
        self.exchange = self.exchange.with_answer_of_first(self.failed.target if self.failed else None)
        return self.first_failure

"""``Call``: all that is known of one call while it is served. No I/O."""

from typing import Any, Final, NamedTuple
from zlib import crc32

from msgspec import Struct

from addon.answers.reader import AnswerReader
from addon.apis import APIS
from addon.apis.api import Api
from addon.apis.chat.request import ChatRequest
from addon.calls.attempt import UpstreamAttempt
from addon.settings.settings import Settings
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer
from addon.upstream.place_quotas import QuotaUse
from policies.affinity import find_affinity
from policies.call_stages import Stage
from policies.exchange import Exchange, NotKnown
from policies.fallback import has_longer_window, is_failure, is_foreign_reasoning, is_too_long
from policies.retry import find_retry_wait_s
from policies.route import Target

CHAT: Final = APIS["chat"]
NO_CHAT: Final[Any] = NotKnown("a call has no request before its body is read and after it has ended")


class NextStep(NamedTuple):
    """What follows a failed attempt: the call as it goes on, and how long it waits before a retry, in seconds.

    Where ``exchange`` has no next target, the call ends.
    """

    exchange: Exchange
    wait_s: float | None = None
    is_without_reasoning: bool = False
    """The same attempt is made without reasoning that its provider can't read."""


class Call(Struct, eq=False):
    """One call.

    | field | is |
    |---|---|
    | ``exchange`` | its stage, and all that its ledger row needs |
    | ``settings`` | the settings that it began with; a later reload does not change them |
    | ``chat`` | the request as a chat request, false before the body is read and after the call has ended |
    | ``current`` | the attempt that is made now, or the last one |
    | ``failed`` | the first attempt, once another one follows it; None where none was sent |
    | ``first_failure`` | how the first of several attempts failed |
    | ``first_sent_s`` | when the first attempt was sent, by the clock of ``exchange.started_s`` |
    | ``first_byte_s`` | when the client got the first byte of an answer, by the same clock |
    | ``is_head_sent`` | the client has the head of a streamed answer, so no other attempt may follow |
    | ``counted_bytes`` | how many bytes of its body the budget of all bodies counts |
    | ``without_token`` | the exchange from before the rate limit, while the token is to be taken with the hold |
    | ``has_stalled_client`` | the client read nothing for too long |
    | ``affinity`` | what its conversation shares, once it is asked for |
    | ``quota_tokens`` | how many tokens it likely uses, estimated where a place has a limit of them |
    | ``quota_use`` | what its attempt has taken of the quota of its place |
    | ``api`` | the wire shape that its client speaks |
    | ``is_without_reasoning`` | a provider could not read reasoning that another one had encrypted |
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
    affinity: bytes = b""
    quota_tokens: int = 0
    quota_use: QuotaUse | None = None
    api: Api = CHAT
    is_without_reasoning: bool = False

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
        """Return whether another attempt may follow, if there is one: only before the client has any byte."""
        if self.exchange.stage is not Stage.DISPATCHED or self.is_head_sent:
            return False
        if self.has_failed(attempt, failure) or self.list_fitting(attempt, failure):
            return True
        return self.may_leave_out_reasoning(attempt, failure)

    def has_time(self, at_s: float) -> bool:
        """Return whether an attempt may begin ``at_s``: an answer that is not streamed has one time for all attempts.

        ``at_s`` is by the clock of ``exchange.started_s``.
        """
        if self.exchange.stream or self.first_sent_s is None:
            return True
        return at_s < self.first_sent_s + self.settings.conf.upstream.whole_timeout_s

    def find_next_step(self, attempt: UpstreamAttempt, failure: ErrorAnswer, now_s: float) -> NextStep | None:
        """Return what follows a failed attempt, None where its failure is the answer.

        ``now_s`` is by the clock of ``exchange.started_s``.
        """
        if not self.may_fall_back(attempt, failure):
            return None
        if self.may_leave_out_reasoning(attempt, failure):
            return (
                NextStep(self.exchange.with_retry(), is_without_reasoning=True)
                if self.has_time(now_s)
                else None
            )
        if fitting := self.list_fitting(attempt, failure):
            return NextStep(self.exchange.with_following(fitting if self.has_time(now_s) else ()))
        if (wait_s := self.find_retry_wait_s(attempt, failure, now_s)) is not None:
            return NextStep(self.exchange.with_retry(), wait_s)
        return NextStep(self.exchange)

    def find_retry_wait_s(self, attempt: UpstreamAttempt, failure: ErrorAnswer, now_s: float) -> float | None:
        """Return how long to wait before the same attempt once more, None where it is not made again.

        ``failure`` may be followed by another attempt. ``now_s`` is by the clock of ``exchange.started_s``.
        """
        exchange, conf = self.exchange, self.settings.conf.upstream
        most_attempts = min(1 + conf.retries, conf.max_attempts)
        if len(exchange.route.targets) > 1 or exchange.attempts >= most_attempts:
            return None
        if attempt.lagged:  # This process is too busy: a second wait would not help it.
            return None
        wait_s = find_retry_wait_s(
            attempt.status,
            is_sent=attempt.is_sent,
            after_s=failure.retry_after_s,
            should_retry=failure.should_retry,
            chance=crc32(exchange.id.encode()) / 2**32,
        )
        return wait_s if wait_s is not None and self.has_time(now_s + wait_s) else None

    def may_leave_out_reasoning(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> bool:
        """Return whether an attempt may be made once more without reasoning that its provider could not read.

        It is that of another place, or of another account, where the conversation was before.
        """
        if attempt.status is None or self.is_without_reasoning:
            return False
        has_attempts = self.exchange.attempts < self.settings.conf.upstream.max_attempts
        return has_attempts and is_foreign_reasoning(failure.status, failure.message)

    def find_affinity(self) -> bytes:
        """Return what this call shares with others of its conversation, see ``policies.affinity``."""
        if not self.affinity:
            cache_key = self.chat.extras.get("prompt_cache_key")
            self.affinity = find_affinity(self.exchange.workspace.id, self.chat.fields, cache_key)
        return self.affinity

    def list_fitting(self, attempt: UpstreamAttempt, failure: ErrorAnswer) -> tuple[Target, ...]:
        """Return the targets that may follow, for a prompt that is too long for the model of ``attempt``; else none.

        No target is there twice.
        """
        route, failed = self.exchange.route, attempt.target.model
        if attempt.status is None or not is_too_long(failure.status, failure.message):
            return ()
        longer = [
            one for one in route.long_prompt_targets if has_longer_window(one.model, failed, if_unknown=True)
        ]
        known = {(one.model.slug, one.mode) for one in longer}
        left = [
            one
            for one in route.targets[self.exchange.position :]
            if has_longer_window(one.model, failed) and (one.model.slug, one.mode) not in known
        ]
        return (*longer, *left)

    def finish_with_error(self, failure: ErrorAnswer) -> ErrorAnswer:
        """Return the error that the client gets for a failed call, and note which attempt it is from.

        Of several failed attempts, the client gets the failure of the first. Once it has the head of a stream, it gets
        the failure that ended this stream.
        """
        has_ended = self.exchange.stage is not Stage.DISPATCHED
        if self.first_failure is None or self.is_head_sent or has_ended:
            return failure
        if self.failed is not None:  # The row of a call has an attempt that was sent.
            self.exchange = self.exchange.with_answer_of_first(self.failed.target)
        return self.first_failure

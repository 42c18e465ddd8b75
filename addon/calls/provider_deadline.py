"""How long a provider may take, and when its client is told that it is silent. No I/O but for one timer."""

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.runtime.clock import Clock
from addon.runtime.deadline import Patience

HOLD_TIMEOUT_S = 1.0
"""How long the last chunk with a choice waits for the usage that it is to bear."""


class ProviderDeadline:
    """The time that the provider of one attempt has.

    ``patience`` ends each wait: where the time is over, or, before that, where a heartbeat is due.
    """

    def __init__(self, call: Call, attempt: UpstreamAttempt, clock: Clock) -> None:
        self.patience = Patience(0)
        self._call, self._attempt, self._clock = call, attempt, clock
        self._conf = call.settings.conf.upstream
        self._idle_timeout_s = self._conf.idle_timeout_s
        self._heartbeat_s = self._conf.heartbeat_s if call.exchange.stream else 0.0
        self._sent_s = self._shown_s = self._due_s = clock.monotonic_s()

    @property
    def is_over(self) -> bool:
        """Whether the provider has had all of its time."""
        return self._clock.monotonic_s() >= self._due_s

    @property
    def is_beating(self) -> bool:
        """Whether the client gets heartbeats: not while an error is read, which another attempt may follow."""
        status = self._attempt.status
        return self._heartbeat_s > 0 and (status is None or status < 300)

    def begin(self) -> None:
        """The request is sent now."""
        self._sent_s = self._clock.monotonic_s()
        if self._call.sent_s is None:
            self._call.sent_s = self._sent_s
        self.renew()

    def renew(self) -> None:
        """Let the next piece, or the rest, be in within the time that is left for it."""
        now_s = self._clock.monotonic_s()
        is_streaming = self._call.first_byte_s is not None
        self._due_s = now_s + self._idle_timeout_s if is_streaming else self._first_due_s()
        self._wait_from(now_s)

    def hold(self) -> None:
        """Wait for no more than what a held chunk waits for."""
        self.patience.give(HOLD_TIMEOUT_S)

    def note_shown(self) -> None:
        """The client was sent something now."""
        if self._heartbeat_s:
            self._shown_s = self._clock.monotonic_s()

    def go_on(self) -> None:
        """A heartbeat was due: wait for the rest of the time that there was."""
        self._shown_s = self._clock.monotonic_s()
        self._wait_from(self._shown_s)

    def _wait_from(self, now_s: float) -> None:
        until_s = self._due_s
        if self._heartbeat_s and self.is_beating:
            until_s = min(until_s, self._shown_s + self._heartbeat_s)
        self.patience.give(max(0.0, until_s - now_s))

    def _first_due_s(self) -> float:
        """Comments before a stream's first event, and an error or a whole answer that drips, gain no time."""
        if self._call.exchange.stream:
            return self._sent_s + self._conf.first_byte_timeout_s
        is_first_of_two = self._call.exchange.has_next_attempt
        began_s = self._sent_s if self._call.sent_s is None else self._call.sent_s
        until_s = began_s + self._conf.whole_timeout_s / (2 if is_first_of_two else 1)
        head_s, status = self._attempt.head_s, self._attempt.status
        if head_s is not None and status is not None and status >= 300:
            until_s = min(until_s, head_s + self._conf.first_byte_timeout_s)
        return until_s

"""The time that the provider of one attempt has, and when its silence is reported to the client. One timer.

Source: docs/configuration.md, ``[upstream]``.
"""

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.runtime.clock import Clock
from addon.runtime.deadline import MovableDeadline
from policies.exchange import NO_TARGET

PENDING_TIMEOUT_S = 1.0
"""How long the last chunk with a choice waits for the usage that it will carry."""


class ProviderDeadline:
    """The time that the provider of one attempt has.

    It sets the ``timer`` of the attempt's connection: to the end of that time or, before it, to the next heartbeat.
    """

    def __init__(self, call: Call, attempt: UpstreamAttempt, clock: Clock) -> None:
        self._call, self._attempt, self._clock = call, attempt, clock
        self._conf = conf = call.settings.conf.upstream
        self._idle_timeout_s = conf.idle_timeout_s
        self._heartbeat_s = conf.heartbeat_s if call.exchange.stream else 0.0
        self._timer: MovableDeadline | None = None
        attempt.began_s = self._sent_s = self._due_s = self.last_output_s = clock.monotonic_s()
        """``last_output_s``: when the client was sent something. The next heartbeat is due ``heartbeat_s`` later."""

    @property
    def is_over(self) -> bool:
        """Whether the provider has had all of its time."""
        return self._clock.monotonic_s() >= self._due_s

    @property
    def lagged(self) -> bool:
        """Whether this process was late at the last timeout, so the provider may have been in time."""
        return self._timer is not None and self._timer.lagged

    @property
    def has_heartbeats(self) -> bool:
        """Whether the client gets heartbeats. It gets none while an error is read: another attempt may follow."""
        status = self._attempt.status
        return self._heartbeat_s > 0 and (status is None or status < 300)

    def start(self, timer: MovableDeadline) -> None:
        """Start the provider's time: the request is sent now."""
        self._timer = timer
        self._sent_s = now_s = self._clock.monotonic_s()
        if self._attempt.sent_s is None:
            self._attempt.sent_s = now_s
        if self._call.first_sent_s is None:
            self._call.first_sent_s = now_s
        self._due_s = self._first_due_s()
        self._wait_from(now_s)

    def note_head(self) -> None:
        """Limit the time of an error's body: its head is there."""
        self._due_s = self._first_due_s()
        self._wait_from(self._clock.monotonic_s())

    def renew(self) -> None:
        """Set the time for the next piece of a stream. The time for the rest of any other answer stays."""
        now_s = self._clock.monotonic_s()
        if self._call.first_byte_s is not None:
            self._due_s = now_s + self._idle_timeout_s
        if self._heartbeat_s:
            self._wait_from(now_s)
        elif self._timer is not None:
            self._timer.set(max(0.0, self._due_s - now_s))

    def limit_pending(self) -> None:
        """Limit the time that the pending chunk waits."""
        if self._timer is not None:
            self._timer.set(PENDING_TIMEOUT_S)

    def resume_after_heartbeat(self) -> None:
        """Note a heartbeat, and let the rest of the provider's time run."""
        self.last_output_s = self._clock.monotonic_s()
        self._wait_from(self.last_output_s)

    def _wait_from(self, now_s: float) -> None:
        until_s = self._due_s
        if self._heartbeat_s and self.has_heartbeats:
            until_s = min(until_s, self.last_output_s + self._heartbeat_s)
        if self._timer is not None:
            self._timer.set(max(0.0, until_s - now_s))

    def _first_due_s(self) -> float:
        """Return when a stream's first event, or the whole of any other answer, must be there.

        Comments before a stream's first event do not extend the time. Neither do the bytes of an error or of a whole
        answer.
        """
        if self._call.exchange.stream:
            return self._sent_s + self._conf.first_byte_timeout_s
        exchange, whole_timeout_s = self._call.exchange, self._conf.whole_timeout_s
        first_sent_s = self._sent_s if self._call.first_sent_s is None else self._call.first_sent_s
        until_s = first_sent_s + whole_timeout_s
        if exchange.next_target is not NO_TARGET:  # Half of what is left stays for the places that follow.
            until_s -= whole_timeout_s / 2**exchange.attempts
        head_s, status = self._attempt.head_s, self._attempt.status
        if head_s is not None and status is not None and status >= 300:
            until_s = min(until_s, head_s + self._conf.first_byte_timeout_s)
        return until_s

"""The time that a provider has for the body of an error, and that of a stream and of a whole answer."""

from datetime import UTC, datetime

import pytest
from rig.attempt_runs import FIRST_BYTE_TIMEOUT_S, IDLE_TIMEOUT_S, WHOLE_TIMEOUT_S
from rig.ledger import answered_exchange, upstream_attempt

from addon.calls.call_state import Call
from addon.calls.provider_deadline import ProviderDeadline
from addon.runtime.deadline import MovableDeadline
from addon.settings.settings import Settings
from policies.family import Family

HEAD_S = 5.0


class SetClock:
    """A clock that a test sets."""

    time_s = 100.0

    def monotonic_s(self) -> float:
        return self.time_s

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time_s, UTC)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [300, 500])
async def test_the_body_of_an_error_has_the_time_of_a_first_event(
    attempt_settings: Settings, stream: bool, status: int
) -> None:
    clock, exchange = SetClock(), answered_exchange(Family("chat"), stream=stream)
    attempt = upstream_attempt(exchange, status=None)
    deadline = ProviderDeadline(Call(exchange, attempt_settings), attempt, clock)
    deadline.start(MovableDeadline(lambda: None))
    clock.time_s += HEAD_S
    attempt.status, attempt.head_s = status, clock.time_s
    deadline.note_head()
    clock.time_s += FIRST_BYTE_TIMEOUT_S - (HEAD_S if stream else 0) - 0.1
    assert not deadline.is_over
    clock.time_s += 0.1
    assert deadline.is_over


@pytest.mark.parametrize(("stream", "left_s"), [(True, IDLE_TIMEOUT_S), (False, WHOLE_TIMEOUT_S - HEAD_S)])
async def test_a_piece_gives_more_time_to_a_stream_alone(
    attempt_settings: Settings, stream: bool, left_s: float
) -> None:
    clock, exchange = SetClock(), answered_exchange(Family("chat"), stream=stream)
    call = Call(exchange, attempt_settings)
    deadline = ProviderDeadline(call, upstream_attempt(exchange, status=200), clock)
    deadline.start(MovableDeadline(lambda: None))
    assert call.first_sent_s == 100.0
    clock.time_s += HEAD_S
    call.first_byte_s = clock.time_s if stream else None
    deadline.renew()
    clock.time_s += left_s - 0.1
    assert not deadline.is_over
    clock.time_s += 0.1
    assert deadline.is_over

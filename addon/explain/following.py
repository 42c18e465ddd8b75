"""What would follow each way in which an attempt may fail: the decision of a live call, asked once for each."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.text.errors import (
    ErrorAnswer,
    provider_timed_out,
    provider_unreachable,
    unreadable_answer,
    upstream_error,
)

type Then = Literal["retry", "attempt", "refusal", "failure"]
"""What follows: the same place once more, another target, a refusal of the gateway's, or the failure as the answer."""


class Following(NamedTuple):
    """What follows a failure. ``place`` is the next target's, None where no other one is tried."""

    failure: str
    then: Then
    model_slug: str | None = None
    place: str | None = None


class _Failure(NamedTuple):
    name: str
    status: int | None
    answer: ErrorAnswer
    is_sent: bool = True


_STATUSES: Final = (400, 401, 402, 403, 404, 408, 429, 500, 502, 503, 504, 529)
_TOO_LONG: Final = b'{"error": {"message": "This model\'s maximum context length is exceeded."}}'
FAILURES: Final = (
    _Failure("no connection", None, provider_unreachable(), is_sent=False),
    _Failure("no byte in time", None, provider_timed_out()),
    _Failure("a broken connection", None, provider_unreachable()),
    _Failure("an unreadable answer", 200, unreadable_answer("it is empty.")),
    *(_Failure(str(status), status, upstream_error(status, b"{}")) for status in _STATUSES),
    _Failure("a prompt that is too long", 400, upstream_error(400, _TOO_LONG)),
)
"""The ways in which an attempt may fail before the client has a byte. After that, nothing follows."""


def find_following(call: Call, attempt: UpstreamAttempt) -> Iterator[Following]:
    """Yield what follows each failure of a dispatched attempt."""
    for name, status, answer, is_sent in FAILURES:
        failed = replace(attempt, status=status, is_sent=is_sent)
        step = call.find_next_step(failed, answer, call.exchange.started_s)
        if step is None:
            yield Following(name, "failure")
        elif target := step.exchange.next_target:
            then: Then = "attempt" if step.wait_s is None else "retry"
            yield Following(name, then, target.model.slug, target.model.place)
        else:
            yield Following(name, "refusal" if call.exchange.route.fallback_refusal else "failure")

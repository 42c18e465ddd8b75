"""The situations S01 to S16 of Failover Bench, written anew: what the first place does, and what is judged.

Source of the situations and of the checks: failoverbench/failoverbench on GitHub, METHODOLOGY.md v0.1 and
scenarios/catalogue.yaml. Silences are without end here, and the gateway's timeouts are short. So a call that no timeout
of the gateway ends fails, and no time is measured. S15, which is a sequence, is in the test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    Received,
    Script,
    chunk,
    chunked,
    event,
    whole,
)

WORDS = tuple(f"word{number} " for number in range(60))
ANSWER = "".join(WORDS)
USED = {"prompt_tokens": 20, "completion_tokens": 60, "total_tokens": 80}
Verdict = Literal["pass", "partial", "safe", "fail"]
type Fault = Callable[[int], Script | None]
"""A function that returns the script of the nth request to the first place, from 1; None for a healthy answer."""


def _refusal(
    status: int, code: str | None, message: str = "refused", headers: tuple[tuple[str, str], ...] = ()
) -> Script:
    return whole({"error": {"message": message, "code": code, "param": None}}, status, headers)


def _always(script: Script) -> Fault:
    return lambda nth: script


def _once(script: Script) -> Fault:
    return lambda nth: script if nth == 1 else None


def _events(words: tuple[str, ...]) -> list[bytes]:
    return [event(chunk(word)) for word in words]


END = [event(chunk(finish="stop")), event(chunk(usage=USED))]
LONG_PROMPT = "This model's maximum context length is 8192 tokens. Please reduce the length of the messages."


@dataclass(frozen=True)
class Seen:
    """What the client and the providers saw of one call."""

    status: int
    text: str
    is_done: bool
    error: dict[str, Any] | None
    model: str | None
    usage: dict[str, int] | None
    sent: tuple[str, ...]
    """The upstream models of its attempts, in order."""
    is_alive: bool
    """A healthy call succeeded after it."""

    @property
    def first(self) -> int:
        """The number of attempts at the place that fails."""
        return len(self.sent) - self.sent.count("healthy")

    @property
    def is_rescued(self) -> bool:
        """Whether the client has the complete answer."""
        return self.is_done and self.error is None and self.text == ANSWER


type Check = Callable[[Seen], bool]


def _is_no_truncated_success(seen: Seen) -> bool:
    return seen.is_rescued or seen.error is not None


def _tries_first_at_most(count: int) -> Check:
    return lambda seen: seen.first <= count


def _tries_first_again(seen: Seen) -> bool:
    return seen.first >= 2


def _reports_who_served(seen: Seen) -> bool:
    return "healthy" not in seen.sent or seen.model is not None


@dataclass(frozen=True)
class Situation:
    """One situation: the fault, what is required, and what is only advised."""

    title: str
    fault: Fault
    required: tuple[Check, ...] = ()
    advised: tuple[Check, ...] = ()
    wants_error: bool = False

    def judge(self, seen: Seen) -> Verdict:
        """Return the verdict, as the source defines it."""
        checks = (_is_no_truncated_success, lambda seen: seen.is_alive, *self.required)
        if not all(check(seen) for check in checks):
            return "fail"
        if self.wants_error:
            return "pass" if seen.error else "partial"
        if not seen.is_rescued:
            return "safe"
        return "pass" if all(check(seen) for check in self.advised) else "partial"


SITUATIONS = {
    "S01": Situation(
        "429 with Retry-After",
        _once(_refusal(429, "rate_limit_exceeded", headers=(("Retry-After", "2"),))),
        (_tries_first_at_most(2),),
        (_tries_first_again,),
    ),
    "S02": Situation(
        "429 without Retry-After, persistent",
        _always(_refusal(429, "rate_limit_exceeded")),
        (_tries_first_at_most(4),),
    ),
    "S03": Situation("500 once, then healthy", _once(_refusal(500, None)), advised=(_tries_first_again,)),
    "S04": Situation("503 persistent", _always(_refusal(503, "overloaded")), (_tries_first_at_most(6),)),
    "S05": Situation("TCP reset before headers", _once((RESET,))),
    "S06": Situation(
        "no response at all", _always((UNTIL_CLIENT_LEAVES,)), advised=(_tries_first_at_most(1),)
    ),
    "S07": Situation(
        "slow first token",
        _always(chunked(UNTIL_CLIENT_LEAVES)),
        advised=(lambda seen: "healthy" in seen.sent,),
    ),
    "S08": Situation("stream cut in mid-answer", _always(chunked(*_events(WORDS[:40]), CLOSE))),
    "S09": Situation("stream stalls", _always(chunked(*_events(WORDS[:20]), UNTIL_CLIENT_LEAVES))),
    "S10": Situation(
        "malformed chunk in the stream",
        _always(chunked(*_events(WORDS[:9]), b'data: {"choices": [{\n\n', *_events(WORDS[10:]), *END, DONE)),
    ),
    "S11": Situation(
        "stream ends without [DONE]",
        _always(chunked(*_events(WORDS), *END)),
        advised=(lambda seen: seen.usage == USED,),
    ),
    "S12": Situation(
        "context length exceeded",
        _always(_refusal(400, "context_length_exceeded", LONG_PROMPT)),
        (lambda seen: seen.first == 1,),
    ),
    "S13": Situation(
        "content-filter rejection",
        _always(_refusal(400, "content_policy_violation")),
        (lambda seen: seen.first == 1,),
        wants_error=True,
    ),
    "S14": Situation(
        "the fallback rejects a prefill",
        _always(chunked(*_events(WORDS[:40]), CLOSE)),
        (lambda seen: not seen.error or "prefill" not in str(seen.error),),
    ),
    "S16": Situation(
        "fail-over accounting",
        _always(_refusal(503, "overloaded")),
        (_tries_first_at_most(6), _reports_who_served),
        (lambda seen: seen.usage == USED,),
    ),
}


def healthy(request: Received) -> Script:
    """Answer all that is asked, but reject a prefill."""
    if request.json()["messages"][-1]["role"] == "assistant":
        return _refusal(400, "invalid_prefill", "no assistant message prefill")
    if not request.json().get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
        return whole({"id": "1", "object": "chat.completion", "choices": [choice], "usage": USED})
    return chunked(*_events(WORDS), *END, DONE)

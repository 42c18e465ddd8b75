"""Operators' own policies review each attempt: they may refuse it or narrow its completion cap, and nothing else.

They see a call as ``ReviewedCall``: plain values without a reference to the request. A policy that fails refuses the
attempt: ``PolicyFailed`` names the policy and the fault, and nothing of the client. Source: docs/policies.md.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from policies.model import Mode, Plan
from policies.refusal import Refusal, RefusalCode
from policies.request_facts import text_of

REFUSAL_CODES: Final[tuple[RefusalCode, ...]] = (
    "bad_request",
    "validation_failed",
    "payment_required",
    "byok_required",
    "rate_limit_exceeded",
)
"""The codes that a policy may refuse with. The other codes are about facts that only the gateway knows."""


@dataclass(frozen=True, slots=True)
class ReviewedMessage:
    """One message of a call, as the client sent it. ``text`` is the text that keyword rules see."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """One attempt of a call, before money is held for it. docs/policies.md has a table of the fields.

    ``requested_cap_tokens`` is the client's smaller cap for each of the ``choices``, None if it set none.
    ``prompt_tokens()`` estimates the prompt, as for the hold, when it is first called.
    """

    workspace: str
    plan: Plan
    key_id: str
    end_user: str | None = field(repr=False)
    requested_model: str | None = field(repr=False)
    model_slug: str = field(repr=False)
    provider: str
    mode: Mode
    is_fallback: bool
    decided_by: str
    stream: bool
    requested_cap_tokens: int | None
    choices: int
    messages: tuple[ReviewedMessage, ...] = field(repr=False)
    last_user_text: str = field(repr=False)
    has_images: bool
    has_tools: bool
    wants_json: bool
    prompt_tokens: Callable[[], int] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The result of a policy that lowers the completion cap of an attempt, in tokens of each choice, at least 1."""

    max_completion_tokens: int

    def __post_init__(self) -> None:
        if type(self.max_completion_tokens) is not int or self.max_completion_tokens < 1:
            raise ValueError("max_completion_tokens must be a positive integer")


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, with the name of its module. ``function`` may return anything; ``review`` checks it."""

    name: str
    function: Callable[[ReviewedCall], object] = field(compare=False, repr=False)


class PolicyFailed(Exception):  # noqa: N818  (the fault is the policy's, not the caller's)
    """A policy did something that it may not do. ``str`` names the policy and the fault, and nothing of the call."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f'policy "{name}" {fault}')


def review(call: ReviewedCall, policies: Sequence[Policy]) -> int | None:
    """Return the smallest cap, in tokens, that any of ``policies`` sets for ``call``; None without any.

    Policies run in their order. Raises the Refusal of the first one that refuses, or PolicyFailed for the first one
    that fails.
    """
    answers = [_ask(policy, call) for policy in policies]
    return min((answer.max_completion_tokens for answer in answers if answer), default=None)


def reviewed_messages(messages: Iterable[dict[str, Any]]) -> tuple[ReviewedMessage, ...]:
    """Return the messages of a validated request, with their texts."""
    return tuple(ReviewedMessage(message["role"], text_of(message.get("content"))) for message in messages)


def _ask(policy: Policy, call: ReviewedCall) -> Narrowing | None:
    try:
        answer = policy.function(call)
    # A policy that calls exit() must not end the gateway. Only the policy can raise here: no task is cancelled inside a
    # plain function, and the event loop handles signals.
    except BaseException as error:
        if _is_valid_refusal(error):
            raise
        # The log shows where it was raised. It omits the message, because that may quote the client.
        raise PolicyFailed(policy.name, _fault(error)).with_traceback(error.__traceback__) from None
    if answer is None or isinstance(answer, Narrowing):
        return answer
    raise PolicyFailed(policy.name, f"returned a value of type {type(answer).__name__}")


def _is_valid_refusal(error: BaseException) -> bool:
    match error:
        case Refusal(code=code, message=str(message), param=str() | None):
            return code in REFUSAL_CODES and message.strip() != ""
    return False


def _fault(error: BaseException) -> str:
    if isinstance(error, Refusal):
        return "refused with a code that is not for policies, or with a message or param that is no text"
    return f"raised {type(error).__name__}"

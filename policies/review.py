"""Operators' own policies have the last word on each attempt: they may refuse it or narrow its completion cap, no more.

They see a call as ``ReviewedCall``, plain values none of which leads back to the request. A policy that fails refuses:
``PolicyFailed`` says which one and how, and nothing that the client said. Source: docs/policies.md.
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
"""What a policy may refuse with. The other codes say something that only the gateway itself can know."""


@dataclass(frozen=True, slots=True)
class ReviewedMessage:
    """One message of a call, as the client sent it; ``text`` is what keyword rules would see of it."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """One attempt of a call, before money is held for it.

    ``workspace`` and ``key_id`` say who asks, ``requested_model`` for what (None: no name), ``end_user`` for whom.
    ``model_slug``, ``provider`` and ``mode`` are the attempt's, ``decided_by`` is the rule of routing that chose its
    route; ``is_fallback``: it stands in for one that failed. ``requested_cap_tokens`` is the client's smaller cap for
    each of the ``choices`` that go upstream, None where it set none. ``messages`` are all, in order;
    ``last_user_text``, ``has_images``, ``has_tools`` and ``wants_json`` are as routing sees them. ``prompt_tokens()``
    estimates the prompt as it is held for, when it is first called.
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
    """What a policy returns to lower the completion cap of an attempt, in tokens of each choice, at least 1."""

    max_completion_tokens: int

    def __post_init__(self) -> None:
        if type(self.max_completion_tokens) is not int or self.max_completion_tokens < 1:
            raise ValueError("max_completion_tokens must be a positive integer")


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy by the name of its module. What ``function`` returns is nobody's promise: ``review`` checks it."""

    name: str
    function: Callable[[ReviewedCall], object] = field(compare=False, repr=False)


class PolicyFailed(Exception):  # noqa: N818  (the policy did; whoever asked it did nothing wrong)
    """A policy did something else than it may. ``str`` names it and the kind of fault, and never what a call says."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f'policy "{name}" {fault}')


def review(call: ReviewedCall, policies: Sequence[Policy]) -> int | None:
    """Return the smallest cap, in tokens, that any of ``policies`` narrows ``call`` to, None where none does.

    They are asked in their order. Raises the Refusal of the first that refuses, or PolicyFailed for the first that
    fails.
    """
    answers = [_ask(policy, call) for policy in policies]
    return min((answer.max_completion_tokens for answer in answers if answer), default=None)


def reviewed_messages(messages: Iterable[dict[str, Any]]) -> tuple[ReviewedMessage, ...]:
    """Return what is said in the messages of a validated request."""
    return tuple(ReviewedMessage(message["role"], text_of(message.get("content"))) for message in messages)


def _ask(policy: Policy, call: ReviewedCall) -> Narrowing | None:
    try:
        answer = policy.function(call)
    # A policy that calls exit() must not end the gateway. Nobody but the policy itself can have raised this: no task is
    # cancelled in the middle of a plain function, and signals are handled by the event loop.
    except BaseException as error:
        if _is_fit_to_be_told(error):
            raise
        # Where it came about is shown. What it says is not, because it may quote the client.
        raise PolicyFailed(policy.name, _fault(error)).with_traceback(error.__traceback__) from None
    if answer is None or isinstance(answer, Narrowing):
        return answer
    raise PolicyFailed(policy.name, f"returned a value of type {type(answer).__name__}")


def _is_fit_to_be_told(error: BaseException) -> bool:
    match error:
        case Refusal(code=code, message=str(message), param=str() | None):
            return code in REFUSAL_CODES and message.strip() != ""
    return False


def _fault(error: BaseException) -> str:
    if isinstance(error, Refusal):
        return "refused with a code that is not for policies, or with a message or param that is no text"
    return f"raised {type(error).__name__}"

"""Operators' policies may accept, narrow or refuse a call. Anything else that they do refuses it, too."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.reviewed import reviewed

from addon.text.errors import INTERNAL_ERROR, REFUSALS, refusal_error
from policies.refusal import Refusal, RefusalCode
from policies.review import (
    REFUSAL_CODES,
    Narrowing,
    Policy,
    PolicyFailed,
    ReviewedCall,
    review,
)

CANARY = "the client's own words"


def policies(*functions: Callable[[ReviewedCall], object]) -> list[Policy]:
    return [Policy(f"p{number}", function) for number, function in enumerate(functions, 1)]


def narrowing(tokens: int) -> Callable[[ReviewedCall], Narrowing]:
    return lambda _call: Narrowing(max_completion_tokens=tokens)


def raising(error: BaseException) -> Callable[[ReviewedCall], None]:
    def function(_call: ReviewedCall) -> None:
        raise error

    return function


def refusing(*given: Any) -> Callable[[ReviewedCall], None]:
    return raising(Refusal(*given))


def silent(_call: ReviewedCall) -> None:
    return None


@pytest.mark.parametrize(
    ("functions", "cap"),
    [
        ((), None),
        ((silent,), None),
        ((narrowing(1),), 1),
        ((narrowing(500), silent), 500),
        ((narrowing(500), narrowing(20), narrowing(30)), 20),
    ],
)
def test_the_smallest_narrowing_counts(
    functions: tuple[Callable[[ReviewedCall], object], ...], cap: int | None
) -> None:
    assert review(reviewed(), policies(*functions)) == cap


def test_each_policy_gets_the_same_call_in_order() -> None:
    asked: list[tuple[int, ReviewedCall]] = []
    call = reviewed()
    review(call, policies(*(lambda given, n=n: asked.append((n, given)) for n in range(3))))
    assert [number for number, _ in asked] == [0, 1, 2]
    assert all(given is call for _, given in asked)


def test_the_first_refusal_answers_and_no_policy_runs_after_it() -> None:
    refusal = Refusal("payment_required", "Too dear.", "max_tokens")
    with pytest.raises(Refusal) as found:
        review(
            reviewed(),
            policies(
                narrowing(5), raising(refusal), refusing("bad_request", "Never said."), raising(SystemExit())
            ),
        )
    assert found.value is refusal


@pytest.mark.parametrize("code", get_args(RefusalCode))
def test_only_some_codes_are_for_policies(code: RefusalCode) -> None:
    expected = Refusal if code in REFUSAL_CODES else PolicyFailed
    with pytest.raises(expected):
        review(reviewed(), policies(refusing(code, "Not today.")))


def test_each_code_of_a_policy_is_answered_with_its_words() -> None:
    for code in REFUSAL_CODES:
        answer = refusal_error(Refusal(code, "Not today.", "model"))
        assert answer != INTERNAL_ERROR
        assert (answer.status, answer.message, answer.param) == (REFUSALS[code][0], "Not today.", "model")


class Interrupting(BaseException):
    pass


class Careless(Refusal):
    def __init__(self) -> None:  # It sets nothing of what a refusal has.
        Exception.__init__(self, CANARY)


async def coroutine(_call: ReviewedCall) -> None: ...


FAULTS: dict[str, Callable[[ReviewedCall], object]] = {
    "a fault": raising(ValueError(CANARY)),
    "a missing key": raising(KeyError(CANARY)),
    "an assertion": raising(AssertionError(CANARY)),
    "a group": raising(ExceptionGroup(CANARY, [ValueError(CANARY)])),
    "exit()": raising(SystemExit(CANARY)),
    "an interrupt": raising(KeyboardInterrupt(CANARY)),
    "a cancellation": raising(asyncio.CancelledError(CANARY)),
    "an end": raising(GeneratorExit(CANARY)),
    "a base exception of its own": raising(Interrupting(CANARY)),
    "a recursion": lambda call: FAULTS["a recursion"](call),
    "a refusal of the limiter": refusing("rate_limit_unavailable", CANARY),
    "an unknown code": refusing(CANARY, CANARY),
    "a code that is no text": refusing([CANARY], CANARY),
    "no message": refusing("bad_request", " "),
    "a message that is no text": refusing("bad_request", [CANARY]),
    "a param that is no text": refusing("bad_request", "No.", 3),
    "a refusal without anything": raising(Careless()),
    "true": lambda _call: True,
    "false": lambda _call: False,
    "a number": lambda _call: 100,
    "words": lambda _call: CANARY,
    "the class": lambda _call: Narrowing,
    "a refusal that was not raised": lambda _call: Refusal("bad_request", CANARY),
    "a narrowing to nothing": lambda _call: Narrowing(max_completion_tokens=0),
    "a narrowing below nothing": lambda _call: Narrowing(max_completion_tokens=-5),
    "a narrowing to a fraction": lambda _call: Narrowing(max_completion_tokens=1.5),  # type: ignore[arg-type]
    "a narrowing to true": lambda _call: Narrowing(max_completion_tokens=True),
    "a narrowing to words": lambda _call: Narrowing(max_completion_tokens=CANARY),  # type: ignore[arg-type]
    "an attempt to change the call": lambda call: setattr(call, "model_slug", CANARY),
}


@pytest.mark.parametrize("function", FAULTS.values(), ids=FAULTS)
def test_anything_else_that_a_policy_does_is_its_failure_by_name_and_never_in_its_words(
    function: Callable[[ReviewedCall], object],
) -> None:
    with pytest.raises(PolicyFailed, match=r'^policy "p2" (raised|refused|returned) ') as found:
        review(reviewed(CANARY), policies(narrowing(5), function))
    written = "".join(traceback.format_exception(found.value))
    assert CANARY not in written
    assert written.count("Traceback") == 1


def test_the_traceback_of_a_fault_leads_to_the_line_of_the_policy() -> None:
    def stumbling(call: ReviewedCall) -> None:
        int(call.last_user_text)  # here

    with pytest.raises(PolicyFailed) as found:
        review(reviewed(CANARY), policies(stumbling))
    written = "".join(traceback.format_exception(found.value))
    assert "int(call.last_user_text)  # here" in written
    assert written.endswith('PolicyFailed: policy "p1" raised ValueError\n')


def test_a_failed_policy_does_not_fail_the_next_call() -> None:
    unlucky = policies(lambda call: [][1] if call.stream else None)
    with pytest.raises(PolicyFailed):
        review(reviewed(stream=True), unlucky)
    assert review(reviewed(), unlucky) is None


def test_a_printed_call_has_no_words_of_the_client() -> None:
    call = reviewed(CANARY, end_user=CANARY, requested_model=CANARY, model_slug=CANARY)
    assert CANARY not in repr(call)


@given(st.lists(st.integers(min_value=1) | st.none(), max_size=6))
def test_a_policy_can_only_narrow(caps: list[int | None]) -> None:
    functions = [silent if cap is None else narrowing(cap) for cap in caps]
    given = [cap for cap in caps if cap is not None]
    assert review(reviewed(), policies(*functions)) == (min(given) if given else None)

"""A provider's advice to retry is read, written for the client, and followed by the real SDK."""

import math
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from conftest import HELLO, Chat
from hypothesis import given
from hypothesis import strategies as st
from openai import APIStatusError, OpenAI
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.scripts import Received, Script, completion, whole
from rig.upstream import Upstream

from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, refusal_error
from addon.text.retry_after import (
    MAX_CHARS,
    MAX_WAIT_S,
    NO_ADVICE,
    RetryAdvice,
    parse_retry_advice,
    parse_retry_after,
    retry_headers,
    with_advice,
)
from policies.refusal import Refusal

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BUSY = ErrorAnswer(429, "rate_limit_error", "rate_limit_exceeded", "Slower.")
ERROR: Any = {"error": {"message": "Slower."}}


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({}, NO_ADVICE),
        ({"retry-after": "7"}, RetryAdvice(7)),
        ({"retry-after": "0"}, RetryAdvice(1)),
        ({"retry-after": "1.2"}, RetryAdvice(2)),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, RetryAdvice(30)),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, RetryAdvice(1)),
        ({"retry-after": "9" * 90}, RetryAdvice(MAX_WAIT_S)),
        ({"retry-after": "soon"}, NO_ADVICE),
        ({"retry-after": "7, 8"}, NO_ADVICE),
        ({"retry-after": "-3"}, NO_ADVICE),
        ({"retry-after-ms": "250"}, RetryAdvice(1)),
        ({"retry-after-ms": "2500.5", "retry-after": "9"}, RetryAdvice(3)),
        ({"retry-after-ms": "soon", "retry-after": "9"}, RetryAdvice(9)),
        ({"retry-after-ms": "9" * 101}, NO_ADVICE),
        ({"x-should-retry": "true"}, RetryAdvice(None, True)),
        ({"x-should-retry": " False"}, RetryAdvice(None, False)),
        ({"x-should-retry": "sk-secret"}, NO_ADVICE),
    ],
)
def test_a_providers_advice_is_read(headers: dict[str, str], advice: RetryAdvice) -> None:
    assert parse_retry_advice(headers, NOW) == advice


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text()))
def test_the_client_always_gets_an_integer_and_a_known_word(headers: dict[str, str]) -> None:
    sent = retry_headers(with_advice(BUSY, parse_retry_advice(headers, NOW)))
    assert sent.keys() <= {"retry-after", "x-should-retry"}
    assert 1 <= int(sent.get("retry-after", "1")) <= MAX_WAIT_S
    assert sent.get("x-should-retry", "true") in ("true", "false")


@pytest.mark.parametrize(
    ("after_s", "should_retry", "headers"),
    [
        (None, None, {}),
        (60, None, {"retry-after": "60"}),
        (61, None, {"retry-after": "61", "x-should-retry": "false"}),
        (61, True, {"retry-after": "61", "x-should-retry": "false"}),
        (1, True, {"retry-after": "1", "x-should-retry": "true"}),
        (0, None, {"retry-after": "1"}),
        (None, False, {"x-should-retry": "false"}),
    ],
)
def test_a_wait_that_no_sdk_respects_forbids_a_retry(
    after_s: int | None, should_retry: bool | None, headers: dict[str, str]
) -> None:
    refusal = Refusal("payment_required", "No.", retry_after_s=after_s, should_retry=should_retry)
    assert retry_headers(refusal_error(refusal)) == headers


def test_a_failure_of_the_gateway_gets_no_advice_of_a_provider() -> None:
    assert with_advice(INTERNAL_ERROR, RetryAdvice(7, True)) is INTERNAL_ERROR


# --- over the gateway --------------------------------------------------------------------------------------------


def headers_of(answer: Any) -> tuple[str | None, str | None]:
    return answer.headers.get("retry-after"), answer.headers.get("x-should-retry")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 402, 404, 429, 500, 503])
def test_a_providers_advice_is_sent_with_its_failure(
    chat: Chat, upstream: Upstream, status: int, stream: bool
) -> None:
    advice_headers = [("Retry-After", "0007.0"), ("X-Should-Retry", "TRUE")]
    upstream.behave(whole(ERROR, status, advice_headers))
    answer = chat(stream=stream)
    assert answer.status_code == status
    assert headers_of(answer) == ("7", "true")


def test_a_success_has_no_advice(chat: Chat, upstream: Upstream) -> None:
    upstream.behave(whole(completion(), 200, [("Retry-After", "7"), ("X-Should-Retry", "true")]))
    assert headers_of(chat()) == (None, None)


def test_a_failure_does_not_get_the_advice_of_an_earlier_call(chat: Chat, upstream: Upstream) -> None:
    upstream.behave(whole(ERROR, 429, [("Retry-After", "7")]))
    chat()
    upstream.behave(whole(ERROR, 429))
    assert headers_of(chat()) == (None, None)


@pytest.mark.parametrize(
    ("advice_headers", "calls"),
    [([("Retry-After", "600")], 1), ([("X-Should-Retry", "false")], 1), ([("Retry-After", "1")], 2)],
)
def test_the_sdk_follows_the_advice(
    gateway: Gateway, upstream: Upstream, advice_headers: list[tuple[str, str]], calls: int
) -> None:
    """The SDK retries after a wait that it respects. It does not retry after a wait that it would ignore."""

    came_s: list[float] = []

    def once_busy(_request: Received) -> Script:
        came_s.append(time.monotonic())
        return whole(ERROR, 429, advice_headers) if len(upstream.requests) == 1 else whole(completion())

    upstream.behave(once_busy)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=1, timeout=BOUND_S) as sdk:
        ask = sdk.chat.completions.create
        if calls == 1:
            with pytest.raises(APIStatusError):
                ask(model="tester-large", messages=HELLO)  # type: ignore[arg-type]
        else:
            assert ask(model="tester-large", messages=HELLO).choices  # type: ignore[arg-type]
    assert len(came_s) == calls
    assert came_s[-1] - came_s[0] >= calls - 1  # Without advice, the SDK retries in less than a second.


# The header alone.

IN_1994 = datetime(1994, 11, 6, 8, 49, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        (" 0 ", 0),
        ("1.5", 1.5),
        ("007", 7),
        ("9" * 99, 1e99),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 30),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 30),
        ("Sun Nov  6 08:49:37 1994", 30),
        ("Sun, 06 Nov 1994 08:48:37 GMT", -30),
        ("Sun, 06 Nov 1994 08:49:37 -0000", 30),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(text: str, seconds: float) -> None:
    assert parse_retry_after(text, IN_1994) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", " ", "soon", "-5", "+5", "1e9", "inf", "nan", "5s", "5, 5", "٣", "0x10", ".5", "5."),
        *("Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0 99:99:99 GMT", "Sun, 06 Nov 99999 08:49:37 GMT"),
        "9" * (MAX_CHARS + 1),
    ],
)
def test_any_other_text_is_ignored(text: str | None) -> None:
    assert parse_retry_after(text, IN_1994) is None


@given(
    text=st.text(max_size=40)
    | st.from_regex(r"\w{3}, \d{1,3} \w{3} \d{1,6} \d\d:\d\d:\d\d [+-]?\w{1,5}", fullmatch=True)
)
def test_any_text_can_be_read(text: str) -> None:
    found = parse_retry_after(text, IN_1994)
    assert found is None or not math.isnan(found)

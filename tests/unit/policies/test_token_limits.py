"""What a call takes of limits of tokens a minute, and how it is refused."""

from dataclasses import replace

import pytest

from policies.model import Budget, Key, Workspace
from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    count_used_tokens,
    find_budget_rates,
    find_excess,
    find_likely_tokens,
    find_token_limits,
    make_token_refusal,
    settle_tokens,
    share_limit,
    take_tokens,
)
from policies.token_rate import WINDOW_MS, Bucket

KEY = Key("ci", "0" * 64)
ACME = Workspace("acme", "Acme", "pro", (KEY,))
OF_WORKSPACE = TokenLimit("workspace", "workspace:acme", 1_000)
OF_KEY = TokenLimit("key", "key:acme/ci", 400)
OF_USER, TOKENS_OF_USER = find_budget_rates(
    replace(ACME, budgets=(Budget("user", None, rpm=3, tpm=900),)), "ann", None
)


@pytest.mark.parametrize(
    ("workspace", "key", "limits"),
    [
        (None, None, ()),
        (1_000, None, (OF_WORKSPACE,)),
        (None, 400, (OF_KEY,)),
        (1_000, 400, (OF_WORKSPACE, OF_KEY)),
    ],
)
def test_the_limits_of_a_call(workspace: int | None, key: int | None, limits: tuple[TokenLimit, ...]) -> None:
    assert find_token_limits(replace(ACME, tpm=workspace), replace(KEY, tpm=key)) == limits


def test_each_value_of_a_budget_has_a_limit_of_each_rate() -> None:
    budgets = (Budget("user", 5, rpm=3), Budget("tag:team", None, tpm=900), Budget("tag:app", 5))
    workspace = replace(ACME, budgets=budgets)
    tags = '{"team":"a/b","app":"x"}'
    requests, tokens = find_budget_rates(workspace, "ann", tags)
    assert (requests.owner, requests.unit, requests.per_minute, requests.value) == (
        *("budget", "requests", 3, "ann"),
    )
    assert (tokens.unit, tokens.per_minute, tokens.value) == ("tokens", 900, "a/b")
    assert [one.scope.partition("=")[0] for one in (requests, tokens)] == [
        *("budget:acme/user/rpm/", "budget:acme/tag:team/tpm/"),
    ]
    assert share_limit(tokens).scope == tokens.shared_scope == "budget:acme/tag:team/tpm/(other)"
    assert find_budget_rates(workspace, None, '{"app":"x"}') == ()


def test_a_call_takes_one_request_and_its_tokens() -> None:
    asked = TokenRequest(300, (OF_KEY, OF_USER))
    taking = take_tokens(asked, [Bucket(), Bucket()], 10**6)
    assert not isinstance(taking, TokenDenial)
    buckets, taken = taking
    assert [bucket.level for bucket in buckets] == [300 * WINDOW_MS, WINDOW_MS]
    levels = [
        [bucket.level // WINDOW_MS for bucket in settle_tokens(taken, buckets, used, 10**6)]
        for used in (7, 0, None)
    ]
    assert levels == [[7, 1], [0, 1], [0, 0]]
    assert find_excess(asked) is None


@pytest.mark.parametrize(
    ("cap", "choices", "typical", "likely"),
    [
        (1_000, 1, None, 250),
        (1_001, 1, None, 251),
        (1, 1, None, 1),
        (1_000, 3, None, 750),
        (1_000, 1, 40, 40),
        (30, 1, 40, 30),
        (30, 2, 40, 40),
        (None, 1, None, 1_024),
        (None, 2, None, 2_048),
        (None, 2, 40, 40),
    ],
)
def test_the_likely_answer(cap: int | None, choices: int, typical: int | None, likely: int) -> None:
    assert find_likely_tokens(cap, choices, typical) == likely


@pytest.mark.parametrize(
    ("prompt", "completion", "total", "used"),
    [
        (None, None, None, 0),
        (10, 5, 15, 15),
        (10, 5, 40, 40),  # Reasoning is in the total alone.
        (10, 5, 12, 15),
        (None, None, 12, 12),
        (10, None, None, 10),
    ],
)
def test_the_tokens_of_a_row(
    prompt: int | None, completion: int | None, total: int | None, used: int
) -> None:
    row = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    assert count_used_tokens(row) == used


def test_all_buckets_are_taken_from_and_settled_or_none() -> None:
    asked = TokenRequest(300, (OF_WORKSPACE, OF_KEY))
    taking = take_tokens(asked, [Bucket(), Bucket()], 10**6)
    assert not isinstance(taking, TokenDenial)
    buckets, taken = taking
    assert [bucket.level for bucket in buckets] == [300 * WINDOW_MS] * 2
    assert take_tokens(asked, buckets, 10**6) == TokenDenial(OF_KEY, 300, 30_000)
    assert [bucket.level for bucket in settle_tokens(taken, buckets, 7, 10**6)] == [7 * WINDOW_MS] * 2


def test_the_limit_that_has_room_last_is_named() -> None:
    full = Bucket(1_000 * WINDOW_MS, 0, 10**6)
    denied = take_tokens(TokenRequest(400, (OF_WORKSPACE, OF_KEY)), [full, Bucket()], 10**6)
    assert denied == TokenDenial(OF_WORKSPACE, 400, 24_000)


def test_more_than_a_whole_limit_is_found_without_a_bucket() -> None:
    assert find_excess(TokenRequest(400, (OF_WORKSPACE, OF_KEY))) is None
    assert find_excess(TokenRequest(401, (OF_WORKSPACE, OF_KEY))) == TokenDenial(OF_KEY, 401, None)
    excess = TokenRequest(1_001, (OF_WORKSPACE, OF_KEY))
    assert find_excess(excess) == TokenDenial(OF_WORKSPACE, 1_001, None)
    assert take_tokens(excess, [Bucket(), Bucket()], 10**6) == TokenDenial(OF_WORKSPACE, 1_001, None)


@pytest.mark.parametrize(
    ("denial", "message", "retry_after_s", "should_retry"),
    [
        (
            TokenDenial(OF_WORKSPACE, 300, 1_001),
            "The workspace's limit of 1000 tokens a minute is reached; this request may need 300.",
            2,
            None,
        ),
        (
            TokenDenial(OF_KEY, 401, None),
            "The request may need 401 tokens, more than the API key's limit of 400 tokens a minute;"
            " shorten the prompt, or lower the completion cap.",
            None,
            False,
        ),
        (
            TokenDenial(OF_USER, 300, 20_000),
            'The limit of 3 requests a minute of user "ann" is reached.',
            20,
            None,
        ),
        (
            TokenDenial(share_limit(TOKENS_OF_USER), 300, 1),
            'The limit of 900 tokens a minute of user "(other)" is reached; this request may need 300.',
            1,
            None,
        ),
        (
            TokenDenial(TOKENS_OF_USER, 901, None),
            'The request may need 901 tokens, more than the limit of 900 tokens a minute of user "ann";'
            " shorten the prompt, or lower the completion cap.",
            None,
            False,
        ),
    ],
)
def test_a_refusal_says_tokens_and_when_to_try_again(
    denial: TokenDenial, message: str, retry_after_s: int | None, should_retry: bool | None
) -> None:
    refusal = make_token_refusal(denial)
    assert (refusal.code, refusal.message) == ("rate_limit_exceeded", message)
    assert (refusal.owner, refusal.unit) == (denial.limit.owner, denial.limit.unit)
    assert (refusal.retry_after_s, refusal.should_retry) == (retry_after_s, should_retry)

"""Tokens a minute of workspaces and keys, and tokens and requests a minute of the values of budgets. Pure.

What a call takes of them, and how it is refused. The rule of one bucket is in ``policies.token_rate``; one of requests
has a token for each call. Source: docs/limits.md, "Tokens per minute" and "Rates of users and tags".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2s
from typing import Any, Final, Literal

from msgspec import Struct, structs

from policies.budgets import OTHER, describe_value, find_value, parse_scope, rate_scopes
from policies.limits import key_scope, workspace_scope
from policies.model import Budget, Key, Workspace
from policies.refusal import Refusal
from policies.token_rate import Bucket, Take, drain, find_wait_ms, settle, take

LIKELY_SHARE: Final = 4
"""An answer likely has a quarter of its cap, while nothing is known of its model's answers."""
LIKELY_WITHOUT_CAP_TOKENS: Final = 1_024
"""The same where nothing bounds the answer, as of a model outside the catalog."""
LEAST_ANSWERS: Final = 5
"""With fewer answers of a model, it is not known how long they usually are."""

LimitOwner = Literal["workspace", "key", "budget"]
Unit = Literal["tokens", "requests"]


class TokenLimit(Struct, frozen=True, gc=False):
    """The most tokens a minute of a workspace or key, or tokens or requests of one value of a budget.

    ``scope`` names its bucket in a store. ``value`` is that of a budget as people read it, and ``shared_scope`` the
    bucket that it shares if there are too many values; None if it shares that one already, and for other owners.
    """

    owner: LimitOwner
    scope: str
    per_minute: int
    unit: Unit = "tokens"
    value: str = ""
    shared_scope: str | None = None


class TokenRequest(Struct, frozen=True):
    """What a call asks of its buckets: as many ``tokens`` of each, but one of each that counts requests."""

    tokens: int
    limits: tuple[TokenLimit, ...]

    def amount_of(self, limit: TokenLimit) -> int:
        """Return what the call asks of one limit, in its unit."""
        return 1 if limit.unit == "requests" else self.tokens


class TokensTaken(Struct, frozen=True):
    """What a call has taken: the ``takes`` of its ``limits``, in their order."""

    limits: tuple[TokenLimit, ...]
    takes: tuple[Take, ...]


class TokenDenial(Struct, frozen=True):
    """A limit without room for ``tokens``. There is room in ``wait_ms``; None: never, they are more than the limit."""

    limit: TokenLimit
    tokens: int
    wait_ms: int | None


class TokenRefusal(Refusal):
    """The refusal of a call for the limit of ``owner`` on ``unit`` a minute."""

    def __init__(
        self,
        limit: TokenLimit,
        message: str,
        *,
        retry_after_s: int | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(
            "rate_limit_exceeded", message, retry_after_s=retry_after_s, should_retry=should_retry
        )
        self.owner: LimitOwner = limit.owner
        self.unit: Unit = limit.unit


def find_token_limits(workspace: Workspace, key: Key) -> tuple[TokenLimit, ...]:
    """Return the limits of a call, in the order of the checks."""
    if workspace.tpm is None and key.tpm is None:
        return ()
    return _make_limits(workspace.id, workspace.tpm, key.id, key.tpm)


@lru_cache(maxsize=4096)
def _make_limits(
    workspace: str, workspace_tpm: int | None, key: str, key_tpm: int | None
) -> tuple[TokenLimit, ...]:
    """As ``find_token_limits``. Changed settings give other arguments, so no entry is ever stale."""
    limits = []
    if workspace_tpm is not None:
        limits.append(TokenLimit("workspace", workspace_scope(workspace), workspace_tpm))
    if key_tpm is not None:
        limits.append(TokenLimit("key", key_scope(workspace, key), key_tpm))
    return tuple(limits)


def find_budget_rates(workspace: Workspace, end_user: str | None, tags: str | None) -> tuple[TokenLimit, ...]:
    """Return the limits of a call's values, given its columns, whoever pays for it."""
    return tuple(
        limit
        for one in workspace.budgets
        if (one.rpm is not None or one.tpm is not None)
        and (value := find_value(one, end_user, tags)) is not None
        for limit in _make_budget_rates(workspace.id, one, value)
    )


def _make_budget_rates(workspace: str, budget: Budget, value: str) -> Iterator[TokenLimit]:
    # The name of a bucket is short, and no text of a client stays in a store.
    digest = blake2s(value.encode(), digest_size=16).hexdigest()
    if budget.rpm is not None:
        scope, shared = rate_scopes(workspace, budget, "rpm", digest)
        yield TokenLimit("budget", scope, budget.rpm, "requests", value, shared)
    if budget.tpm is not None:
        scope, shared = rate_scopes(workspace, budget, "tpm", digest)
        yield TokenLimit("budget", scope, budget.tpm, "tokens", value, shared)


def share_limit(limit: TokenLimit) -> TokenLimit:
    """Return the limit that a value shares with all others for which a budget has no bucket left."""
    return structs.replace(limit, scope=limit.shared_scope, value=OTHER, shared_scope=None)


def find_likely_tokens(cap_tokens: int | None, choices: int, typical_tokens: int | None = None) -> int:
    """Return how many tokens the answer of a call likely has, in all ``choices`` together.

    ``cap_tokens`` is the cap of a choice, None where nothing bounds it. ``typical_tokens`` is the median of earlier
    answers of the model, None while it is not known.
    """
    if cap_tokens is None:
        return LIKELY_WITHOUT_CAP_TOKENS * choices if typical_tokens is None else typical_tokens
    most_tokens = cap_tokens * choices
    return -(-most_tokens // LIKELY_SHARE) if typical_tokens is None else min(most_tokens, typical_tokens)


def count_used_tokens(row: Mapping[str, Any]) -> int:
    """Return the tokens of a call by its ledger row."""
    return count_tokens(row["prompt_tokens"], row["completion_tokens"], row["total_tokens"])


def count_tokens(prompt_tokens: int | None, completion_tokens: int | None, total_tokens: int | None) -> int:
    """Return the tokens of a call by its counts. Some providers count reasoning in the total alone."""
    return max((prompt_tokens or 0) + (completion_tokens or 0), total_tokens or 0)


def find_excess(asked: TokenRequest) -> TokenDenial | None:
    """Return the denial of the first limit that is less than a call asks for, so that waiting is of no use."""
    for limit in asked.limits:
        if asked.amount_of(limit) > limit.per_minute:
            return TokenDenial(limit, asked.tokens, None)
    return None


def take_tokens(
    asked: TokenRequest, buckets: Sequence[Bucket], now_ms: int
) -> tuple[list[Bucket], TokensTaken] | TokenDenial:
    """Take of all buckets, or of none: then the denial is of the limit that has room last.

    ``buckets`` are those of the limits, in their order. Return all of them as they are then.
    """
    if denied := find_excess(asked):
        return denied
    pairs = [
        (limit, drain(bucket, limit.per_minute, now_ms))
        for limit, bucket in zip(asked.limits, buckets, strict=True)
    ]
    waits = [find_wait_ms(one, limit.per_minute, asked.amount_of(limit)) for limit, one in pairs]
    if longest_ms := max(waits):
        return TokenDenial(asked.limits[waits.index(longest_ms)], asked.tokens, longest_ms)
    after, takes = zip(*(take(one, asked.amount_of(limit)) for limit, one in pairs), strict=True)
    return list(after), TokensTaken(asked.limits, takes)


def find_used(limit: TokenLimit, used_tokens: int | None) -> int:
    """Return what a call used of one limit, in its unit. ``used_tokens`` is None for a call that was not sent."""
    if used_tokens is None:
        return 0
    return 1 if limit.unit == "requests" else used_tokens


def settle_tokens(
    taken: TokensTaken, buckets: Sequence[Bucket], used_tokens: int | None, now_ms: int
) -> list[Bucket]:
    """Return all buckets of a call with what it used instead of what it took. ``used_tokens`` as in ``find_used``."""
    return [
        settle(drain(bucket, limit.per_minute, now_ms), limit.per_minute, one, find_used(limit, used_tokens))
        for limit, one, bucket in zip(taken.limits, taken.takes, buckets, strict=True)
    ]


def make_token_refusal(denial: TokenDenial) -> TokenRefusal:
    """Return the refusal of a call that asked for more than a limit has room for."""
    limit, described = denial.limit, describe_limit(denial.limit)
    if denial.wait_ms is None:
        message = (
            f"The request may need {denial.tokens} tokens, more than the {described};"
            " shorten the prompt, or lower the completion cap."
        )
        return TokenRefusal(limit, message, should_retry=False)
    needed = f"; this request may need {denial.tokens}" if limit.unit == "tokens" else ""
    message = f"The {described} is reached{needed}."
    return TokenRefusal(limit, message, retry_after_s=math.ceil(denial.wait_ms / 1000))


def describe_limit(limit: TokenLimit) -> str:
    """Return a limit in words, without an article: ``limit of 10 requests a minute of user "ann"``."""
    words = f"limit of {limit.per_minute} {limit.unit} a minute"
    match limit.owner:
        case "workspace":
            return f"workspace's {words}"
        case "key":
            return f"API key's {words}"
        case "budget":
            return f"{words} of {describe_value(parse_scope(limit.scope).budget, limit.value)}"

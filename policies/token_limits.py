"""Tokens a minute of a workspace and of a key: what a call takes of them, and how it is refused. Pure.

The rule of one bucket is in ``policies.token_rate``. Source: docs/limits.md, "Tokens per minute".
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from policies.limits import key_scope, workspace_scope
from policies.model import Key, Workspace
from policies.refusal import Refusal
from policies.token_rate import Bucket, Take, drain, find_wait_ms, settle, take

LIKELY_SHARE: Final = 4
"""An answer likely has a quarter of its cap, while nothing is known of its model's answers."""
LIKELY_WITHOUT_CAP_TOKENS: Final = 1_024
"""The same where nothing bounds the answer, as of a model outside the catalog."""

LimitOwner = Literal["workspace", "key"]


class TokenLimit(Struct, frozen=True, gc=False):
    """The most tokens a minute of a workspace or key. ``scope`` names its bucket in a store."""

    owner: LimitOwner
    scope: str
    tpm: int


class TokenRequest(Struct, frozen=True):
    """What a call asks of its buckets: as many ``tokens`` of each."""

    tokens: int
    limits: tuple[TokenLimit, ...]


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
    """The refusal of a call for the limit of ``owner``."""

    def __init__(
        self,
        owner: LimitOwner,
        message: str,
        *,
        retry_after_s: int | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(
            "rate_limit_exceeded", message, retry_after_s=retry_after_s, should_retry=should_retry
        )
        self.owner: LimitOwner = owner


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
        if asked.tokens > limit.tpm:
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
    pairs = list(zip(asked.limits, buckets, strict=True))
    drained = [drain(bucket, limit.tpm, now_ms) for limit, bucket in pairs]
    waits = [
        find_wait_ms(one, limit.tpm, asked.tokens) for limit, one in zip(asked.limits, drained, strict=True)
    ]
    if longest_ms := max(waits):
        return TokenDenial(asked.limits[waits.index(longest_ms)], asked.tokens, longest_ms)
    after, takes = zip(*(take(one, asked.tokens) for one in drained), strict=True)
    return list(after), TokensTaken(asked.limits, takes)


def settle_tokens(
    taken: TokensTaken, buckets: Sequence[Bucket], used_tokens: int, now_ms: int
) -> list[Bucket]:
    """Return all buckets of a call with what it used instead of what it took."""
    return [
        settle(drain(bucket, limit.tpm, now_ms), limit.tpm, one, used_tokens)
        for limit, one, bucket in zip(taken.limits, taken.takes, buckets, strict=True)
    ]


def make_token_refusal(denial: TokenDenial) -> TokenRefusal:
    """Return the refusal of a call that asked for more tokens than a limit has room for."""
    owner = "workspace" if denial.limit.owner == "workspace" else "API key"
    limit = f"{owner}'s limit of {denial.limit.tpm} tokens a minute"
    if denial.wait_ms is None:
        message = (
            f"The request may need {denial.tokens} tokens, more than the {limit};"
            " shorten the prompt, or lower the completion cap."
        )
        return TokenRefusal(denial.limit.owner, message, should_retry=False)
    message = f"The {limit} is reached; this request may need {denial.tokens}."
    return TokenRefusal(denial.limit.owner, message, retry_after_s=math.ceil(denial.wait_ms / 1000))

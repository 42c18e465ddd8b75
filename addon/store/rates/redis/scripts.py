"""The Lua scripts of ``lua/``, each with the digest that Redis knows it by."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from addon.store.rates.redis.keys import tokens_of, values_of
from policies.budgets import MAX_VALUES
from policies.token_bucket import GROUPS, WINDOW_US, slice_us
from policies.token_limits import TokenLimit, TokenRequest, TokensTaken, find_used, share_limit
from policies.token_rate import KEPT_EMPTY_MS, MAX_WINDOWS, WINDOW_MS, Take


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its SHA-1."""

    text: str
    sha: str


def _load(*names: str) -> Script:
    folder = Path(__file__).parent / "lua"
    text = "".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324  (Redis names scripts by SHA-1)


TAKE_TOKEN = _load("take_token")
TAKE_TOKENS = _load("token_bucket", "take_tokens")
SETTLE_TOKENS = _load("token_bucket", "settle_tokens")
READ_CIRCUITS = _load("read_circuits")
SWAP_CIRCUIT = _load("swap_circuit")
CLAIM = _load("claim")


def bucket_arguments(limit_rpm: int) -> tuple[int, ...]:
    """Return the arguments of ``take_token.lua``: the limit and the constants of the rule."""
    return limit_rpm, WINDOW_US, slice_us(limit_rpm), GROUPS + 1


def bucket_keys(workspace: str, limits: Sequence[TokenLimit]) -> list[str]:
    """Return the keys of the buckets of limits. A value of a budget also has that of the bucket and of its index."""
    keys = []
    for one in limits:
        keys.append(tokens_of(workspace, one.scope))
        if one.shared_scope is not None:
            keys += [tokens_of(workspace, one.shared_scope), values_of(workspace, one.shared_scope)]
    return keys


def taking_arguments(asked: TokenRequest) -> tuple[int, ...]:
    """Return the arguments of ``take_tokens.lua``: the constants of the rule, then each limit and what it takes."""
    numbers = [
        number for one in asked.limits for number in (one.per_minute, _is_value(one), asked.amount_of(one))
    ]
    return *_constants(), *numbers


def read_taken(asked: TokenRequest, numbers: Sequence[int]) -> TokensTaken:
    """Return what was taken by the answer of ``take_tokens.lua``: its time, then of each bucket if it is shared."""
    now_ms, *each = numbers
    limits, takes = [], []
    for limit, is_shared, end in zip(asked.limits, each[::2], each[1::2], strict=True):
        limits.append(share_limit(limit) if is_shared else limit)
        takes.append(Take(asked.amount_of(limit), int(end), now_ms))
    return TokensTaken(tuple(limits), tuple(takes))


def settling_arguments(taken: TokensTaken, used_tokens: int | None) -> tuple[int, ...]:
    """Return the arguments of ``settle_tokens.lua``: the constants, then each limit with its take and its use."""
    each = zip(taken.limits, taken.takes, strict=True)
    numbers = [
        number
        for limit, one in each
        for number in (
            *(limit.per_minute, _is_value(limit), find_used(limit, used_tokens)),
            *(one.tokens, one.end, one.at_ms),
        )
    ]
    return *_constants(), *numbers


def _constants() -> tuple[int, ...]:
    return WINDOW_MS, KEPT_EMPTY_MS, MAX_WINDOWS, MAX_VALUES


def _is_value(limit: TokenLimit) -> int:
    return int(limit.shared_scope is not None)

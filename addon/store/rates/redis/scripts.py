"""The Lua scripts of ``lua/``, each with the digest that Redis knows it by."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from policies.token_bucket import GROUPS, WINDOW_US, slice_us
from policies.token_limits import TokenRequest, TokensTaken
from policies.token_rate import MAX_WINDOWS, WINDOW_MS


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


def taking_arguments(asked: TokenRequest) -> tuple[int, ...]:
    """Return the arguments of ``take_tokens.lua``: the constant of the rule, the tokens, and each limit."""
    return WINDOW_MS, asked.tokens, *(limit.tpm for limit in asked.limits)


def settling_arguments(taken: TokensTaken, used_tokens: int) -> tuple[int, ...]:
    """Return the arguments of ``settle_tokens.lua``: the constants, the tokens used, and each limit with its take."""
    each = zip(taken.limits, taken.takes, strict=True)
    numbers = [number for limit, one in each for number in (limit.tpm, one.tokens, one.end, one.at_ms)]
    return WINDOW_MS, MAX_WINDOWS, used_tokens, *numbers

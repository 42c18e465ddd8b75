"""The calls whose invoice is compared with the records: across bounds, into and out of caches, slower, sent again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.money.price_list import CLAUDE, GPT

type Body = dict[str, Any]

_FIVE_MINUTES: Final = {"type": "ephemeral"}
_HOUR: Final = {"type": "ephemeral", "ttl": "1h"}
_OUTPUT_TOKENS: Final = 700


@dataclass(frozen=True, slots=True)
class Case:
    """A call that is made ``repeats`` times. Each case has a text of its own, so nothing is cached before."""

    name: str
    body: Callable[[str], Body]
    repeats: int = 1


def words(count: int, salt: str) -> str:
    """Return a text of so many words that begins with ``salt``."""
    return " ".join([salt, *["word"] * (count - 1)])


def _gpt(system: int, user: int = 10, /, tag: str = "", **fields: Any) -> Callable[[str], Body]:
    """Return how to make a call of ``system`` + ``user`` tokens."""

    def make(salt: str) -> Body:
        ending = f"[tokens {_OUTPUT_TOKENS}] {tag}".strip()
        text = f"{words(user - len(ending.split()), 'Go')} {ending}"
        messages = [
            {"role": "system", "content": words(system, salt)},
            {"role": "user", "content": text},
        ]
        return {"model": GPT, "messages": messages, "max_completion_tokens": 1_000, **fields}

    return make


def _claude(*system: tuple[int, Body | None], tag: str = "", **fields: Any) -> Callable[[str], Body]:
    """Return how to make a call with system parts of so many tokens, each with its mark for the cache, and 10 more."""

    def make(salt: str) -> Body:
        ending = f"[tokens {_OUTPUT_TOKENS}] {tag}".strip()
        parts = [
            {"type": "text", "text": words(count, salt), **({"cache_control": mark} if mark else {})}
            for count, mark in system
        ]
        text = f"{words(10 - len(ending.split()), 'Go')} {ending}"
        messages = [{"role": "system", "content": parts}, {"role": "user", "content": text}]
        return {"model": CLAUDE, "messages": messages, "max_tokens": 1_000, **fields}

    return make


_STREAMED: Final[dict[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}

CASES: Final = (
    Case(f"{GPT}, 1,000 tokens in", _gpt(990)),
    Case(f"{GPT}, 272,000 in: the last of the first tier", _gpt(271_990)),
    Case(f"{GPT}, 272,001 in: the first of the second", _gpt(271_991)),
    Case(f"{GPT}, 300,000 in, streamed", _gpt(299_990, **_STREAMED)),
    Case(f"{GPT}, 250,000 in, then from the cache", _gpt(249_990), repeats=2),
    Case(f"{GPT}, 300,000 in, then from the cache, streamed", _gpt(299_990, **_STREAMED), repeats=2),
    Case(f"{GPT}, flex", _gpt(20_000, service_tier="flex")),
    Case(f"{GPT}, flex, 300,000 in, then from the cache", _gpt(299_990, service_tier="flex"), repeats=2),
    Case(f"{GPT}, flex, from the cache, streamed", _gpt(20_000, service_tier="flex", **_STREAMED), repeats=2),
    Case(f"{CLAUDE}, 100,000 in: the last of the first tier", _claude((99_990, None))),
    Case(f"{CLAUDE}, 100,001 in: the first of the second", _claude((99_991, None))),
    Case(f"{CLAUDE}, written for 5 minutes, then read", _claude((20_000, _FIVE_MINUTES)), repeats=2),
    Case(f"{CLAUDE}, written for an hour, then read", _claude((20_000, _HOUR)), repeats=2),
    Case(
        f"{CLAUDE}, both terms, streamed, then read",
        _claude((20_000, _HOUR), (10_000, _FIVE_MINUTES), **_STREAMED),
        repeats=2,
    ),
    Case(
        f"{CLAUDE}, both terms, 150,000 in, then read",
        _claude((100_000, _HOUR), (49_990, _FIVE_MINUTES)),
        repeats=2,
    ),
    Case(f"{GPT}, a stale connection: sent again", _gpt(990, tag="[stale]")),
    Case(f"{CLAUDE}, a stale connection: sent again", _claude((990, None), tag="[stale]")),
    Case(f"{GPT}, the answer is lost after the work", _gpt(990, tag="[lost]")),
)

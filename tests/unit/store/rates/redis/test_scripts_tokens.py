"""The scripts of tokens a minute decide and store exactly what the policy does."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.redis_server import NO_RETRY, RedisServer
from rig.redis_takes import move_buckets, read_buckets
from rig.stores import WORKSPACE

from addon.store.rates.redis.scripts import (
    SETTLE_TOKENS,
    TAKE_TOKENS,
    Script,
    bucket_keys,
    read_taken,
    settling_arguments,
    taking_arguments,
)
from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    TokensTaken,
    settle_tokens,
    take_tokens,
)
from policies.token_rate import MAX_TPM, Bucket, Take, drain

LIMITS = [
    (TokenLimit("workspace", "workspace:acme", 1_000), TokenLimit("key", "key:acme/ci", 700)),
    (TokenLimit("workspace", "workspace:acme", MAX_TPM), TokenLimit("key", "key:acme/ci", 7)),
    (
        TokenLimit("key", "key:acme/ci", 700),
        *(
            TokenLimit(
                "budget", f"budget:acme/user/{name}/=0", most, unit, "ann", f"budget:acme/user/{name}/(other)"
            )
            for name, most, unit in (("rpm", 3, "requests"), ("tpm", 900, "tokens"))
        ),
    ),
]


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, decode_responses=True, retry=NO_RETRY) as made:
        yield made


class Compared:
    """Some buckets in Redis, and the same as the policy has them."""

    def __init__(self, client: redis.Redis, limits: tuple[TokenLimit, ...]) -> None:
        self.client, self.limits = client, limits
        self.keys = bucket_keys(WORKSPACE, limits)
        self.taken: list[TokensTaken] = []
        client.delete(*self.keys)

    def stored(self) -> list[Bucket]:
        found = read_buckets(self.client)
        return [found.get(limit.scope, Bucket()) for limit in self.limits]

    def take(self, tokens: int) -> None:
        asked, before = TokenRequest(tokens, self.limits), self.stored()
        outcome, *numbers = self._run(TAKE_TOKENS, taking_arguments(asked))
        if outcome == "none":
            place, _, wait_ms = numbers
            expected = take_tokens(asked, before, self._now_ms())
            # A little time has passed since the script ran.
            assert isinstance(expected, TokenDenial)
            assert (expected.limit, expected.tokens) == (self.limits[place - 1], tokens)
            assert expected.wait_ms is not None
            assert 0 <= wait_ms - expected.wait_ms < 5_000
            return
        done = read_taken(asked, numbers)
        expected = take_tokens(asked, before, numbers[0])
        assert not isinstance(expected, TokenDenial)
        buckets, taken = expected
        assert (said(buckets), taken) == (said(self.stored()), done)
        self.taken.append(done)

    def settle(self, which: int, used: int | None) -> None:
        if self.taken:
            taken, before = self.taken.pop(which % len(self.taken)), self.stored()
            self._run(SETTLE_TOKENS, settling_arguments(taken, used))
            after = self.stored()
            now_ms = max(one.at_ms for one in after) or self._now_ms()
            assert said(settle_tokens(taken, before, used, now_ms)) == said(after)

    def _now_ms(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def _run(self, script: Script, arguments: Sequence[int]) -> Any:
        return self.client.eval(script.text, len(self.keys), *self.keys, *arguments)

    def wait(self, pause_ms: int) -> None:
        move_buckets(self.client, -pause_ms)
        # The takes move with the buckets, as if all of it had happened earlier.
        self.taken = [
            TokensTaken(one.limits, tuple(Take(t.tokens, t.end, t.at_ms - pause_ms) for t in one.takes))
            for one in self.taken
        ]


def said(buckets: Sequence[Bucket]) -> Sequence[Bucket]:
    """Return buckets without those that are as if there were none: these are not stored."""
    return [one if one.level or one.passed else Bucket() for one in buckets]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("take"), st.integers(0, 700), st.just(0)),
        st.tuples(
            st.just("settle"), st.integers(0, 9), st.sampled_from([None, 0, 1, 5, 100, 900, 10**7, 10**12])
        ),
        st.tuples(
            st.just("wait"), st.sampled_from([0, 1, 500, 10_000, 59_000, 61_000, 4_000_000]), st.just(0)
        ),
    ),
    max_size=25,
)


@settings(suppress_health_check=list(HealthCheck), max_examples=60, deadline=None)
@given(limits=st.sampled_from(LIMITS), steps=steps)
def test_the_scripts_and_the_policy_agree(
    client: redis.Redis, limits: tuple[TokenLimit, ...], steps: Sequence[tuple[str, int, int | None]]
) -> None:
    compared = Compared(client, limits)
    for step, number, used in steps:
        if step == "take" and number <= min(limit.per_minute for limit in limits if limit.unit == "tokens"):
            compared.take(number)
        elif step == "settle":
            compared.settle(number, used)
        elif step == "wait":
            compared.wait(number)


def test_a_bucket_is_forgotten_only_after_it_was_empty_for_a_minute(client: redis.Redis) -> None:
    compared = Compared(client, LIMITS[0])
    compared.take(700)
    [of_workspace, of_key] = [client.pttl(key) for key in compared.keys]
    assert 102_000 < of_workspace <= 103_000
    assert 120_000 < of_key <= 121_000
    assert [
        drain(one, limit.per_minute, one.at_ms + 60_000).level
        for one, limit in zip(compared.stored(), LIMITS[0], strict=True)
    ] == [0, 0]

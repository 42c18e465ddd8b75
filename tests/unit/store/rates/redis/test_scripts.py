"""The script of tokens gives them back as the policy says."""

import time
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.redis_server import NO_RETRY, RedisServer
from rig.redis_takes import move_takes
from rig.stores import WORKSPACE

from addon.store.rates.redis.keys import takes_of
from addon.store.rates.redis.scripts import TAKE_TOKEN, bucket_arguments
from policies.token_bucket import WINDOW_US, slice_us


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, decode_responses=True, retry=NO_RETRY) as made:
        yield made


@settings(suppress_health_check=list(HealthCheck))
@given(
    limit_rpm=st.sampled_from([1, 3, 400, 401, 2_000]),
    pauses_us=st.lists(st.sampled_from([0, 1_000, 149_000, 151_000, 20_000_000, 61_000_000]), max_size=60),
)
def test_tokens_come_back_a_minute_later_never_earlier_and_at_most_a_slice_late(
    client: redis.Redis, limit_rpm: int, pauses_us: list[int]
) -> None:
    """Compare with the policy. Takes are moved back in time, so that the script's clock stays untouched."""
    client.delete(takes_of(WORKSPACE))
    taken_at: list[float] = []
    taken_between: list[tuple[float, float]] = []
    passed_us, began_s = 0, time.monotonic()
    for pause_us in pauses_us:
        move_takes(client, WORKSPACE, -pause_us)
        passed_us += pause_us
        before = passed_us + (time.monotonic() - began_s) * 1e6
        answer = client.eval(TAKE_TOKEN.text, 1, takes_of(WORKSPACE), *bucket_arguments(limit_rpm))
        after = passed_us + (time.monotonic() - began_s) * 1e6
        slack_us = slice_us(limit_rpm) + 1
        surely_out = sum(at > after - WINDOW_US for at in taken_at)
        maybe_out = sum(at > before - WINDOW_US - slack_us for at in taken_at)
        if answer == ["taken"]:
            assert surely_out < limit_rpm, "more than the limit in a minute"
            taken_at.append(before)
            taken_between.append((before, after))
        else:
            assert maybe_out >= limit_rpm, "refused although there is a token"
            took_from, took_to = taken_between[-limit_rpm]
            soonest, latest = took_from + WINDOW_US - after, took_to + WINDOW_US + slack_us - before
            assert soonest - 1 <= int(answer[1]) <= latest + 1

"""The Lua scripts: they decide like the policies, to the nano-dollar, and use only the keys of one workspace."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from redis.crc import key_slot
from rig.bounds import BOUND_S
from rig.redis_server import NO_RETRY, RedisServer
from rig.server_process import free_port
from rig.stores import WORKSPACE, StoreLocation, credit, settlement, takes
from rig.stores import request as held_call

from addon.store.protocol import Store, StoreUnavailable
from addon.store.redis.holds import LARGEST_EXACT, make_exact, max_cost_arguments
from addon.store.redis.keys import keys_of
from addon.store.redis.rebuild import rebuild_state
from addon.store.redis.scripts import HOLD, TAKE_TOKEN
from policies.limits import Counter, Limit, LimitKind
from policies.spend import CounterUse, Denial, Hold, MaxCost, place_hold
from policies.token_bucket import GROUPS, WINDOW_US, slice_us

MOST = 9 * 10**15
"""The largest limit."""

COUNTERS: Mapping[LimitKind, Counter] = {
    "request_cap": Counter("key:acme/ci", "2026-11-21"),
    "spend_cap": Counter("key:acme/ci", "2026-11"),
    "wallet": Counter("wallet:acme", "ever"),
    "monthly_spend_cap": Counter("workspace:acme", "2026-11"),
}


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """Redis with the state of one workspace."""
    with redis.Redis.from_url(redis_server.url, decode_responses=True, retry=NO_RETRY) as made:
        made.set(keys_of(WORKSPACE).state, "state")
        yield made


def hold_in_redis(
    client: redis.Redis, max_cost: MaxCost, limits: Sequence[Limit], used: Sequence[CounterUse]
) -> Any:
    """Return the decision of ``hold.lua`` with these counters, and undo it."""
    keys = keys_of(WORKSPACE)
    names = [keys.state, keys.holds, keys.ended_call("a"), keys.counter(Counter("key:acme/ci", "ever"))]
    asked: list[str | int] = []
    for limit, of in zip(limits, used, strict=True):
        name = keys.counter(limit.counter)
        fields = {
            "spent": of.spent_nanousd,
            "requests": of.requests,
            "held": of.held_nanousd,
            "in_flight": of.in_flight,
        }
        client.hset(name, mapping=fields)
        names.append(name)
        asked += (limit.kind, len(names), limit.maximum)
    max_cost = make_exact(max_cost, limits)
    arguments = ("state", "a", "owner", 2**60, "{}", *max_cost_arguments(max_cost), 0, 1, 0, *asked)
    try:
        found = client.eval(HOLD.text, len(names), *names, *arguments)
        held = client.hmget(names[3], "held", "in_flight")
        assert held == ([found[1], "1"] if found[0] == "held" else [None, None])
        if found[0] == "held":
            return Hold(*map(int, found[1:]))
        reason, number, *in_flight = found[1:]
        return Denial(reason, limits[int(number) - 1], *map(int, in_flight))
    finally:
        client.delete(*names[1:])


amounts = st.one_of(st.integers(0, MOST), st.integers(0, 100_000), st.integers(MOST - 1_000, MOST))
MAX_COSTS = st.builds(
    MaxCost,
    prompt_nanousd=st.one_of(st.integers(0, 10**6), st.integers(0, 10**15)),
    token_picousd=st.one_of(st.integers(0, 10**7), st.integers(0, LARGEST_EXACT // 10 - 1)),
    cap_tokens=st.one_of(st.integers(1, 1_000), st.integers(1, 10**12)),
    is_protected=st.booleans(),
    names_cap=st.booleans(),
)
USED = st.builds(CounterUse, amounts, st.integers(0, 10), amounts, st.integers(0, 3))


@st.composite
def limited(draw: st.DrawFn) -> list[tuple[Limit, CounterUse]]:
    chosen = []
    for kind in draw(st.lists(st.sampled_from(list(COUNTERS)), unique=True)):
        of, most = draw(USED), draw(st.integers(0, 12) if kind == "request_cap" else amounts)
        if kind == "wallet":
            of, most = CounterUse(-draw(amounts) + draw(st.integers(0, 9)), 0, of.held_nanousd, 0), 0
        chosen.append((Limit(kind, COUNTERS[kind], most), of))
    return chosen


def can_be_counted(max_cost: MaxCost, limits: Sequence[Limit]) -> bool:
    try:
        make_exact(max_cost, limits)
    except StoreUnavailable:
        return False
    return True


@settings(suppress_health_check=list(HealthCheck))
@given(max_cost=MAX_COSTS, limits=limited())
@example(
    max_cost=MaxCost(0, 3, 10**12, True),
    limits=[(Limit("spend_cap", COUNTERS["spend_cap"], MOST), CounterUse())],
)
@example(
    max_cost=MaxCost(1, LARGEST_EXACT // 10 - 1, 9, True),
    limits=[(Limit("spend_cap", COUNTERS["spend_cap"], MOST), CounterUse(0, 0, 1, 1))],
)
@example(
    max_cost=MaxCost(999, 999, 10**6, True),
    limits=[(Limit("wallet", COUNTERS["wallet"], 0), CounterUse(-(2**53), 0, 1))],
)
def test_a_hold_is_decided_in_redis_as_the_policy_decides_it(
    client: redis.Redis, max_cost: MaxCost, limits: list[tuple[Limit, CounterUse]]
) -> None:
    alone = [limit for limit, _ in limits]
    assume(can_be_counted(max_cost, alone))
    expected = place_hold(max_cost, alone, {limit.counter: used for limit, used in limits})
    assert hold_in_redis(client, max_cost, alone, [used for _, used in limits]) == expected


@pytest.mark.parametrize("spent", [2**53 - 1, 2**53 + 1, 10**16 + 1, 2**62 + 1])
def test_a_counter_beyond_the_exact_range_refuses(client: redis.Redis, spent: int) -> None:
    limit = Limit("spend_cap", COUNTERS["spend_cap"], MOST)
    max_cost = MaxCost(1, 1, 1, is_protected=True)
    assert hold_in_redis(client, max_cost, [limit], [CounterUse(spent)]) == Denial("spend_cap", limit)
    denial = hold_in_redis(client, max_cost, [limit], [CounterUse(0, 0, spent, 1)])
    assert (denial.reason, denial.in_flight) == ("budget_of_prompt", 1)


@settings(suppress_health_check=list(HealthCheck))
@given(
    limit_rpm=st.sampled_from([1, 3, 400, 401, 2_000]),
    pauses_us=st.lists(st.sampled_from([0, 1_000, 149_000, 151_000, 20_000_000, 61_000_000]), max_size=60),
)
def test_tokens_come_back_a_minute_later_never_earlier_and_at_most_a_slice_late(
    client: redis.Redis, limit_rpm: int, pauses_us: list[int]
) -> None:
    """Compare with the policy. Takes are moved back in time, so that the script's clock stays untouched."""
    keys = keys_of(WORKSPACE)
    client.delete(keys.takes)
    taken_at: list[float] = []
    taken_between: list[tuple[float, float]] = []
    passed_us, began_s = 0, time.monotonic()
    for pause_us in pauses_us:
        _move(client, keys.takes, -pause_us)
        passed_us += pause_us
        before = passed_us + (time.monotonic() - began_s) * 1e6
        answer = client.eval(
            TAKE_TOKEN.text,
            2,
            keys.state,
            keys.takes,
            "state",
            limit_rpm,
            WINDOW_US,
            slice_us(limit_rpm),
            GROUPS + 1,
        )
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


def _move(client: redis.Redis, takes: str, by_us: int) -> None:
    moved = {}
    for member, at in client.zrange(takes, 0, -1, withscores=True):
        total, count, began = member.split(":")
        moved[f"{total}:{count}:{int(began) + by_us}"] = at + by_us
    if moved:
        client.delete(takes)
        client.zadd(takes, moved)


# Keys.


async def a_bit_of_everything(location: StoreLocation) -> None:
    """Run every script at least once."""
    store: Store = location.open()
    for workspace in ("acme", "bare"):
        await takes(store, workspace, 10)
        await store.credit(credit(f"c-{workspace}", 10**9, workspace))
        await store.hold(held_call(f"a-{workspace}", workspace=workspace))
        await store.hold(held_call(f"b-{workspace}", workspace=workspace))
        await store.move_hold(held_call(f"a-{workspace}", workspace=workspace, attempt=2))
        await store.settle(settlement(f"a-{workspace}", workspace=workspace))
        await store.void(f"b-{workspace}")
    for failed in (True, False):
        await store.record_attempt("OPENAI/payg/acme", failed=failed)
    await store.check()
    await store.maintain()
    await store.close()
    assert await location.discrepancies() == []
    assert location.url is not None
    await rebuild_state(SecretStr(location.url), location.path)
    assert await location.discrepancies() == []


@contextmanager
def monitored(server: RedisServer) -> Iterator[list[list[str]]]:
    """Collect every command that the server runs. Commands of scripts have the prefix "lua"."""
    seen: list[list[str]] = []
    with (
        redis.Redis.from_url(server.url, decode_responses=True, retry=NO_RETRY) as client,
        client.monitor() as monitor,
    ):
        yield seen
        client.echo("that is all")
        for command in monitor.listen():
            if command["command"] == "ECHO that is all":
                break
            seen.append([command["client_type"], *command["command"].split(" ")])


async def test_a_script_uses_only_its_keys_and_they_share_a_slot(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    # From the second time on Redis knows the scripts, and shows their digests instead of their texts.
    await a_bit_of_everything(StoreLocation(tmp_path / "first" / "tollgate.db", redis_server.url))
    redis_server.flush()
    with monitored(redis_server) as seen:
        await a_bit_of_everything(StoreLocation(tmp_path / "second" / "tollgate.db", redis_server.url))
    given_names: set[str] = set()
    scripts, touched = set(), 0
    for kind, *words in seen:
        assert words[0] != "EVAL"
        if words[0] == "EVALSHA":
            given_names = set(words[3 : 3 + int(words[2])])
            scripts.add(words[1])
            assert len({key_slot(name.encode()) for name in given_names}) == 1
        elif kind == "lua" and words[0] != "TIME":
            names = words[1:] if words[0] == "MGET" else words[1:2]
            assert set(names) <= given_names
            touched += 1
    assert len(scripts) >= 8
    assert touched > 50


class ClusterNode(RedisServer):
    """A server in cluster mode with all slots: it refuses every command that would fail with several nodes."""

    def __init__(self, program: Path) -> None:
        super().__init__(program)
        self._options |= {"cluster-enabled": "yes", "cluster-port": str(free_port())}

    def start(self) -> None:
        super().start()
        self.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        give_up_s = time.monotonic() + BOUND_S
        while "cluster_state:ok" not in str(self.command("CLUSTER", "INFO")):
            assert time.monotonic() < give_up_s, "the cluster does not come about"
            time.sleep(0.05)


async def test_everything_works_under_the_rules_of_a_cluster(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with ClusterNode(request.getfixturevalue("_redis_program")) as node:
        await a_bit_of_everything(StoreLocation(tmp_path / "var" / "tollgate.db", node.url))

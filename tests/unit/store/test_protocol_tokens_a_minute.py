"""Tokens a minute, in SQLite and in Redis: taken with the hold, settled with the row, given back without one."""

import asyncio

import pytest
from rig.stores import MAX_COST, OpenStore, StoreLocation, die, request, settlement, wallet

from addon.store.protocol import HoldRequest, NoToken, Store, StoreUnavailable
from policies.spend import Denial, Hold
from policies.token_limits import TokenDenial, TokenLimit, TokenRequest

# Money alone has no tokens.
pytestmark = pytest.mark.parametrize("location", ["sqlite", "redis"], indirect=True)

OF_WORKSPACE = TokenLimit("workspace", "workspace:acme", 1_000)
OF_KEY = TokenLimit("key", "key:acme/ci", 400)


def call(call_id: str, tokens: int, *limits: TokenLimit, of: HoldRequest | None = None) -> HoldRequest:
    asked = TokenRequest(tokens, limits or (OF_WORKSPACE, OF_KEY))
    made = of or request(call_id)
    return HoldRequest(
        call_id, made.created_at, "acme", "ci", MAX_COST, made.limits, made.interrupted_row, asked
    )


def ended(call_id: str, prompt: int, completion: int) -> object:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return settlement(call_id, **counts)


async def takes(store: Store, call_id: str, tokens: int, *limits: TokenLimit) -> bool:
    return isinstance(await store.take_and_hold(call(call_id, tokens, *limits), 0), Hold)


async def test_all_stores_together_let_only_the_limit_through(store: Store, other: Store) -> None:
    taken = await asyncio.gather(
        *(
            takes(one, f"{number}-{place}", 100)
            for place, one in enumerate((store, other))
            for number in range(10)
        )
    )
    assert taken.count(True) == 4


async def test_a_denial_is_of_the_limit_that_has_room_last_and_takes_of_none(
    store: Store, location: StoreLocation
) -> None:
    assert await takes(store, "a", 400)
    denied = await store.take_and_hold(call("b", 100), 0)
    assert isinstance(denied, TokenDenial)
    assert (denied.limit, denied.tokens) == (OF_KEY, 100)
    assert denied.wait_ms is not None
    assert 14_000 < denied.wait_ms <= 15_000
    assert location.levels() == {"workspace:acme": 400, "key:acme/ci": 400}
    assert location.holds() == ["a"]
    location.age_buckets(15_000)
    assert await takes(store, "b", 100)


async def test_a_call_above_a_whole_limit_is_never_let_through(store: Store, location: StoreLocation) -> None:
    assert await store.take_and_hold(call("a", 401), 0) == TokenDenial(OF_KEY, 401, None)
    assert location.levels() == {}


async def test_the_rate_of_requests_comes_first_and_money_last(store: Store, location: StoreLocation) -> None:
    poor = call("b", 100, of=request("b", wallet()))
    assert isinstance(await store.take_and_hold(call("a", 100), 1), Hold)
    assert isinstance(await store.take_and_hold(call("b", 500), 1), NoToken)
    assert isinstance(await store.take_and_hold(call("b", 500), 0), TokenDenial)
    assert isinstance(await store.take_and_hold(poor, 0), Denial)
    assert isinstance(await store.take_and_hold(call("b", 300), 0), Hold)
    assert location.levels()["key:acme/ci"] == pytest.approx(400, abs=2)


@pytest.mark.parametrize(
    ("prompt", "completion", "level"), [(0, 0, 0), (30, 50, 80), (100, 200, 300), (300, 400, 700)]
)
async def test_what_a_call_used_replaces_what_it_took(
    store: Store, location: StoreLocation, prompt: int, completion: int, level: int
) -> None:
    assert await takes(store, "a", 300)
    await store.settle(ended("a", prompt, completion))  # type: ignore[arg-type]
    assert location.levels()["key:acme/ci"] == pytest.approx(level, abs=2)
    await store.settle(ended("a", 400, 400))  # type: ignore[arg-type]
    assert location.levels()["workspace:acme"] == pytest.approx(level, abs=4)


async def test_a_call_that_is_voided_gives_all_back_and_a_second_attempt_takes_nothing(
    store: Store, location: StoreLocation
) -> None:
    assert await takes(store, "a", 300)
    assert isinstance(await store.move_hold(call("a", 300, of=request("a", attempt=2))), Hold)
    assert location.levels()["key:acme/ci"] == pytest.approx(300, abs=2)
    await store.void("a")
    await store.void("a")
    assert location.levels() == {"workspace:acme": 0, "key:acme/ci": 0}


async def test_a_process_that_dies_leaves_what_drains_in_a_minute(
    store: Store, open_store: OpenStore, location: StoreLocation
) -> None:
    dying = await open_store()
    assert await takes(dying, "a", 400)
    await die(dying)
    await store.maintain()
    assert location.holds() == []
    assert not await takes(store, "b", 100)
    location.age_buckets(60_000)
    assert await takes(store, "b", 400)


async def test_a_call_without_limits_has_no_bucket(store: Store, location: StoreLocation) -> None:
    assert isinstance(await store.take_and_hold(request("a"), 5), Hold)
    await store.settle(settlement("a"))
    assert location.levels() == {}


async def test_a_hold_that_fails_gives_its_tokens_back(store: Store, location: StoreLocation) -> None:
    with location.locked(), pytest.raises(StoreUnavailable):
        await store.take_and_hold(call("a", 300), 0)
    await store.maintain()
    assert set(location.levels().values()) <= {0}
    assert location.holds() == []


async def test_a_settlement_that_waits_settles_its_tokens_once(store: Store, location: StoreLocation) -> None:
    assert await takes(store, "a", 300)
    with location.locked(), pytest.raises(StoreUnavailable):
        await store.settle(ended("a", 50, 50))  # type: ignore[arg-type]
    await store.maintain()
    assert list(location.rows()) == ["a"]
    assert location.levels()["key:acme/ci"] == pytest.approx(100, abs=20)

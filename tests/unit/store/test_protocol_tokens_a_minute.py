"""Limits a minute, in SQLite and in Redis: taken with the hold, settled with the row, given back without one."""

import asyncio

import pytest
from rig.stores import MAX_COST, OpenStore, StoreLocation, die, request, settlement, wallet

from addon.store.protocol import HoldRequest, NoToken, Store, StoreUnavailable
from addon.store.rates.redis import scripts
from addon.store.rates.sqlite import token_buckets
from policies.model import Budget, Workspace
from policies.spend import Denial, Hold
from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    find_budget_rates,
    make_token_refusal,
    share_limit,
)

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


def rates_of(user: str, rpm: int | None = None, tpm: int | None = None) -> tuple[TokenLimit, ...]:
    budget = Budget("user", None, rpm=rpm, tpm=tpm)
    return find_budget_rates(Workspace("acme", "Acme", "pro", (), budgets=(budget,)), user, None)


def others_of(*limits: TokenLimit) -> set[str]:
    return {share_limit(one).scope for one in limits}


@pytest.fixture
def most_values(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few values, so that a test reaches the bound."""
    for module in (token_buckets, scripts):
        monkeypatch.setattr(module, "MAX_VALUES", 3)
    return 3


async def test_each_value_has_its_own_requests_and_tokens_over_all_stores(
    store: Store, other: Store, location: StoreLocation
) -> None:
    taken = await asyncio.gather(
        *(
            takes(one, f"{user}-{number}-{place}", 100, *rates_of(user, rpm=3, tpm=10_000))
            for place, one in enumerate((store, other))
            for number in range(4)
            for user in ("ann", "ben")
        )
    )
    assert taken.count(True) == 6
    requests, tokens = rates_of("ann", rpm=3, tpm=10_000)
    denied = await store.take_and_hold(call("ann", 100, requests, tokens), 0)
    assert isinstance(denied, TokenDenial)
    assert (denied.limit, denied.tokens) == (requests, 100)
    assert denied.wait_ms == pytest.approx(20_000, abs=5_000)
    assert location.levels()[tokens.scope] == pytest.approx(300, abs=200)
    location.age_buckets(20_000)
    assert await takes(other, "ann", 100, requests, tokens)


async def test_a_request_is_used_by_a_call_that_was_sent_and_given_back_by_any_other(
    store: Store, location: StoreLocation
) -> None:
    [limit] = rates_of("ann", rpm=2)
    assert await takes(store, "sent", 0, limit)
    await store.settle(ended("sent", 100, 100))  # type: ignore[arg-type]
    assert await takes(store, "voided", 0, limit)
    await store.void("voided")
    poor = call("poor", 0, limit, of=request("poor", wallet()))
    assert isinstance(await store.take_and_hold(poor, 0), Denial)
    assert await takes(store, "second", 0, limit)
    assert not await takes(store, "third", 0, limit)
    assert location.levels()[limit.scope] == pytest.approx(2, abs=0.4)


async def test_a_value_without_room_takes_of_no_other_limit(store: Store, location: StoreLocation) -> None:
    [limit] = rates_of("ann", rpm=1)
    assert await takes(store, "a", 100, OF_WORKSPACE, OF_KEY, limit)
    before = location.levels()
    denied = await store.take_and_hold(call("b", 100, OF_WORKSPACE, OF_KEY, limit), 0)
    assert isinstance(denied, TokenDenial)
    assert denied.limit == limit
    assert location.levels() == before
    assert location.holds() == ["a"]


async def test_more_than_the_tokens_of_a_value_is_never_let_through(
    store: Store, location: StoreLocation
) -> None:
    requests, tokens = rates_of("ann", rpm=3, tpm=100)
    denied = await store.take_and_hold(call("a", 101, requests, tokens), 0)
    assert denied == TokenDenial(tokens, 101, None)
    assert location.levels() == {}


@pytest.mark.usefixtures("most_values")
async def test_values_beyond_the_bound_share_one_bucket_in_all_stores(
    store: Store, other: Store, location: StoreLocation
) -> None:
    for number, one in enumerate((store, other, store)):
        assert await takes(one, f"first-{number}", 100, *rates_of(f"first-{number}", rpm=2, tpm=1_000))
    invented = [rates_of(f"invented-{number}", rpm=2, tpm=1_000) for number in range(6)]
    taken = await asyncio.gather(
        *(
            takes(one, str(number), 100, *limits)
            for number, (one, limits) in enumerate(zip([store, other] * 3, invented, strict=True))
        )
    )
    assert taken.count(True) == 2
    denied = await other.take_and_hold(call("more", 100, *invented[0]), 0)
    assert isinstance(denied, TokenDenial)
    assert denied.limit == share_limit(invented[0][0])
    assert 'limit of 2 requests a minute of user "(other)"' in make_token_refusal(denied).message
    assert len(location.levels()) == 2 * 3 + 2
    assert others_of(*invented[0]) < set(location.levels())
    assert await takes(store, "own", 100, *rates_of("first-0", rpm=2, tpm=1_000))


@pytest.mark.usefixtures("most_values")
async def test_no_more_values_come_at_once_than_may_be(
    store: Store, other: Store, location: StoreLocation
) -> None:
    limits = [rates_of(f"user-{number}", rpm=1) for number in range(8)]
    taken = await asyncio.gather(
        *(takes(one, str(number), 0, *limits[number]) for number, one in enumerate([store, other] * 4))
    )
    assert taken.count(True) == 4
    assert len(location.levels()) == 4


@pytest.mark.usefixtures("most_values")
async def test_what_a_shared_bucket_gave_is_settled_there(store: Store, location: StoreLocation) -> None:
    for number in range(3):
        assert await takes(store, f"first-{number}", 10, *rates_of(f"first-{number}", tpm=1_000))
    [limit] = rates_of("ann", tpm=1_000)
    assert await takes(store, "a", 300, limit)
    await store.settle(ended("a", 300, 200))  # type: ignore[arg-type]
    assert location.levels()[share_limit(limit).scope] == pytest.approx(500, abs=100)
    assert limit.scope not in location.levels()


@pytest.mark.usefixtures("most_values")
async def test_a_value_whose_bucket_limits_nothing_any_more_makes_room(
    store: Store, location: StoreLocation
) -> None:
    for number in range(3):
        assert await takes(store, f"first-{number}", 10, *rates_of(f"first-{number}", tpm=1_000))
    location.age_buckets(62_000)
    [limit] = rates_of("ann", tpm=1_000)
    assert await takes(store, "a", 300, limit)
    assert list(location.levels()) == [limit.scope]


@pytest.mark.usefixtures("most_values")
async def test_a_late_debt_of_a_value_makes_no_bucket_beyond_the_bound(
    store: Store, location: StoreLocation
) -> None:
    [limit] = rates_of("ann", tpm=1_000)
    assert await takes(store, "a", 300, limit)
    assert await takes(store, "b", 300, limit)
    location.age_buckets(100_000)
    for number in range(3):
        assert await takes(store, f"new-{number}", 10, *rates_of(f"new-{number}", tpm=1_000))
    await store.settle(ended("a", 100, 100))  # type: ignore[arg-type]
    assert len(location.levels()) == 3
    await store.settle(ended("b", 500, 200))  # type: ignore[arg-type]
    assert location.levels()[share_limit(limit).scope] == pytest.approx(400, abs=100)
    assert len(location.levels()) == 4


async def test_no_text_of_a_client_is_in_a_store(store: Store, location: StoreLocation) -> None:
    assert await takes(store, "a", 10, *rates_of("ann@example.com", rpm=1, tpm=100))
    assert "ann" not in str(location.levels())

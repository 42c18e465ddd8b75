"""Budgets of users and tags: each value has its own, never more than it has, however many calls come at once."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import second_connection
from rig.stores import NOW, WORKSPACE, OpenStore, StoreLocation, die, reason_of, request, settlement

from addon.store.money import values
from addon.store.protocol import HoldRequest, Settlement, Store
from policies.budgets import budget_limits, share
from policies.limits import Limit
from policies.model import Budget, Workspace
from policies.spend import Denial, Hold

CAP = 2 * 63_400
USERS = Workspace(WORKSPACE, "Acme", "pro", (), budgets=(Budget("user", CAP, "daily"),))
BOTH = Workspace(
    WORKSPACE, "Acme", "pro", (), budgets=(*USERS.budgets, Budget("tag:team", 3 * CAP, "monthly"))
)


def asks(call_id: str, user: str | None, team: str | None = None, attempt: int = 1) -> HoldRequest:
    tags = None if team is None else f'{{"team":"{team}"}}'
    limits = budget_limits(BOTH, user, tags, NOW)
    return request(call_id, *limits, attempt=attempt)


def limit_of(user: str) -> Limit:
    return budget_limits(USERS, user, None, NOW)[0]


async def use_of(store: Store, limit: Limit) -> tuple[int, int]:
    [found] = await store.read_counters(WORKSPACE, [limit.counter])
    return found


@pytest.fixture
def most_values(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few values, so that a test reaches the bound."""
    monkeypatch.setattr(values, "MAX_VALUES", 3)
    return 3


def ends(call_id: str, hold: Hold | Denial, cost_nanousd: int) -> Settlement:
    assert isinstance(hold, Hold)
    return settlement(call_id, cost_nanousd, from_wallet=False, budgets=hold.budgets)


async def test_each_value_has_a_budget_of_its_own(store: Store, location: StoreLocation) -> None:
    for number in range(2):
        assert isinstance(await store.hold(asks(f"ann-{number}", "ann")), Hold)
    assert reason_of(await store.hold(asks("ann-2", "ann"))) == "budget_of_prompt"
    assert isinstance(await store.hold(asks("ben-0", "ben")), Hold)
    for number in range(2):
        await store.void(f"ann-{number}")
    assert isinstance(await store.hold(asks("ann-3", "ann")), Hold)
    assert await location.discrepancies() == []


async def test_a_settled_call_is_counted_for_each_of_its_budgets(
    store: Store, location: StoreLocation
) -> None:
    held = await store.hold(asks("a", "ann", "search"))
    await store.settle(ends("a", held, 63_000))
    for limit in budget_limits(BOTH, "ann", '{"team":"search"}', NOW):
        assert await use_of(store, limit) == (63_000, 1)
    await store.hold(asks("b", "ann"))
    refused = await store.hold(asks("c", "ann"))
    assert isinstance(refused, Denial)
    assert (refused.limit, refused.in_flight, refused.held_nanousd) == (limit_of("ann"), 1, 63_400)
    assert await location.discrepancies() == []


async def test_a_spent_budget_refuses_until_its_period_ends(store: Store) -> None:
    held = await store.hold(asks("a", "ann"))
    await store.settle(ends("a", held, CAP))
    assert await store.hold(asks("b", "ann")) == Denial("budget_cap", limit_of("ann"))
    tomorrow = NOW.replace(day=NOW.day + 1)
    later = request("c", *budget_limits(USERS, "ann", None, tomorrow), created_at=tomorrow)
    assert isinstance(await store.hold(later), Hold)


async def test_a_move_keeps_the_budget_and_its_use(store: Store, location: StoreLocation) -> None:
    held = await store.hold(asks("a", "ann"))
    moved = await store.move_hold(asks("a", "ann", attempt=2))
    assert moved == held
    assert await store.move_hold(asks("a", "ann", attempt=2)) == held
    assert await store.hold(asks("a", "ann")) == held
    await store.settle(ends("a", moved, 10))
    assert await use_of(store, limit_of("ann")) == (10, 1)
    assert await location.discrepancies() == []


@pytest.mark.usefixtures("most_values")
async def test_values_beyond_the_bound_share_one_budget(
    store: Store, other: Store, location: StoreLocation
) -> None:
    for user in ("ann", "ben", "cid"):
        assert await store.hold(asks(user, user)) == Hold(63_400, 100, f'["{limit_of(user).counter.scope}"]')
    shared = share(limit_of("new"))
    for number, one in enumerate((store, other)):
        held = await one.hold(asks(f"new-{number}", f"new-{number}"))
        assert held == Hold(63_400, 100, f'["{shared.counter.scope}"]')
    assert reason_of(await other.hold(asks("new-3", "(other)"))) == "budget_of_prompt"
    assert isinstance(await other.hold(asks("ann-1", "ann")), Hold)
    await store.settle(ends("new-0", held, 400))
    assert await use_of(other, shared) == (400, 1)
    assert await location.discrepancies() == []


@pytest.mark.usefixtures("most_values")
async def test_no_more_values_come_at_once_than_may_be(
    store: Store, other: Store, location: StoreLocation
) -> None:
    asked = [(one, asks(f"call-{n}", f"user-{n}")) for n, one in enumerate([store, other] * 4)]
    decided = await asyncio.gather(*[one.hold(each) for one, each in asked])
    scopes = {one.budgets for one in decided if isinstance(one, Hold)}
    assert len(scopes) == 4
    assert sum(isinstance(one, Hold) and "(other)" in (one.budgets or "") for one in decided) == 2


async def test_an_interrupted_call_is_counted(
    store: Store, open_store: OpenStore, location: StoreLocation
) -> None:
    dying = await open_store()
    await dying.hold(asks("a", "ann"))
    await die(dying)
    await store.maintain()
    assert await use_of(store, limit_of("ann")) == (0, 1)
    assert await location.discrepancies() == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "ben", "cid", "dan", "eve", None]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 63_400),
        st.sampled_from(["settle", "void", "keep", "move"]),
    ),
    max_size=14,
)


@given(STEPS)
@settings(max_examples=20, deadline=None)
def test_no_budget_is_ever_exceeded_and_no_spend_is_forgotten(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[str | None, str | None, int, str]]
) -> None:
    location = StoreLocation(tmp_path_factory.mktemp("budgets") / "ledger.db")

    async def run() -> None:
        spent: defaultdict[str, int] = defaultdict(int)
        store = location.open()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(values, "MAX_VALUES", 2)
            for number, (user, team, cost, end) in enumerate(steps):
                call_id = str(number)
                held = await store.hold(asks(call_id, user, team))
                if end == "move" and isinstance(held, Hold):
                    held = await store.move_hold(asks(call_id, user, team, attempt=2))
                if isinstance(held, Denial) or end == "keep":
                    continue
                if end == "void":
                    await store.void(call_id)
                    continue
                cost = min(cost, held.amount_nanousd)
                await store.settle(ends(call_id, held, cost))
                for name, is_there in (("user", user), ("team", team)):
                    spent[name] += cost if is_there else 0
        await store.close()
        rows = location.select("SELECT scope, spent_nanousd FROM spend WHERE scope LIKE 'budget:%'")
        for name, most in (("user", CAP), ("team", 3 * CAP)):
            counted = {scope: amount for scope, amount in map(tuple, rows) if name in scope.split("/")[1]}
            assert sum(counted.values()) == spent[name]
            assert all(amount <= most for amount in counted.values())
            assert sum("/=" in scope for scope in counted) <= 2
        assert await location.discrepancies() == []

    asyncio.run(run())


async def test_a_call_without_a_value_belongs_to_no_budget(store: Store) -> None:
    assert await store.hold(asks("a", None)) == Hold(63_400, 100)


async def test_a_recount_finds_a_counter_that_is_wrong(tmp_path: Path) -> None:
    location = StoreLocation(tmp_path / "ledger.db")
    store = location.open()
    await store.settle(ends("a", await store.hold(asks("a", "ann")), 400))
    await store.close()
    with second_connection(location.path) as other:
        other.execute("UPDATE spend SET spent_nanousd = 0 WHERE scope LIKE 'budget:%'")
    assert await location.discrepancies() == [
        "counter budget:acme/user/2026-11-21/=ann of 2026-11-21: 0 nano-USD are counted, 400 are recorded"
    ]

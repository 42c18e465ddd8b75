"""Both stores compared with a plain model of the rules: in any order of events, all three agree.

The model follows docs/limits.md. It keeps every call and counts again each time, so it has no counter that can drift.
It uses no code of the gateway for its decisions.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import floor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from rig.redis_server import RedisServer
from rig.stores import Place, all_counters, credit, die, request, settlement, takes

from addon.store.protocol import HoldRequest, Store
from policies.limits import LimitKind, limits_of
from policies.model import Key, Mode, Workspace
from policies.spend import NOT_METERED, CounterUse, Denial, DenialReason, Hold, MaxCost

START = datetime(2026, 11, 28, 22, tzinfo=UTC)
"""A Saturday night: the day, the week and the month end soon after each other."""

KEYS = {
    "acme": (
        Key("ci", "00", spend_cap_nanousd=40_000, spend_reset="daily", request_cap=6, request_reset="weekly"),
        Key("app", "01", spend_cap_nanousd=150_000, spend_reset="monthly"),
    ),
    "bare": (Key("ci", "02", request_cap=3, request_reset="daily"),),
}
WORKSPACES = {
    "acme": Workspace("acme", "Acme", "standard", KEYS["acme"], monthly_spend_cap_nanousd=120_000),
    "bare": Workspace("bare", "Bare", "pro", KEYS["bare"], monthly_spend_cap_nanousd=90_000),
}
RPM = {"acme": 3, "bare": 2}
PLACES = [(workspace, key) for workspace, keys in KEYS.items() for key in keys]


@dataclass
class Call:
    """A call of the model, from its hold onwards."""

    id: str
    workspace: str
    key: Key
    created_at: datetime
    amount: int
    cap: int
    owner: int
    is_held: bool = True
    cost: int | None = None
    """The cost that was recorded, or None."""
    interrupted: bool = False
    asked_attempts: int = 1
    held_attempt: int = 1

    @property
    def pays_from_wallet(self) -> bool:
        return self.workspace == "acme"


def same_period(reset: str, one: datetime, other: datetime) -> bool:
    """Return whether two moments are in the same period."""
    if reset == "never":
        return True
    if reset == "daily":
        return one.date() == other.date()
    if reset == "monthly":
        return (one.year, one.month) == (other.year, other.month)
    return one.date() - timedelta(one.weekday()) == other.date() - timedelta(other.weekday())


def mode_of(max_cost: MaxCost) -> Mode:
    """Return the mode of a call with this greatest cost. Calls on a customer's key are not metered."""
    return "byok" if max_cost == NOT_METERED else "payg"


def attempt_of(
    call_id: str, workspace: str, key: Key, came_in: datetime, max_cost: MaxCost, attempt: int = 1
) -> HoldRequest:
    """Return the hold request of one attempt."""
    limits = limits_of(WORKSPACES[workspace], key, mode_of(max_cost), came_in)
    return request(
        call_id,
        *limits,
        max_cost=max_cost,
        workspace=workspace,
        key_id=key.id,
        created_at=came_in,
        attempt=attempt,
    )


@dataclass
class Model:
    """The model: everything that has happened."""

    takes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WORKSPACES, 0))
    calls: dict[str, Call] = field(default_factory=dict)
    credits: dict[str, tuple[str, int]] = field(default_factory=dict)

    def take(self, workspace: str) -> bool:
        """Take a token and return whether there was one."""
        if self.takes[workspace] == RPM[workspace]:
            return False
        self.takes[workspace] += 1
        return True

    def count(self, includes: Callable[[Call], bool]) -> CounterUse:
        calls = [call for call in self.calls.values() if includes(call)]
        settled = [call for call in calls if call.cost is not None]
        held = [call for call in calls if call.is_held]
        return CounterUse(
            sum(call.cost or 0 for call in settled),
            len(settled),
            sum(call.amount for call in held),
            len(held),
        )

    def of_key(self, workspace: str, key: Key, reset: str, at: datetime) -> CounterUse:
        return self.count(
            lambda call: (
                (call.workspace, call.key.id) == (workspace, key.id)
                and same_period(reset, call.created_at, at)
            )
        )

    def of_month(self, workspace: str, at: datetime) -> CounterUse:
        return self.count(
            lambda call: call.workspace == workspace and same_period("monthly", call.created_at, at)
        )

    def of_wallet(self, workspace: str) -> CounterUse:
        of = self.count(lambda call: call.workspace == workspace)
        paid = sum(
            call.cost or 0
            for call in self.calls.values()
            if call.workspace == workspace and call.pays_from_wallet
        )
        credited = sum(amount for name, amount in self.credits.values() if name == workspace)
        return CounterUse(paid - credited, 0, of.held_nanousd, of.in_flight)

    def hold(
        self, call_id: str, workspace: str, key: Key, at: datetime, max_cost: MaxCost, owner: int
    ) -> Hold | Denial:
        decided = self.decide(workspace, key, at, max_cost)
        if isinstance(decided, Hold):
            self.calls[call_id] = Call(
                call_id, workspace, key, at, decided.amount_nanousd, decided.cap_tokens, owner
            )
        return decided

    def decide(self, workspace: str, key: Key, at: datetime, max_cost: MaxCost) -> Hold | Denial:
        """Run the checks in the order of docs/limits.md."""
        limits = {limit.kind: limit for limit in limits_of(WORKSPACES[workspace], key, mode_of(max_cost), at)}
        if key.request_cap is not None:
            of = self.of_key(workspace, key, key.request_reset, at)
            if of.requests + of.in_flight >= key.request_cap:
                return Denial("request_cap", limits["request_cap"])
        remaining: list[tuple[int, LimitKind, CounterUse]] = []
        unspent: list[tuple[int, LimitKind]] = []
        money: list[tuple[LimitKind, int | None, CounterUse]] = [
            ("spend_cap", key.spend_cap_nanousd, self.of_key(workspace, key, key.spend_reset, at)),
            ("wallet", 0 if workspace == "acme" else None, self.of_wallet(workspace)),
            (
                "monthly_spend_cap",
                WORKSPACES[workspace].monthly_spend_cap_nanousd,
                self.of_month(workspace, at),
            ),
        ]
        for reason, most, of in money:
            if most is None or mode_of(max_cost) == "byok":
                continue
            if of.spent_nanousd >= most:
                return Denial(reason, limits[reason])
            if not max_cost.is_protected and of.spent_nanousd + of.held_nanousd >= most:
                return Denial(reason, limits[reason], of.in_flight, of.held_nanousd)
            unspent.append((most - of.spent_nanousd, reason))
            remaining.append((most - of.spent_nanousd - of.held_nanousd, reason, of))
        if not max_cost.is_protected:
            return Hold(max_cost.prompt_nanousd, max_cost.cap_tokens)
        token_nanousd = Fraction(max_cost.token_picousd, 1000)
        cap = max_cost.cap_tokens
        if not remaining:
            return Hold(max_cost.prompt_nanousd - floor(-cap * token_nanousd), cap)
        room, reason, of = min(remaining, key=lambda one: one[0])
        if room < max_cost.prompt_nanousd + token_nanousd:
            least, scarcest = min(unspent, key=lambda one: one[0])
            why: DenialReason = "budget_of_prompt" if room < max_cost.prompt_nanousd else "budget"
            if least < max_cost.prompt_nanousd + token_nanousd:
                return Denial(why, limits[scarcest])
            return Denial(why, limits[reason], of.in_flight, of.held_nanousd)
        if token_nanousd:
            cap = min(cap, floor((room - max_cost.prompt_nanousd) / token_nanousd))
            if not max_cost.names_cap:
                quarter = floor((room // 4 - max_cost.prompt_nanousd) / token_nanousd)
                cap = min(cap, max(quarter, 4_096))
        return Hold(max_cost.prompt_nanousd - floor(-cap * token_nanousd), cap)

    def move(self, call: Call, max_cost: MaxCost) -> Hold | Denial:
        """Decide as if the call held nothing."""
        call.is_held = False
        decided = self.decide(call.workspace, call.key, call.created_at, max_cost)
        call.is_held = True
        call.asked_attempts += 1
        if isinstance(decided, Hold):
            call.amount, call.cap = decided.amount_nanousd, decided.cap_tokens
            call.held_attempt = call.asked_attempts
        return decided

    def settle(self, call: Call, cost: int) -> None:
        if call.cost is None or call.interrupted:
            call.cost, call.interrupted = cost, False
        call.is_held = False

    def end_those_of(self, owner: int) -> None:
        for call in self.calls.values():
            if call.owner == owner and call.is_held:
                call.is_held, call.cost, call.interrupted = False, 0, True


class Comparison(RuleBasedStateMachine):
    """The model, and two stores of each kind, like those of two processes."""

    server: ClassVar[RedisServer]

    def __init__(self) -> None:
        super().__init__()
        self.server.flush()
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name)
        self.places = [
            Place(path / "sqlite" / "tollgate.db"),
            Place(path / "redis" / "tollgate.db", self.server.url),
        ]
        self.runner = asyncio.Runner()
        self.model = Model()
        self.now = START
        self.generation = [0, 1]
        self.numbers = 0

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def both[T](self, process: int, ask: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Ask both stores of one process, and return their common answer."""
        ours, theirs = [self.run(ask(stores[process])) for stores in self.stores]
        assert ours == theirs, "the stores disagree"
        return ours

    @initialize()
    def open(self) -> None:
        self.stores = [[self.run(self.opened(place)) for _ in range(2)] for place in self.places]
        self.top_up(0, "acme", 100_000)

    async def opened(self, place: Place) -> Store:
        store = place.open()
        await store.check()
        await store.maintain()
        return store

    processes = st.integers(0, 1)
    costs = st.integers(0, 60_000)
    metered = st.builds(
        MaxCost,
        prompt_nanousd=st.one_of(st.integers(0, 9_000), st.integers(20_000, 60_000)),
        token_picousd=st.one_of(st.integers(0, 900_000), st.integers(0, 9_000)),
        cap_tokens=st.one_of(st.integers(1, 120), st.integers(4_000, 5_000)),
        is_protected=st.booleans(),
        names_cap=st.booleans(),
    )
    wants = st.one_of(metered, metered, metered, st.just(NOT_METERED))

    @rule(process=processes, workspace=st.sampled_from(sorted(WORKSPACES)), times=st.integers(1, 4))
    def take(self, process: int, workspace: str, times: int) -> None:
        for _ in range(times):
            expected = self.model.take(workspace)
            assert self.both(process, lambda store: takes(store, workspace, RPM[workspace])) is expected

    @rule(
        process=processes,
        place=st.sampled_from(PLACES),
        asked=st.lists(wants, min_size=1, max_size=3),
        late_h=st.sampled_from([0, 0, 0, 3, 30]),
    )
    def hold(self, process: int, place: tuple[str, Key], asked: list[MaxCost], late_h: int) -> None:
        """Place holds. A call belongs to the period of its arrival, however late its hold is."""
        workspace, key = place
        came_in = self.now - timedelta(hours=late_h)
        for max_cost in asked:
            self.numbers += 1
            call = attempt_of(f"call-{self.numbers}", workspace, key, came_in, max_cost)
            expected = self.model.hold(call.id, workspace, key, came_in, max_cost, self.generation[process])
            assert self.both(process, lambda store, call=call: store.hold(call)) == expected  # type: ignore[misc]

    def some_call(self, data: st.DataObject, *, interrupted: bool = False) -> Call | None:
        calls = [call for call in self.model.calls.values() if call.interrupted >= interrupted]
        return data.draw(st.sampled_from(calls)) if calls else None

    @rule(asked=st.lists(wants, min_size=1, max_size=3), data=st.data())
    def move(self, asked: list[MaxCost], data: st.DataObject) -> None:
        """Move a call to another attempt, on either kind of key, twice."""
        calls = [call for call in self.model.calls.values() if call.is_held]
        if not calls:
            return
        call = data.draw(st.sampled_from(calls))
        process = self.generation.index(call.owner)
        for max_cost in asked:
            expected = self.model.move(call, max_cost)
            attempt = attempt_of(
                call.id, call.workspace, call.key, call.created_at, max_cost, call.asked_attempts
            )
            for _ in range(2):
                assert self.both(process, lambda store, to=attempt: store.move_hold(to)) == expected  # type: ignore[misc]

    @rule(process=processes, cost=costs, data=st.data())
    def settle(self, process: int, cost: int, data: st.DataObject) -> None:
        """Settle a call that was not voided, also one that was settled or interrupted before."""
        if call := self.some_call(data):
            self.settle_call(process, call, cost)

    @rule(process=processes, cost=costs, data=st.data())
    def settle_what_was_taken_for_dead(self, process: int, cost: int, data: st.DataObject) -> None:
        if call := self.some_call(data, interrupted=True):
            self.settle_call(process, call, cost)

    def settle_call(self, process: int, call: Call, cost: int) -> None:
        ended = settlement(
            call.id,
            cost,
            from_wallet=call.pays_from_wallet,
            workspace=call.workspace,
            key_id=call.key.id,
            created_at=call.created_at.isoformat(timespec="milliseconds"),
        )
        self.both(process, lambda store: store.settle(ended))
        self.model.settle(call, cost)

    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        """Void a call in the process that holds it: it was not sent."""
        call = self.some_call(data)
        if call is None or not call.is_held or call.owner not in self.generation:
            return
        process = self.generation.index(call.owner)
        self.both(process, lambda store: store.void(call.id))
        del self.model.calls[call.id]

    @rule(
        process=processes, workspace=st.sampled_from(sorted(WORKSPACES)), amount=st.integers(-9_000, 90_000)
    )
    def top_up(self, process: int, workspace: str, amount: int) -> None:
        self.numbers += 1
        entry = credit(f"credit-{self.numbers}", amount, workspace)
        assert self.both(process, lambda store: store.credit(entry))
        self.model.credits[entry.id] = (workspace, amount)

    @rule(process=processes, data=st.data())
    def top_up_again(self, process: int, data: st.DataObject) -> None:
        if self.model.credits:
            entry_id = data.draw(st.sampled_from(sorted(self.model.credits)))
            workspace, amount = self.model.credits[entry_id]
            assert not self.both(process, lambda store: store.credit(credit(entry_id, amount, workspace)))

    @rule(hours=st.integers(1, 50))
    def time_goes_on(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(process=processes)
    def crash(self, process: int) -> None:
        """Let one process die, and open another that settles its holds."""
        for place, stores in zip(self.places, self.stores, strict=True):
            self.run(die(stores[process]))
            stores[process] = self.run(self.opened(place))
        self.model.end_those_of(self.generation[process])
        self.generation[process] = max(self.generation) + 1

    @rule(process=processes)
    def maintain(self, process: int) -> None:
        self.both(process, lambda store: store.maintain())

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        for stores in self.stores:
            for store in stores:
                self.run(store.check())
        counters = [one for workspace, key in PLACES for one in all_counters(workspace, key.id, self.now)]
        expected = [one for workspace, key in PLACES for one in self.counters_of_model(workspace, key)]
        for place in self.places:
            assert place.holds() == sorted(call.id for call in self.model.calls.values() if call.is_held)
            assert self.rows(place) == {
                call.id: (call.cost, call.held_attempt if call.interrupted else None)
                for call in self.model.calls.values()
                if call.cost is not None
            }
            assert place.entries() == self.entries()
            assert place.used_now(counters) == expected

    def rows(self, place: Place) -> dict[str, tuple[int, int | None]]:
        """Check each call's cost, and the attempt at which it was interrupted."""
        return {
            row_id: (row["retail_nanousd"], row["attempts"] if row["error_code"] == "interrupted" else None)
            for row_id, row in place.rows().items()
        }

    def entries(self) -> dict[str, int]:
        paid = {
            call.id: -call.cost for call in self.model.calls.values() if call.cost and call.pays_from_wallet
        }
        return paid | {entry_id: amount for entry_id, (_, amount) in self.model.credits.items()}

    def counters_of_model(self, workspace: str, key: Key) -> list[CounterUse]:
        """Return the counters in the order of ``all_counters``."""
        resets = ("never", "daily", "weekly", "monthly")
        return [
            *(self.model.of_key(workspace, key, reset, self.now) for reset in resets),
            self.model.of_month(workspace, self.now),
            self.model.of_wallet(workspace),
        ]

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for place, stores in zip(self.places, self.stores, strict=True):
                assert self.run(place.discrepancies()) == []
                for store in stores:
                    self.run(store.close())
        self.runner.close()
        self.folder.cleanup()


@pytest.mark.parametrize("examples", [45])
def test_both_stores_and_the_model_agree_in_every_order_of_events(
    redis_server: RedisServer, examples: int
) -> None:
    Comparison.server = redis_server
    run_state_machine_as_test(
        Comparison,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            # A failure is not shrunk: each try uses real files and a real server, which is too slow for that.
            phases=(Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )

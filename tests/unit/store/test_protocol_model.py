"""Each store compared with a plain model of the rules: both agree in any order of events, also on waits for a token."""

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from rig.bounds import BOUND_S
from rig.large import large, sized
from rig.protocol_model import CALLERS, RPM, START, WORKSPACES, Call, Model, mode_of
from rig.redis_server import RedisServer
from rig.stores import StoreLocation, all_counters, credit, die, request, settlement

from addon.store.protocol import HoldRequest, NoToken, Store
from policies.limits import limits_of
from policies.model import Key
from policies.spend import NOT_METERED, CounterUse, MaxCost

EXAMPLES = sized(8, 40)
"""The random orders of events for each store."""

MEMORY = Path("/dev/shm")
"""A folder in memory, where a commit waits for no disk. Not every system has one."""


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


class Comparison(RuleBasedStateMachine):
    """The model, and two stores at one location, like those of two processes."""

    server: ClassVar[RedisServer | None]
    client: ClassVar[redis.Redis | None]

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        path = Path(self.folder.name) / "tollgate.db"
        if self.server:
            self.server.flush()
        self.location = StoreLocation(path, self.server.url if self.server else None, self.client)
        self.runner = asyncio.Runner()
        self.model = Model()
        self.now = START
        self.generation = [0, 1]
        self.numbers = 0

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        self.stores = [self.run(self.opened()) for _ in range(2)]
        # A new connection for each look would read the schema again, which takes most of the time of this test.
        reader = sqlite3.connect(self.location.path, timeout=BOUND_S, isolation_level=None)
        self.location = replace(self.location, reader=reader)
        self.top_up(0, "acme", 100_000)

    async def opened(self) -> Store:
        store = self.location.open()
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
            since_us = self.location.now_us()
            wait_us = self.run(self.stores[process].take_token(workspace, RPM[workspace]))
            self.model.take(workspace, wait_us, since_us, self.location.now_us())

    @rule(seconds=st.sampled_from([20, 40, 61]))
    def takes_grow_older(self, seconds: int) -> None:
        self.location.age_takes(sorted(WORKSPACES), seconds * 1_000_000)
        self.model.age_takes(seconds * 1_000_000)

    @rule(
        process=processes,
        caller=st.sampled_from(CALLERS),
        asked=st.lists(wants, min_size=1, max_size=3),
        late_h=st.sampled_from([0, 0, 0, 3, 30]),
        takes_token=st.sampled_from([False, False, True]),
    )
    def hold(
        self, process: int, caller: tuple[str, Key], asked: list[MaxCost], late_h: int, takes_token: bool
    ) -> None:
        """Place holds. A call belongs to the period of its arrival, however late its hold is."""
        workspace, key = caller
        came_in = self.now - timedelta(hours=late_h)
        for max_cost in asked:
            self.numbers += 1
            call = attempt_of(f"call-{self.numbers}", workspace, key, came_in, max_cost)
            if takes_token:
                since_us = self.location.now_us()
                decided = self.run(self.stores[process].take_and_hold(call, RPM[workspace]))
                wait_us = decided.wait_us if isinstance(decided, NoToken) else 0
                self.model.take(workspace, wait_us, since_us, self.location.now_us())
                if wait_us:
                    continue
            else:
                decided = self.run(self.stores[process].hold(call))
            owner = self.generation[process]
            assert decided == self.model.hold(call.id, workspace, key, came_in, max_cost, owner)

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
                assert self.run(self.stores[process].move_hold(attempt)) == expected

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
        self.run(self.stores[process].settle(ended))
        self.model.settle(call, cost)

    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        """Void a call in the process that holds it: it was not sent."""
        call = self.some_call(data)
        if call is None or not call.is_held or call.owner not in self.generation:
            return
        process = self.generation.index(call.owner)
        self.run(self.stores[process].void(call.id))
        del self.model.calls[call.id]

    @rule(
        process=processes, workspace=st.sampled_from(sorted(WORKSPACES)), amount=st.integers(-9_000, 90_000)
    )
    def top_up(self, process: int, workspace: str, amount: int) -> None:
        self.numbers += 1
        entry = credit(f"credit-{self.numbers}", amount, workspace)
        assert self.run(self.stores[process].credit(entry))
        self.model.credits[entry.id] = (workspace, amount)

    @rule(process=processes, data=st.data())
    def top_up_again(self, process: int, data: st.DataObject) -> None:
        if self.model.credits:
            entry_id = data.draw(st.sampled_from(sorted(self.model.credits)))
            workspace, amount = self.model.credits[entry_id]
            assert not self.run(self.stores[process].credit(credit(entry_id, amount, workspace)))

    @rule(hours=st.integers(1, 50))
    def time_goes_on(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(process=processes)
    def crash(self, process: int) -> None:
        """Let one process die, and open another that settles its holds."""
        self.run(die(self.stores[process]))
        self.stores[process] = self.run(self.opened())
        self.model.end_those_of(self.generation[process])
        self.generation[process] = max(self.generation) + 1

    @rule(process=processes)
    def maintain(self, process: int) -> None:
        self.run(self.stores[process].maintain())

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        for store in self.stores:
            self.run(store.check())
        counters = [one for workspace, key in CALLERS for one in all_counters(workspace, key.id, self.now)]
        expected = [one for workspace, key in CALLERS for one in self.counters_of_model(workspace, key)]
        location = self.location
        assert location.holds() == sorted(call.id for call in self.model.calls.values() if call.is_held)
        assert self.rows() == {
            call.id: (call.cost, call.held_attempt if call.interrupted else None)
            for call in self.model.calls.values()
            if call.cost is not None
        }
        assert location.entries() == self.entries()
        assert location.used_now(counters) == expected

    def rows(self) -> dict[str, tuple[int, int | None]]:
        """Return each call's cost, and the attempt at which it was interrupted."""
        return {
            row_id: (row["retail_nanousd"], row["attempts"] if row["error_code"] == "interrupted" else None)
            for row_id, row in self.location.rows().items()
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
            location = self.location
            counters = [
                one for workspace, key in CALLERS for one in all_counters(workspace, key.id, self.now)
            ]
            assert self.run(location.discrepancies()) == []
            # Read the counters as the commands do, too.
            reopened = replace(location, client=None, reader=None)
            assert reopened.used_now(counters) == location.used_now(counters)
            assert reopened.rows() == location.rows()
            assert location.reader
            location.reader.close()
            for store in self.stores:
                self.run(store.close())
        self.runner.close()
        self.folder.cleanup()


@pytest.fixture(params=["sqlite", "redis"])
def comparison(request: pytest.FixtureRequest) -> Iterator[type[Comparison]]:
    """The comparison of one store with the model."""
    if request.param == "sqlite":
        yield type("OfSqlite", (Comparison,), {"server": None, "client": None})
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    with closing(redis.Redis.from_url(server.url, decode_responses=True)) as client:
        yield type("OfRedis", (Comparison,), {"server": server, "client": client})


@large
def test_the_store_and_the_model_agree_in_every_order_of_events(comparison: type[Comparison]) -> None:
    run_state_machine_as_test(
        comparison,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            # A failure is not shrunk: each try uses real files and a real server, which is too slow for that.
            phases=(Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )

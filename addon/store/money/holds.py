"""The steps that place and move holds. The rule is ``policies.spend.place_hold``. Source: docs/limits.md."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from addon.store.money.engine import HOLDS, Asked, Engine, Last, Step
from addon.store.money.rows import encode_row
from addon.store.money.values import Values
from addon.store.protocol import LEASE_S, HoldRequest
from policies.budgets import read_scopes
from policies.limits import Limit, period_end, period_start
from policies.spend import CounterUse, Denial, Hold, place_hold
from policies.utc_time import format_utc

_LEASE = timedelta(seconds=LEASE_S)


class Placing:
    """The requests of one transaction, in their order, with what is used of their limits.

    A hold that is placed counts for the requests after it.
    """

    def __init__(self, requests: Sequence[HoldRequest], engine: Engine, *, moves: bool = False) -> None:
        self._engine = engine
        self.values = Values([one.limits for one in requests], engine)
        self._is_single = len(requests) == 1
        self._is_plain = self._is_single and not self.values
        self._asked: list[Asked] = []
        self._used: list[CounterUse] = []
        self._known: dict[tuple[str, str, str | None], int] = {}
        self._places: dict[str, list[int]] = {}
        """The places in ``_asked`` of each workspace."""
        for one in requests:
            except_id = one.id if moves else None
            places = self._places.setdefault(one.workspace, [])
            for limit in self.values.all_limits(one.limits):
                counter = (limit.counter.scope, limit.counter.period, except_id)
                if self._is_plain or counter not in self._known:
                    self._known[counter] = len(self._asked)
                    places.append(len(self._asked))
                    self._asked.append(Asked(limit, one.workspace, one.key_id, except_id))

    def read(self) -> Step[None]:
        """Read what is used."""
        if self._asked:
            found = yield [self._engine.read_used(self._asked), *self.values.find()]
            self._used = self._engine.find_used(found[0], len(self._asked))
            yield from self.values.count(found[1:])

    def decide(self, request: HoldRequest, moved_nanousd: int | None = None) -> Hold | Denial:
        """Return the hold that a request gets, or its denial. ``moved_nanousd`` is what a call holds that is moved."""
        limits = self.values.choose(request.limits)
        used: Iterable[CounterUse] = self._used
        if not self._is_plain:
            except_id = None if moved_nanousd is None else request.id
            counters = [limit.counter for limit in limits]
            used = [self._used[self._known[one.scope, one.period, except_id]] for one in counters]
        by_counter = {limit.counter: use for limit, use in zip(limits, used, strict=True)}
        decided = place_hold(request.max_cost, limits, by_counter)
        if isinstance(decided, Hold):
            if self.values:
                decided = self.values.keep(decided, limits)
            if not self._is_single:
                self._add(request, decided, moved_nanousd)
        return decided

    def _add(self, request: HoldRequest, placed: Hold, moved_nanousd: int | None) -> None:
        """Count a hold that was placed, or moved, for the requests that follow."""
        at, calls = format_utc(request.created_at), int(moved_nanousd is None)
        more_nanousd = placed.amount_nanousd - (moved_nanousd or 0)
        for place in self._places[request.workspace]:
            asked = self._asked[place]
            if asked.except_id != request.id and _covers(asked, request, placed, at):
                use = self._used[place]
                held_nanousd, in_flight = use.held_nanousd + more_nanousd, use.in_flight + calls
                self._used[place] = CounterUse(use.spent_nanousd, use.requests, held_nanousd, in_flight)


def _covers(asked: Asked, request: HoldRequest, placed: Hold, at: str) -> bool:
    """Return whether the hold of a request of the time ``at`` counts for a limit of its workspace."""
    if asked.of_budget:
        return placed.budgets is not None and asked.limit.counter.scope in read_scopes(placed.budgets)
    if asked.of_key and asked.key_id != request.key_id:
        return False
    period = asked.limit.counter.period
    return period_start(period) <= at < period_end(period)


def hold(
    requests: Sequence[HoldRequest], owner: str, now: datetime, engine: Engine
) -> Step[list[Hold | Denial]]:
    """Place the holds that are allowed. A call that has a hold already gets that one."""
    placing = Placing(requests, engine)
    yield from placing.read()
    decided = [placing.decide(one) for one in requests]
    rows = [
        _row(one, found, owner, now)
        for one, found in zip(requests, decided, strict=True)
        if isinstance(found, Hold)
    ]
    new: AbstractSet[str] = frozenset()
    if rows:
        inserts = engine.insert(HOLDS, rows)
        found = yield Last([*inserts, *placing.values.register()])
        new = {row[0] for row in chain(*found[: len(inserts)])}
    if len(new) == len(requests):
        return decided
    others = [one.id for one in requests if one.id not in new]
    placed = {row[0]: Hold(row[1], row[2], row[5]) for row in chain(*(yield engine.find_holds(others)))}
    return [placed.get(one.id, found) for one, found in zip(requests, decided, strict=True)]


def move_hold(
    requests: Sequence[HoldRequest], owner: str, now: datetime, engine: Engine
) -> Step[list[Hold | Denial | None]]:
    """Replace the hold of each call by the one that is allowed, or keep it. None: ``owner`` holds no such call."""
    held = {row[0]: row for row in chain(*(yield engine.find_holds([one.id for one in requests])))}
    placing = Placing(requests, engine, moves=True)
    yield from placing.read()
    answers: list[Hold | Denial | None] = []
    rows = []
    for one in requests:
        _, amount_nanousd, cap_tokens, held_by, row, budgets = held.get(one.id, (None,) * 6)
        if held_by != owner:
            answers.append(None)
        elif row == encode_row(one.interrupted_row):  # It was moved before.
            answers.append(Hold(amount_nanousd, cap_tokens, budgets))
        else:
            decided = placing.decide(one, amount_nanousd)
            answers.append(decided)
            rows += [_row(one, decided, owner, now)] if isinstance(decided, Hold) else []
    if rows:
        yield Last([*engine.replace_holds(rows), *placing.values.register()])
    return answers


def restore(
    held: Sequence[tuple[HoldRequest, Hold]], owner: str, now: datetime, engine: Engine
) -> Step[list[None]]:
    """Place holds that were placed before, if they are not there any more."""
    yield Last(engine.insert(HOLDS, [_row(request, placed, owner, now) for request, placed in held]))
    return [None] * len(held)


def void(ids: Sequence[str], engine: Engine) -> Step[list[None]]:
    """Release holds that are there."""
    yield Last(engine.release(ids))
    return [None] * len(ids)


def read_used(limits: Sequence[Limit], workspace: str, key_id: str, engine: Engine) -> Step[list[CounterUse]]:
    """Return how much of each limit of a workspace or its key is used, and how much calls in flight hold."""
    if not limits:
        return []
    [rows] = yield [engine.read_used([Asked(limit, workspace, key_id) for limit in limits])]
    return engine.find_used(rows, len(limits))


def _row(request: HoldRequest, placed: Hold, owner: str, now: datetime) -> tuple[Any, ...]:
    """Return the row of a hold. Its ``expires_at`` is for people who read the table: its owner decides."""
    row = request.interrupted_row
    return (
        request.id,
        row["created_at"],
        format_utc(now + _LEASE),
        request.workspace,
        request.key_id,
        placed.amount_nanousd,
        owner,
        placed.cap_tokens,
        encode_row(row),
        placed.budgets,
    )

"""``Values``: which values of budgets have a counter, and which share the one for all others.

A value gets its counter with its first hold, in the same step. The step that finds it reads all that it needs: whether
the value is known, whether others share already, and else how many values there are. So there are never more than
``MAX_VALUES``, however many calls come at once, and a call whose values are known reads no more than their use.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from addon.store.money.engine import Engine, Rows, Statement, Step
from policies.budgets import MAX_VALUES, encode_scopes, share, values_range
from policies.limits import Limit
from policies.spend import Hold

_KIND: Final = "budget_cap"


class Values:
    """The values of some calls, given the limits of each. It is false where no budget applies to any of them."""

    def __init__(self, calls: Iterable[Sequence[Limit]], engine: Engine) -> None:
        self._engine = engine
        # Limits of budgets are the last ones of a call.
        self._limits = {
            limit.counter.scope: limit
            for limits in calls
            if limits and limits[-1].kind == _KIND
            for limit in limits
            if limit.kind == _KIND
        }
        self._known: set[str] = set()
        self._counts: dict[str, int] = {}
        self._new: dict[str, Limit] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def all_limits(self, limits: Sequence[Limit]) -> Sequence[Limit]:
        """Return the limits of a call, and those that its values may share."""
        if not self._limits:
            return limits
        return [*limits, *(share(limit) for limit in limits if limit.kind == _KIND)]

    def find(self) -> list[Statement]:
        """Return the statement that finds the values that have a counter."""
        if not self._limits:
            return []
        scopes = {scope for limit in self._limits.values() for scope in (limit.counter.scope, _other(limit))}
        return [self._engine.find_scopes(sorted(scopes))]

    def count(self, found: Sequence[Rows]) -> Step[None]:
        """Note the values that were found, and count those of each budget that may get a new one."""
        if not self._limits:
            return
        self._known = {row[0] for rows in found for row in rows}
        ranges = sorted(
            {
                values_range(limit.counter.scope)
                for limit in self._limits.values()
                if self._known.isdisjoint((limit.counter.scope, _other(limit)))
            }
        )
        if ranges:
            counts = yield [self._engine.count_scopes(*one) for one in ranges]
            self._counts = {first: rows[0][0] for (first, _), rows in zip(ranges, counts, strict=True)}

    def choose(self, limits: Sequence[Limit]) -> Sequence[Limit]:
        """Return the limits of a call, with the shared one for each value that gets no counter."""
        if not self._limits:
            return limits
        return [limit if limit.kind != _KIND else self._choose(limit) for limit in limits]

    def _choose(self, limit: Limit) -> Limit:
        scope = limit.counter.scope
        if scope in self._known:
            return limit
        is_full = self._counts.get(values_range(scope)[0], MAX_VALUES) >= MAX_VALUES
        return share(limit) if is_full else limit

    def keep(self, placed: Hold, limits: Sequence[Limit]) -> Hold:
        """Return a hold with the budgets that pay for it. Their counters are to be made with it."""
        scopes = []
        for limit in limits:
            if limit.kind != _KIND:
                continue
            scope = limit.counter.scope
            scopes.append(scope)
            if scope not in self._known:
                self._known.add(scope)
                self._new[scope] = limit
                first, _ = values_range(scope)
                if scope.startswith(first):
                    self._counts[first] += 1
        return structs.replace(placed, budgets=encode_scopes(scopes)) if scopes else placed

    def register(self) -> list[Statement]:
        """Return the statement that makes the counters of new values."""
        if not self._new:
            return []
        places = [(limit.counter.scope, limit.counter.period) for limit in self._new.values()]
        return [self._engine.count(dict.fromkeys(places, (0, 0)))]


def choose(limits: Sequence[Limit], engine: Engine) -> Step[Sequence[Limit]]:
    """Return the limits of a call, with the shared one for each value that would get no counter now."""
    values = Values([limits], engine)
    if values:
        found = yield values.find()
        yield from values.count(found)
    return values.choose(limits)


def _other(limit: Limit) -> str:
    return share(limit).counter.scope

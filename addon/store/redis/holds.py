"""The holds of this process in Redis: place, move, release, and restore them after a loss."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from msgspec import structs

from addon.store.money.rows import encode_row
from addon.store.protocol import NO_HOLD_TO_MOVE, CallNotHeld, HoldRequest, NoToken, StoreUnavailable
from addon.store.redis.client import RedisClient, has_changed_nothing
from addon.store.redis.keys import ENDED_S, CallCounters, call_counters, keys_of
from addon.store.redis.leases import Leases
from addon.store.redis.scripts import HOLD, TAKE_AND_HOLD, VOID
from addon.store.redis.state import RedisState
from policies.limits import Limit
from policies.money import PICOUSD_PER_NANOUSD
from policies.spend import (
    MAX_ROOM_NANOUSD,
    MIN_SHARE_TOKENS,
    Denial,
    DenialReason,
    Hold,
    MaxCost,
    place_hold,
)

_REFUSALS = {"ended": "it has ended", "nothing": "it holds nothing", "lease": "its lease has ended"}

LARGEST_EXACT = MAX_ROOM_NANOUSD
"""The largest number that a script counts exactly: its numbers are doubles."""
LARGEST_TOKEN_PICOUSD = LARGEST_EXACT // 10
"""A script divides digit by digit, so ten times a remainder must be exact too."""


@dataclass(slots=True)
class _Held:
    """A hold that Redis has or may have. Once placed, ``request`` asks for exactly the same hold again."""

    workspace: str
    counters: CallCounters
    request: HoldRequest | None = None


class Holds:
    """The holds of this process for its calls. Its methods raise ``StoreUnavailable``."""

    def __init__(self, client: RedisClient, state: RedisState, leases: Leases) -> None:
        self._client = client
        self._state = state
        self._leases = leases
        self._held: dict[str, _Held] = {}

    def __contains__(self, call_id: object) -> bool:
        """Return whether Redis has or may have a hold of the call."""
        return call_id in self._held

    @property
    def workspaces(self) -> set[str]:
        """The workspaces that have calls in flight."""
        return {held.workspace for held in self._held.values()}

    def forget(self, call_id: str) -> None:
        """Remove a call that ended. Its hold ended with it."""
        self._held.pop(call_id, None)

    async def place(self, request: HoldRequest) -> Hold | Denial:
        """Place a hold. When it is not known whether that succeeded, the call counts as held."""
        decided = await self.take_and_place(request, ())
        if isinstance(decided, NoToken):
            raise TypeError("no token was asked for")
        return decided

    async def take_and_place(self, request: HoldRequest, bucket: Sequence[int]) -> Hold | Denial | NoToken:
        """As ``place``, and take a token in the same step. ``bucket`` has the arguments of ``take_token.lua``."""
        request = structs.replace(request, max_cost=make_exact(request.max_cost, request.limits))
        counters = call_counters(request.workspace, request.key_id, request.created_at.date())
        self._held[request.id] = held = _Held(request.workspace, counters)
        try:
            answer = await self._run_hold(request, counters, bucket=bucket)
            if answer[0] == "none":
                self.forget(request.id)
                return NoToken(int(answer[1]))
            decided = _decided(request, held, answer)
        except StoreUnavailable as error:
            if has_changed_nothing(error):
                self.forget(request.id)
            raise
        if isinstance(decided, Denial):
            self.forget(request.id)
        return decided

    async def move(self, request: HoldRequest) -> Hold | Denial:
        """Move a hold to the next attempt of its call. When the result is unknown, it has one of the two holds."""
        held = self._held.get(request.id)
        if held is None:
            raise CallNotHeld(NO_HOLD_TO_MOVE)
        request = structs.replace(request, max_cost=make_exact(request.max_cost, request.limits))
        answer = await self._run_hold(request, held.counters, is_moved=True)
        return _decided(request, held, answer, "moved")

    async def release(self, call_id: str) -> None:
        """Release a hold. When Redis has not placed it yet, it never will."""
        held = self._held.get(call_id)
        if held is None:
            return
        keys = keys_of(held.workspace)
        names = (keys.state, keys.holds, keys.ended_call(call_id), *held.counters.keys)
        await self._state.run(VOID, held.workspace, names, call_id, ENDED_S)
        self.forget(call_id)

    async def restore(self) -> None:
        """Place again the holds that Redis has lost. Those that it still has stay as they are."""
        for held in list(self._held.values()):
            if held.request:
                await self._run_hold(held.request, held.counters)

    async def _run_hold(
        self,
        request: HoldRequest,
        counters: CallCounters,
        *,
        is_moved: bool = False,
        bucket: Sequence[int] = (),
    ) -> Sequence[str]:
        """Return the answer of ``hold.lua``, within ``TIMEOUT_S``. With ``bucket``, take a token in the same step."""
        began_s = time.monotonic()
        names, arguments = _hold_arguments(request, counters, is_moved=is_moved)
        end_us = None if self._state.was_lost else self._leases.known_end_us(request.workspace)
        if end_us is None:
            async with self._client.timeout():
                end_us = await self._leases.end_us(request.workspace, renew=self._state.was_lost)
        answer = await self._ask(request, end_us, names, arguments, bucket)
        if answer != ["lease"]:
            return answer
        # The token was taken. Only the hold is to be placed again.
        async with self._client.timeout(spent_s=time.monotonic() - began_s):
            end_us = await self._leases.end_us(request.workspace, renew=True)
            return await self._ask(request, end_us, names, arguments, ())

    async def _ask(
        self,
        request: HoldRequest,
        end_us: str,
        names: Sequence[str],
        arguments: Sequence[str | int],
        bucket: Sequence[int],
    ) -> Sequence[str]:
        """Run ``hold.lua`` once, after ``take_token.lua`` where there is a ``bucket``."""
        script, takes = (TAKE_AND_HOLD, [keys_of(request.workspace).takes]) if bucket else (HOLD, [])
        first: tuple[str | int, ...] = (*bucket, request.id, self._leases.owner, end_us)
        answer = await self._state.run(script, request.workspace, (*takes, *names), *first, *arguments)
        return cast(Sequence[str], answer)


def _decided(request: HoldRequest, held: _Held, answer: Sequence[str], verb: str = "held") -> Hold | Denial:
    """Return what ``hold.lua`` answered. Keep the request that asks for the same hold again. Raise ``CallNotHeld``."""
    outcome, *found = answer
    if outcome == "held":
        hold = Hold(*map(int, found))
        max_cost = structs.replace(request.max_cost, prompt_nanousd=hold.amount_nanousd, token_picousd=0)
        held.request = structs.replace(request, limits=(), max_cost=max_cost)
        return hold
    if outcome == "denied":
        reason, number, *in_flight = found
        limit = request.limits[int(number) - 1]
        return Denial(cast(DenialReason, reason), limit, *map(int, in_flight))
    raise CallNotHeld(f"a call can't be {verb}: {_REFUSALS[outcome]}")


def _hold_arguments(
    request: HoldRequest, counters: CallCounters, *, is_moved: bool
) -> tuple[list[str], list[str | int]]:
    """Return the KEYS of ``hold.lua``, and its ARGV from the interrupted row on."""
    keys = keys_of(request.workspace)
    names = [keys.state, keys.holds, keys.ended_call(request.id), *counters.keys]
    arguments: list[str | int] = [encode_row(request.interrupted_row), *max_cost_arguments(request.max_cost)]
    arguments += (int(is_moved), len(counters.keys), *counters.ttl_s)
    for limit in request.limits:
        name = keys.counter(limit.counter)
        if name not in names:
            names.append(name)
        arguments += (limit.kind, names.index(name) + 1, limit.maximum)
    return names, arguments


def max_cost_arguments(max_cost: MaxCost) -> tuple[int, ...]:
    """Return the arguments of ``hold.lua`` for a greatest cost: its values and the constants of the rule."""
    flags = (int(max_cost.is_protected), int(max_cost.names_cap))
    return (
        max_cost.prompt_nanousd,
        max_cost.token_picousd,
        max_cost.cap_tokens,
        *flags,
        MAX_ROOM_NANOUSD,
        MIN_SHARE_TOKENS,
    )


def make_exact(max_cost: MaxCost, limits: Sequence[Limit]) -> MaxCost:
    """Return a greatest cost with the same decision, whose numbers a script counts exactly.

    Without a limit on money, the decision is made here. Raise ``CallNotHeld`` when no such cost exists: a prompt or a
    thousand tokens would cost millions of dollars.
    """
    hold = place_hold(max_cost, (), {})
    if isinstance(hold, Hold) and all(limit.kind == "request_cap" for limit in limits):
        max_cost = structs.replace(max_cost, prompt_nanousd=hold.amount_nanousd, token_picousd=0)
    elif max_cost.is_protected and max_cost.token_picousd:
        # No limit leaves more room than this.
        most_tokens = (
            (LARGEST_EXACT - max_cost.prompt_nanousd) * PICOUSD_PER_NANOUSD // max_cost.token_picousd
        )
        max_cost = structs.replace(max_cost, cap_tokens=min(max_cost.cap_tokens, max(most_tokens, 1)))
    thousandths = max_cost.cap_tokens * (PICOUSD_PER_NANOUSD if max_cost.token_picousd else 1)
    is_exact = max(max_cost.prompt_nanousd, thousandths) < LARGEST_EXACT
    if not is_exact or max_cost.token_picousd >= LARGEST_TOKEN_PICOUSD:
        raise CallNotHeld("a call may cost more than can be counted exactly in Redis")
    return max_cost

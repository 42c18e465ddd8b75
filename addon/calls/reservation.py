"""From a routed call to an attempt that may be sent, and from a failed attempt to the next one.

``_reserve`` has the steps that make any attempt ready: find its prices, choose the key, ask operators' policies, check
the limits and hold the money in one step, build the request. Where the second attempt can't be made ready, the failure
of the first one is the answer.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.rate_limit import take_and_hold, take_late_token
from addon.calls.upstream_request import (
    ask_policies,
    find_window_cap_of,
    make_attempt,
    make_hold_request,
    price_next_attempt,
)
from addon.runtime.heavy_work import LIGHT_BODY_BYTES, run_heavy_work
from addon.store.protocol import HoldRequest, StoreUnavailable
from addon.telemetry.logs import log_attempt_failed
from addon.text.errors import ErrorAnswer, no_access_token
from addon.upstream.access_tokens import AccessTokenUnavailable
from policies.circuit_breaker import circuit_of
from policies.completion_cap import find_completion_cap
from policies.exchange import Exchange
from policies.fallback import find_refusal_after_failure
from policies.refusal import Refusal
from policies.route import Route
from policies.spend import Denial, Hold, make_denial_refusal

log = logging.getLogger("tollgate.reservation")

PlaceHold = Callable[[HoldRequest], Awaitable[Hold | Denial]]


async def reserve_first(call: Call, deps: Dependencies) -> UpstreamAttempt:
    """Return the first attempt of a routed call, dispatched.

    Where the circuit of the route's first attempt is open, this is the route's second one. Raises Refusal,
    StoreUnavailable or AccessTokenUnavailable.
    """
    if deps.store.known_circuits and (attempt := await _skip_open_circuit(call, deps)):
        return _dispatch(call, attempt)
    # A hold that was placed for the second attempt, which could not be made ready, moves to the first.
    place: PlaceHold = deps.store.move_hold if call.exchange.next_hold else deps.store.hold
    if call.without_token is not None:
        place = partial(take_and_hold, call, deps)
    try:
        made = await _reserve(call, deps, place)
    except AccessTokenUnavailable:
        if attempt := await _fall_back_without_token(call, deps):
            return attempt
        raise
    if isinstance(made, Denial):
        raise make_denial_refusal(made, call.exchange.created_at)
    return _dispatch(call, made)


async def reserve_next(call: Call, deps: Dependencies, failure: ErrorAnswer) -> UpstreamAttempt | None:
    """Return the attempt after the one that ended in ``failure``, dispatched; None where none follows.

    Raises Refusal where the client gets that refusal instead of the failure.
    """
    failed, attempt = call.exchange, call.current
    try:
        next_attempt = await _fall_back(call, deps)
    except Exception:
        # Neither the answer nor the ledger row will contain this failure.
        log_attempt_failed(failed, failure, "none may follow")
        raise
    if next_attempt is None:
        return None
    log_attempt_failed(failed, failure, "another follows")
    call.failed, call.first_failure = attempt, failure
    return _dispatch(call, next_attempt)


async def _fall_back(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """Return the second attempt of a call, ready; None where the first one's failure is the answer."""
    exchange, refusal = call.exchange, call.exchange.route.fallback_refusal
    if refusal:
        raise refusal.copy()  # Calls share a route.
    if not exchange.next_target:
        return None
    try:
        made = await _reserve(call, deps, deps.store.move_hold)
    except (Refusal, StoreUnavailable, AccessTokenUnavailable) as reason:
        _log_no_fallback(exchange, _loggable(reason))
        return None
    if not isinstance(made, Denial):
        return made
    if refusal := find_refusal_after_failure(made, exchange.target, exchange.created_at):
        raise refusal
    _log_no_fallback(exchange, f"a limit has no room ({made.reason})")
    return None


async def _fall_back_without_token(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """As ``reserve_next``, for a provider without an access token. It counts as unreachable."""
    route = call.exchange.route
    if len(route.targets) == 1 and route.fallback_refusal is None:
        return None
    # It counts as an attempt, but nothing was sent. If no other follows, the call is refused.
    call.exchange = call.exchange.skip_attempt()
    return await reserve_next(call, deps, no_access_token())


async def _skip_open_circuit(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """Return the second attempt, ready, where the circuit of the first is open; None where the first is to be made.

    An open circuit never refuses a call: where the second attempt can't be made ready, the first is made.
    """
    routed, route = call.exchange, call.exchange.route
    if len(route.targets) == 1:
        return None
    first, second = [circuit_of(target, routed.workspace) for target in route.targets]
    if not deps.store.is_circuit_open(first) or deps.store.is_circuit_open(second):
        return None
    await take_late_token(call, deps)
    if await deps.store.circuit_allows(first, routed.id):
        return None
    call.exchange = routed.with_route(Route(route.targets[1:], route.decided_by))
    try:
        made = await _reserve(call, deps, deps.store.hold)
    except (Refusal, AccessTokenUnavailable):
        made = None
    if isinstance(made, UpstreamAttempt):
        return made
    call.exchange = call.exchange.with_route(route)
    return None


async def _reserve(call: Call, deps: Dependencies, place: PlaceHold) -> UpstreamAttempt | Denial:
    """Make the next attempt of a call ready, or return the limit that has no room for it.

    Raises Refusal, StoreUnavailable, AccessTokenUnavailable or PolicyFailed.
    """
    price_next_attempt(call, deps.clock.now())
    # The row of an interrupted call has the number of its key.
    key_target = deps.platform_keys.choose(call.exchange.next_target)
    call.exchange = call.exchange.with_next_target(key_target)
    body_bytes = call.chat.body_bytes
    is_light = body_bytes <= LIGHT_BODY_BYTES
    _, cap_tokens = ask_policies(call)
    if call.exchange.next_target.model.family.cap_within_window:
        window_cap = await run_heavy_work(body_bytes, find_window_cap_of, call, cap_tokens)
        cap_tokens = find_completion_cap(cap_tokens, window_cap)
    if is_light:
        request = make_hold_request(call, cap_tokens)
    else:
        request = await run_heavy_work(body_bytes, make_hold_request, call, cap_tokens)
    decided = await place(request)
    if isinstance(decided, Denial):
        return decided
    call.exchange = call.exchange.with_hold(decided)
    target = await deps.access_tokens.authorize(key_target)
    if target is not call.exchange.next_target:
        call.exchange = call.exchange.with_next_target(target)
    if is_light:
        return make_attempt(call, key_target, cap_tokens, decided)
    return await run_heavy_work(body_bytes, make_attempt, call, key_target, cap_tokens, decided)


def _dispatch(call: Call, attempt: UpstreamAttempt) -> UpstreamAttempt:
    if call.without_token is not None:
        raise RuntimeError(f"call {call.exchange.id}: it has not taken its token")
    call.exchange, call.current = call.exchange.dispatch(), attempt
    return attempt


def _log_no_fallback(exchange: Exchange, why: str) -> None:
    fields = {"event": "no fallback", "id": exchange.id}
    log.warning("no fallback for a call: %s", why, extra=fields)


def _loggable(reason: Exception) -> str:
    """Return a text for the log. For a refusal, return only its code: its message may quote the client."""
    return f"it is refused ({reason.code})" if isinstance(reason, Refusal) else str(reason)

"""From a routed call to an attempt that may be sent, and from a failed attempt to the next.

``_reserve`` has the steps that make any attempt ready: operators' policies are asked, its money is held in the step
that checks the limits, it gets the key that it is made with, and its request is built. A failure that keeps a second
attempt from being made leaves the first one's failure as the answer.
"""

import logging
from collections.abc import Awaitable, Callable

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.upstream_request import hold_request, make_attempt, reviewed_cap
from addon.runtime.heavy_work import work_off
from addon.store.protocol import HoldRequest, StoreUnavailable
from addon.telemetry.logs import log_attempt_failed
from addon.text.errors import ErrorAnswer, no_access_token
from addon.upstream.access_tokens import AccessTokenUnavailable
from policies.circuit_breaker import circuit_of
from policies.exchange import Exchange
from policies.fallback import refusal_after_failure
from policies.model import Route
from policies.refusal import Refusal
from policies.spend import Denial, Hold, refusal_of

log = logging.getLogger("tollgate.reservation")

Place = Callable[[HoldRequest], Awaitable[Hold | Denial]]


async def reserve_first(call: Call, deps: Dependencies) -> UpstreamAttempt:
    """Return a routed call's first attempt, dispatched. Raises Refusal, StoreUnavailable or AccessTokenUnavailable."""
    if attempt := await _pass_over(call, deps):
        return _dispatch(call, attempt)
    # The hold of a second attempt that could not be made is moved to the first.
    place = deps.store.move_hold if call.exchange.next_hold else deps.store.hold
    try:
        made = await _reserve(call, deps, place)
    except AccessTokenUnavailable:
        if attempt := await _after_no_token(call, deps):
            return attempt
        raise
    if isinstance(made, Denial):
        raise refusal_of(made, call.exchange.created_at)
    return _dispatch(call, made)


async def reserve_next(call: Call, deps: Dependencies, failure: ErrorAnswer) -> UpstreamAttempt | None:
    """Return the attempt that follows the one which ended in ``failure``, dispatched; None where none does.

    Raises Refusal where the client is to be told that in place of the failure.
    """
    failed, attempt = call.exchange, call.current
    try:
        following = await _next_attempt(call, deps)
    except Exception:
        # Neither the answer nor the row will say anything of this failure.
        log_attempt_failed(failed, failure, "none may follow")
        raise
    if following is None:
        return None
    log_attempt_failed(failed, failure, "another follows")
    call.failed, call.first_failure = attempt, failure
    return _dispatch(call, following)


async def _next_attempt(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    exchange, barred = call.exchange, call.exchange.routed.barred
    if barred:
        raise barred
    if not exchange.has_next_attempt:
        return None
    try:
        made = await _reserve(call, deps, deps.store.move_hold)
    except (Refusal, StoreUnavailable, AccessTokenUnavailable) as reason:
        _log_no_fallback(exchange, _why(reason))
        return None
    if not isinstance(made, Denial):
        return made
    if refusal := refusal_after_failure(made, exchange.attempt, exchange.created_at):
        raise refusal
    _log_no_fallback(exchange, f"a limit has no room ({made.reason})")
    return None


async def _after_no_token(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """As ``reserve_next``: a provider that wants a token is as good as out of reach where none can be had."""
    route = call.exchange.routed
    if len(route.attempts) == 1 and route.barred is None:
        return None
    # It counts as an attempt, but nothing was sent: if nothing follows either, the call is refused.
    call.exchange = call.exchange.skip()
    return await reserve_next(call, deps, no_access_token())


async def _pass_over(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """Return the second attempt where the first one's provider keeps failing, None where the first is to be made.

    A circuit is no reason to refuse what might be served: where the second can't be made, the first is.
    """
    routed, route = call.exchange, call.exchange.routed
    if len(route.attempts) == 1:
        return None
    workspace, _ = routed.caller
    first, second = (circuit_of(attempt, workspace) for attempt in route.attempts)
    if not deps.store.is_circuit_open(first) or deps.store.is_circuit_open(second):
        return None
    if await deps.store.circuit_allows(first, routed.id):
        return None
    call.exchange = routed.note(route=Route(route.attempts[1:], route.decided_by))
    try:
        made = await _reserve(call, deps, deps.store.hold)
    except (Refusal, AccessTokenUnavailable):
        made = None
    if isinstance(made, UpstreamAttempt):
        return made
    call.exchange = call.exchange.note(route=route)
    return None


async def _reserve(call: Call, deps: Dependencies, place: Place) -> UpstreamAttempt | Denial:
    """Make the next attempt of a call ready, or say which limit has no room for it.

    Raises Refusal, StoreUnavailable, AccessTokenUnavailable, or PolicyFailed.
    """
    body_bytes = call.chat.body_bytes
    _, cap_tokens = reviewed_cap(call)
    decided = await place(await work_off(body_bytes, hold_request, call, cap_tokens))
    if isinstance(decided, Denial):
        return decided
    call.exchange = call.exchange.held(decided)
    chosen = deps.platform_keys.choose(call.exchange.next_attempt)
    call.exchange = call.exchange.with_next_attempt(await deps.access_tokens.authorize(chosen))
    return await work_off(body_bytes, make_attempt, call, chosen, cap_tokens, decided)


def _dispatch(call: Call, attempt: UpstreamAttempt) -> UpstreamAttempt:
    call.exchange, call.current = call.exchange.dispatch(), attempt
    return attempt


def _log_no_fallback(exchange: Exchange, why: str) -> None:
    fields = {"event": "no fallback", "id": exchange.id}
    log.warning("no fallback for a call: %s", why, extra=fields)


def _why(reason: Exception) -> str:
    """Return what may be logged: a refusal's words may be the client's."""
    return f"it is refused ({reason.code})" if isinstance(reason, Refusal) else str(reason)

"""From a routed call to an attempt that may be sent, and from a failed attempt to the next one.

``_reserve`` has the steps that make any attempt ready: find its prices, choose the key, ask operators' policies, check
the limits and hold the money in one step, build the request. Where no other attempt can be made ready, the failure of
the first one is the answer.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.hold_request import make_hold_request
from addon.calls.quota_use import begin_quota_use, estimate_for_quotas
from addon.calls.rate_limit import place_hold, take_late_token
from addon.calls.upstream_request import ask_policies, find_window_cap_of, make_attempt, prepare_next_target
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
from policies.route import Target
from policies.spend import Denial, Hold, make_denial_refusal

log = logging.getLogger("tollgate.reservation")

PlaceHold = Callable[[HoldRequest], Awaitable[Hold | Denial]]


async def reserve_first(call: Call, deps: Dependencies) -> UpstreamAttempt:
    """Return the first attempt of a routed call, dispatched.

    It passes over the first targets of its route that are out. Raises Refusal, StoreUnavailable or
    AccessTokenUnavailable.
    """
    if call.exchange.route.has_quota:
        await estimate_for_quotas(call, deps.in_flight.output_medians)
    if _may_be_out(call, deps) and (attempt := await _pass_over_first(call, deps)):
        return _dispatch(call, attempt)
    # A hold that was placed for another attempt, which could not be made ready, moves to the first.
    place: PlaceHold = deps.store.move_hold if call.exchange.next_hold else partial(place_hold, call, deps)
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
    if call.first_failure is None:
        call.failed, call.first_failure = attempt, failure
    return _dispatch(call, next_attempt)


async def _fall_back(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """Return the next attempt that can be made ready; None where the failure of the first one is the answer."""
    refusal = call.exchange.route.fallback_refusal
    while call.exchange.next_target:
        _pass_over_next(call, deps)
        try:
            made = await _reserve(call, deps, deps.store.move_hold)
        except StoreUnavailable as reason:
            _log_no_fallback(call.exchange, str(reason))
            return None
        except (Refusal, AccessTokenUnavailable) as reason:
            _log_no_fallback(call.exchange, _loggable(reason))
        else:
            if not isinstance(made, Denial):
                return made
            exchange = call.exchange
            denied = find_refusal_after_failure(
                made, exchange.target, exchange.next_target, exchange.created_at
            )
            if denied:
                raise denied
            _log_no_fallback(call.exchange, f"a limit has no room ({made.reason})")
        call.exchange = call.exchange.skip_target()
    if refusal:
        raise refusal.copy()  # Calls share a route.
    return None


async def _fall_back_without_token(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """As ``reserve_next``, for a provider without an access token. It counts as unreachable."""
    route = call.exchange.route
    if len(route.targets) == 1 and route.fallback_refusal is None:
        return None
    # Nothing was sent, so it is no attempt. If no other follows, the call is refused.
    call.exchange = call.exchange.skip_held_target()
    return await reserve_next(call, deps, no_access_token())


def _may_be_out(call: Call, deps: Dependencies) -> bool:
    return call.exchange.route.has_quota or bool(deps.store.known_circuits) or deps.platform_keys.has_rests


def _is_out(call: Call, deps: Dependencies, target: Target) -> bool:
    """Return whether another target should serve: the circuit is open, or there is no quota left."""
    return _lacks_quota(call, deps, target) or deps.store.is_circuit_open(
        circuit_of(target, call.exchange.workspace)
    )


def _lacks_quota(call: Call, deps: Dependencies, target: Target) -> bool:
    """Return whether the vendor is known to refuse the key, or the place is full."""
    keys = deps.platform_keys
    is_full = target.model.quota is not None and keys.quotas.is_full(target, call.quota_tokens)
    return is_full or (keys.has_rests and keys.is_resting(target, call.exchange.workspace.id))


def _find_first_in(call: Call, deps: Dependencies) -> int:
    """Return the place in the route of the first target that is not out; 0 where all are."""
    targets = call.exchange.route.targets
    return next((at for at, one in enumerate(targets) if not _is_out(call, deps, one)), 0)


async def _pass_over_first(call: Call, deps: Dependencies) -> UpstreamAttempt | None:
    """Return the attempt at the first target that is not out, ready; None where that is the route's first.

    This never refuses a call: where all are out, or the other attempt can't be made ready, the first is made.
    """
    routed, route = call.exchange, call.exchange.route
    if not _find_first_in(call, deps):
        return None
    await take_late_token(call, deps)
    # Meanwhile others may have filled a place.
    first_in = await _find_probe(call, deps, route.targets[: _find_first_in(call, deps)])
    if not first_in:
        return None
    call.exchange = routed.with_route(replace(route, targets=route.targets[first_in:]))
    try:
        made = await _reserve(call, deps, partial(place_hold, call, deps))
    except (Refusal, AccessTokenUnavailable):
        made = None
    if isinstance(made, UpstreamAttempt):
        return made
    call.exchange = call.exchange.with_route(route)
    return None


async def _find_probe(call: Call, deps: Dependencies, passed_over: Sequence[Target]) -> int:
    """Return the place in the route of the target that this call may probe; without one, that after all of these."""
    exchange = call.exchange
    for at, target in enumerate(passed_over):
        circuit = circuit_of(target, exchange.workspace)
        if not _lacks_quota(call, deps, target) and await deps.store.circuit_allows(circuit, exchange.id):
            return at
    return len(passed_over)


def _pass_over_next(call: Call, deps: Dependencies) -> None:
    """Pass over the next targets that are out, as long as one follows that is not."""
    if not _may_be_out(call, deps):
        return
    left = call.exchange.route.targets[call.exchange.position :]
    is_out = [_is_out(call, deps, target) for target in left]
    if False in is_out:
        for _ in range(is_out.index(False)):
            call.exchange = call.exchange.skip_target()


async def _reserve(call: Call, deps: Dependencies, place: PlaceHold) -> UpstreamAttempt | Denial:
    """Make the next attempt of a call ready, or return the limit that has no room for it.

    Raises Refusal, StoreUnavailable, AccessTokenUnavailable or PolicyFailed.
    """
    if call.quota_use is not None or call.exchange.next_target.model.quota is not None:
        begin_quota_use(call, deps.platform_keys.quotas)
    prepare_next_target(call, deps.clock.now())
    # The row of an interrupted call has the number of its key.
    key_target = deps.platform_keys.choose(call.exchange.next_target, call.find_affinity)
    call.exchange = call.exchange.with_next_target(key_target)
    body_bytes = call.chat.body_bytes
    is_light = body_bytes <= LIGHT_BODY_BYTES
    _, cap_tokens = ask_policies(call)
    if call.exchange.next_target.model.family.cap_within_window:
        window_cap = await run_heavy_work(body_bytes, find_window_cap_of, call, cap_tokens)
        cap_tokens = find_completion_cap(cap_tokens, window_cap)
    typical_tokens = deps.in_flight.output_medians.find(call.exchange.next_target.model.slug)
    if is_light:
        request = make_hold_request(call, cap_tokens, typical_tokens)
    else:
        request = await run_heavy_work(body_bytes, make_hold_request, call, cap_tokens, typical_tokens)
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
    if call.quota_use is not None:
        call.quota_use.is_dispatched = True
    return attempt


def _log_no_fallback(exchange: Exchange, why: str) -> None:
    fields = {"event": "no fallback", "id": exchange.id}
    log.warning("no fallback for a call: %s", why, extra=fields)


def _loggable(reason: Exception) -> str:
    """Return a text for the log. For a refusal, return only its code: its message may quote the client."""
    return f"it is refused ({reason.code})" if isinstance(reason, Refusal) else str(reason)

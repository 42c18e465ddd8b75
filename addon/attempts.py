"""From a routed call to an attempt that may be sent, and from a failed attempt to the next.

Before each attempt everybody who may bound it is asked, its money is held in the step that checks the limits, and it
gets the key that it is made with. What keeps a second attempt from being made leaves the first one's failure standing.
"""

import logging
from collections.abc import Callable

from mitmproxy import http

from addon.access_tokens import AccessTokens, AccessTokenUnavailable
from addon.call import Call
from addon.errors import ErrorAnswer, no_access_token
from addon.exchange import Exchange
from addon.heavy_work import work_off
from addon.log import log_attempt_failed
from addon.platform_keys import PlatformKeys
from addon.prepare import approve_attempt, hold_request, review_attempt, upstream_request
from addon.store import Store, StoreUnavailable
from policies.breaker import circuit_of
from policies.facts import Route
from policies.fallback import refusal_after_failure
from policies.refusal import Refusal
from policies.spend import Denial, refusal_of

log = logging.getLogger("tollgate.attempts")


class Attempts:
    """Makes the attempts of one process ready."""

    def __init__(self, store: Store, platform_keys: PlatformKeys, access_tokens: AccessTokens) -> None:
        self._store = store
        self._platform_keys = platform_keys
        self._access_tokens = access_tokens

    async def first(self, call: Call) -> http.Request:
        """Return the request of a routed call's first attempt.

        Raises Refusal, StoreUnavailable or AccessTokenUnavailable.
        """
        if await self._pass_over(call):
            return await _approve(call)
        review_attempt(call)
        await self._hold(call)
        try:
            await self._authorize(call)
        except AccessTokenUnavailable:
            if request := await self._after_no_token(call):
                return request
            raise
        return await _approve(call)

    async def _after_no_token(self, call: Call) -> http.Request | None:
        """As ``follow``: a provider that wants a token is as good as out of reach where none can be had."""
        route = call.exchange.routed
        if len(route.attempts) == 1 and route.barred is None:
            return None
        # It counts as an attempt, but nothing was sent: if nothing follows either, the call is refused.
        call.exchange = call.exchange.note(attempts=1)
        return await self.follow(call, no_access_token())

    async def follow(self, call: Call, failure: ErrorAnswer) -> http.Request | None:
        """Return the request of the attempt that follows the one which ended in ``failure``, None where none does.

        Raises Refusal where the client is to be told that in place of the failure.
        """
        failed = call.exchange
        try:
            request = await self._next_request(call)
        except Exception:
            # Neither the answer nor the row will tell of this failure.
            log_attempt_failed(failed, failure, "none may follow")
            raise
        if request:
            call.first_failure = failure
            log_attempt_failed(failed, failure, "another follows")
        return request

    async def _next_request(self, call: Call) -> http.Request | None:
        exchange, barred = call.exchange, call.exchange.routed.barred
        if barred:
            raise barred
        if not exchange.has_next_attempt:
            return None
        try:
            review_attempt(call)
            decided = await self._store.move(await _work_off(call, hold_request))
            if not isinstance(decided, Denial):
                call.exchange = exchange.held(decided)
                await self._authorize(call)
                return await _approve(call)
        except (Refusal, StoreUnavailable, AccessTokenUnavailable) as reason:
            _log_no_fallback(exchange, _why(reason))
            return None
        if refusal := refusal_after_failure(decided, exchange.attempt, exchange.created_at):
            raise refusal
        _log_no_fallback(exchange, f"a limit has no room ({decided.reason})")
        return None

    async def _pass_over(self, call: Call) -> bool:
        """Begin with the second attempt, and hold its money, where the first one's provider keeps failing.

        Only where the second could really be sent: a circuit is no reason to refuse what might be served.
        """
        routed, route = call.exchange, call.exchange.routed
        if len(route.attempts) == 1:
            return False
        workspace, _ = routed.caller
        first, second = (circuit_of(attempt, workspace) for attempt in route.attempts)
        if not self._store.is_open(first) or self._store.is_open(second):
            return False
        if await self._store.may_try(first, routed.id):
            return False
        call.exchange = routed.note(route=Route(route.attempts[1:], route.decided_by))
        try:
            review_attempt(call)
            await self._authorize(call)
            await _work_off(call, upstream_request)
            await self._hold(call)
        except (Refusal, AccessTokenUnavailable):
            call.exchange = routed
            return False
        return True

    async def _hold(self, call: Call) -> None:
        decided = await self._store.hold(await _work_off(call, hold_request))
        if isinstance(decided, Denial):
            raise refusal_of(decided, call.exchange.created_at)
        call.exchange = call.exchange.held(decided)

    async def _authorize(self, call: Call) -> None:
        call.chosen = self._platform_keys.choose(call.exchange.next_attempt)
        attempt = await self._access_tokens.authorize(call.chosen)
        call.exchange = call.exchange.with_next_attempt(attempt)


async def _approve(call: Call) -> http.Request:
    return approve_attempt(call, await _work_off(call, upstream_request))


async def _work_off[Made](call: Call, work: Callable[[Call], Made]) -> Made:
    return await work_off(call.chat.body_bytes, work, call)


def _log_no_fallback(exchange: Exchange, why: str) -> None:
    fields = {"event": "no fallback", "id": exchange.id}
    log.warning("no fallback for a call: %s", why, extra=fields)


def _why(reason: Exception) -> str:
    """A refusal's words may be the client's."""
    return f"it is refused ({reason.code})" if isinstance(reason, Refusal) else str(reason)

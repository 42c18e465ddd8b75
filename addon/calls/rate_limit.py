"""The rate limits of a call: each takes a token of its workspace's bucket. Without one, it is refused.

| a call | takes its token |
|---|---|
| whose whole body came with its head or just after it, without operators' policies | in one step with its hold |
| any other | before its body is read |

A refusal for the rate comes before any refusal for the body or the money. So a call that fails before its hold takes
its token then, and without a token it is refused for the rate instead. A workspace whose bucket was empty at the last
take probably has no token now. Its calls take theirs first, so that the gateway does not read bodies in vain.

Tokens a minute, and the rates of users and tags, are known with the body alone. So where such a limit applies, a call
takes them in one step with its hold.
"""

import math

from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.store.protocol import HoldRequest, NoToken
from policies.limits import rpm_of
from policies.refusal import Refusal
from policies.spend import Denial, Hold
from policies.token_limits import TokenDenial, make_token_refusal


async def take_token(call: Call, deps: Dependencies) -> None:
    """Take the token of an identified call. Raises Refusal ``rate_limit_exceeded`` or StoreUnavailable."""
    limits = call.settings.conf.limits
    limit_rpm = rpm_of(call.exchange.workspace, limits.standard_rpm, limits.pro_rpm)
    if wait_us := await deps.store.take_token(call.exchange.workspace.id, limit_rpm):
        raise _refusal(limit_rpm, wait_us)


def take_token_later(call: Call, deps: Dependencies) -> bool:
    """Mark an identified call, whose whole body is here, to take its token with its hold. Return whether it may."""
    if call.settings.policies or call.exchange.workspace.id in deps.store.empty_buckets:
        return False
    call.without_token = call.exchange
    return True


async def take_late_token(call: Call, deps: Dependencies) -> None:
    """Take the token that a call was to take with its hold, if it has not done so. Raises as ``take_token``."""
    identified, call.without_token = call.without_token, None
    if identified is not None:
        before, call.exchange = call.exchange, identified
        await take_token(call, deps)
        call.exchange = before


async def place_hold(call: Call, deps: Dependencies, request: HoldRequest) -> Hold | Denial:
    """Place the first hold of a call, and take in the same step its token, if it has none, and its tokens a minute.

    Raises as ``take_token``.
    """
    identified, call.without_token = call.without_token, None
    if identified is None and request.tokens is None:
        return await deps.store.hold(request)
    limits = call.settings.conf.limits
    limit_rpm = rpm_of(call.exchange.workspace, limits.standard_rpm, limits.pro_rpm)
    decided = await deps.store.take_and_hold(request, 0 if identified is None else limit_rpm)
    if isinstance(decided, TokenDenial):
        raise make_token_refusal(decided)
    if not isinstance(decided, NoToken):
        return decided
    if identified is not None:
        call.exchange = identified  # The log line shows what is known when the rate is checked.
    raise _refusal(limit_rpm, decided.wait_us)


def _refusal(limit_rpm: int, wait_us: int) -> Refusal:
    message = f"The workspace's limit of {limit_rpm} requests a minute is reached."
    return Refusal("rate_limit_exceeded", message, retry_after_s=math.ceil(wait_us / 1_000_000))

"""Who may call: decided from the head of a request, before its body is read."""

import math

from addon.calls.authentication import authenticate, parse_bearer
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.endpoints import bearer_header, check_size
from addon.text.http_heads import RequestHead
from policies.exchange import Stage
from policies.limits import rpm_of
from policies.refusal import Refusal


async def admit(call: Call, head: RequestHead, deps: Dependencies) -> None:
    """Let a call in: its size, its key, its workspace's calls in flight and rate. Raises Refusal, StoreUnavailable."""
    limits = call.settings.conf.limits
    check_size(head, limits.max_request_bytes)
    workspace, key = authenticate(call.settings.keys, parse_bearer(bearer_header(head)))
    call.exchange = call.exchange.advance(Stage.IDENTIFIED, workspace=workspace, key=key)
    deps.in_flight.open(call)
    limit_rpm = rpm_of(workspace, limits.standard_rpm, limits.pro_rpm)
    if wait_us := await deps.store.take_token(workspace.id, limit_rpm):
        message = f"The workspace's limit of {limit_rpm} requests a minute is reached."
        raise Refusal("rate_limit_exceeded", message, retry_after_s=math.ceil(wait_us / 1_000_000))
    call.exchange = call.exchange.advance(Stage.ADMITTED)

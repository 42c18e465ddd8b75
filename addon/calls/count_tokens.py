"""``POST /v1/messages/count_tokens``: how many tokens the prompt of a Messages request has.

The provider's own count of the model that would serve the call first, where it has one and answers in time, else the
gateway's estimate, which is nearly always higher. A count takes a token of the workspace's rate. It costs nothing, so
no limit of money applies, and it has no row. Source: docs/apis-messages.md, "Counting tokens".
"""

import logging
from functools import partial
from typing import Final

from msgspec.structs import replace

from addon.apis.messages.parse import parse_messages
from addon.calls.attempt import origin_of, request_head
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.native_request import find_hosted_tools
from addon.calls.request_body import read_request
from addon.calls.responses import make_json_response
from addon.calls.settlement import OK
from addon.calls.upstream_request import accept_route, find_route, note_request
from addon.dialects import TOKEN_COUNTERS
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import TokenCounter
from addon.runtime.deadline import within
from addon.runtime.heavy_work import run_heavy_work
from addon.text.http_heads import ResponseHead
from addon.text.json_encode import encode_json
from addon.upstream.access_tokens import AccessTokenUnavailable
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Unreachable
from addon.upstream.pool import PoolFull
from addon.wire.stream import Stream
from policies.circuit_breaker import circuit_of
from policies.route import Target

log = logging.getLogger("tollgate.count_tokens")

TIMEOUT_S: Final = 5.0
"""How long a provider may take to count, its connection included. Then the estimate is the answer."""
MAX_ANSWER_BYTES: Final = 65_536

_parse = partial(parse_messages, counts_only=True)


async def count_tokens(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Answer an admitted call. Raises Refusal, as a call that asks for an answer would, or ClientLeft."""
    note_request(call, await read_request(call, stream, deps.bodies, _parse))
    body_bytes = call.chat.body_bytes
    accept_route(call, await run_heavy_work(body_bytes, find_route, call, deps.speeds))
    model = call.exchange.next_target.model
    tokens = await _ask_provider(call, stream, deps)
    source = "estimate" if tokens is None else "provider"
    if tokens is None:
        tokens = await run_heavy_work(body_bytes, call.chat.prompt_tokens, model.family)
    await stream.respond(make_json_response(call, encode_json({"input_tokens": tokens})))
    _log_count(call, source)
    deps.in_flight.end_free(call)


def _log_count(call: Call, source: str) -> None:
    exchange = call.exchange
    fields = {
        "event": "tokens counted",
        "id": exchange.id,
        "workspace": exchange.workspace.id,
        "key_id": exchange.key.id,
        "slug": exchange.next_target.model.slug,
        "source": source,
    }
    log.info("the tokens of a prompt were counted", extra=fields)


async def _ask_provider(call: Call, stream: Stream, deps: Dependencies) -> int | None:
    """Return the provider's count; None where it has none, is known to fail, fails now, or is late."""
    target = call.exchange.next_target
    counter = TOKEN_COUNTERS.get(target.model.provider.dialect)
    if counter is None or _is_out(call, deps, target):
        return None
    with stream.while_connected():
        try:
            async with within(TIMEOUT_S):
                return await _count_at(target, counter, call, deps)
        except (
            *(TimeoutError, UpstreamConnectionError, Unreachable, PoolFull, AccessTokenUnavailable, OSError),
        ):
            return None


async def _count_at(target: Target, counter: TokenCounter, call: Call, deps: Dependencies) -> int | None:
    chosen = deps.platform_keys.choose(target, call.find_affinity)
    target = await deps.access_tokens.authorize(chosen)
    request = await run_heavy_work(call.chat.body_bytes, _make_request, target, counter, call)
    try:
        head, content = await _send(target, request, call, deps, fresh=False)
    except UpstreamConnectionError:
        # Probably the provider closed an idle connection at that moment. To count twice costs nothing.
        head, content = await _send(target, request, call, deps, fresh=True)
    return counter.read(content) if head.status == OK else None


async def _send(
    target: Target, request: UpstreamRequest, call: Call, deps: Dependencies, *, fresh: bool
) -> tuple[ResponseHead, bytes]:
    """Return the answer to a request, its body empty where it is too large."""
    workspace = call.exchange.workspace.id
    origin = origin_of(target, request, workspace)
    connection = await deps.pool.acquire(origin, workspace, TIMEOUT_S, fresh=fresh)
    try:
        signature = request.sign(deps.clock.now())
        connection.send(request_head(request, signature=signature), request.content)
        return await connection.head(), await _read_bounded(connection)
    finally:
        # The pool keeps the connection if the message is complete, and closes it otherwise.
        connection.release()


def _make_request(target: Target, counter: TokenCounter, call: Call) -> UpstreamRequest:
    chat = call.chat
    if chat.native is None:
        raise RuntimeError(f"call {call.exchange.id}: it has no request of its own API")
    request = counter.request(target, chat.native, find_hosted_tools(call, target.model))
    if chat.large is not None:
        request = replace(request, content=chat.large.restore(request.content))
    return request


async def _read_bounded(connection: UpstreamConnection) -> bytes:
    body = bytearray()
    while piece := await connection.read():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            return b""
    return bytes(body)


def _is_out(call: Call, deps: Dependencies, target: Target) -> bool:
    """Return whether the provider is known to fail, or to refuse each key."""
    store, keys, workspace = deps.store, deps.platform_keys, call.exchange.workspace
    is_open = bool(store.known_circuits) and store.is_circuit_open(circuit_of(target, workspace))
    return is_open or (keys.has_rests and keys.is_resting(target, workspace.id))

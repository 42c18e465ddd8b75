"""One call from top to bottom: ``serve`` is the coroutine that each request runs.

Admission, body, route, attempts, and the answer. The attempt that answers also settles the call.
"""

import asyncio
import re
from typing import Final

from addon.apis import APIS
from addon.calls.attempt import UpstreamAttempt
from addon.calls.attempt_runner import AttemptRunner
from addon.calls.authentication import authenticate, read_token
from addon.calls.call_state import Call
from addon.calls.count_tokens import count_tokens
from addon.calls.dependencies import Dependencies
from addon.calls.endpoints import (
    API_NAMES,
    Endpoint,
    allowed_methods,
    api_name_of,
    endpoint_of,
    list_shape_of,
    slug_in_path,
)
from addon.calls.rate_limit import take_late_token, take_token, take_token_later
from addon.calls.request_body import check_size, declared_length, read_request
from addon.calls.reservation import reserve_first, reserve_next
from addon.calls.responses import (
    make_call_error,
    make_catalog_response,
    make_probe_response,
)
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.runtime.heavy_work import LIGHT_BODY_BYTES, run_heavy_work
from addon.store.protocol import StoreUnavailable
from addon.telemetry.logs import log_attempt_failed
from addon.text.errors import INTERNAL_ERROR, LIMITS_UNAVAILABLE, ErrorAnswer, no_access_token, refusal_error
from addon.text.http_heads import Headers, RequestHead
from addon.text.masking import mask_credentials
from addon.text.retry_after import with_advice
from addon.upstream.access_tokens import AccessTokenUnavailable
from addon.wire.stream import ClientLeft, Stream
from policies.exchange import ApiName, Exchange
from policies.refusal import Refusal
from policies.token_limits import TokenRefusal
from policies.trace_context import TraceContext

LATE_BODY_S = 0.005
"""How long a call waits for a body of usual size before it is admitted by its head alone.

Many clients write head and body one after the other. A call whose whole body is there needs no deadline for it. It
takes its token and its hold in one step.
"""

_UNSERVED: Final = frozenset({404, 405})
"""The statuses of requests that nothing serves: their log lines show method and path."""
_UNSERVED_CODES: Final = frozenset({"not_found", "method_not_allowed"})
_CLIENT_REQUEST_ID = re.compile(r"[ -~]{1,512}")
"""Printable ASCII, as OpenAI accepts it in this header."""


def begin(deps: Dependencies) -> Call:
    """Return a new call. It keeps the settings of this moment."""
    exchange = Exchange(deps.new_id(), deps.clock.now(), deps.clock.monotonic_s())
    return Call(exchange, deps.settings)


async def serve(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Serve one request to its end, even if the client leaves or the gateway refuses the call."""
    try:
        endpoint = endpoint_of(stream.head)
        if endpoint is not Endpoint.CHAT:
            if endpoint not in API_NAMES:
                await _serve_plain(call, endpoint, stream, deps)
                return
            _note_api(call, API_NAMES[endpoint])
            if endpoint is Endpoint.COUNT_TOKENS:
                await admit(call, stream.head, deps)
                await count_tokens(call, stream, deps)
                return
        headers = stream.head.headers
        if "traceparent" in headers or "x-client-request-id" in headers:
            _note_client_ids(call, headers)
        has_whole_body = stream.has_whole_body
        if not has_whole_body and 0 < declared_length(stream.head) <= LIGHT_BODY_BYTES:
            await stream.wait_for_body(LATE_BODY_S)
            has_whole_body = stream.has_whole_body
        await admit(call, stream.head, deps, has_whole_body=has_whole_body)
        attempt: UpstreamAttempt | None = await _prepare(call, stream, deps)
        while attempt and (failed := await AttemptRunner(call, attempt, stream, deps).run()):
            failure = with_advice(failed, attempt.advice)
            deps.in_flight.note_attempt_end(call, attempt, failure)
            attempt = await _next_attempt(call, attempt, failure, stream, deps)
            if attempt is None:
                if call.first_failure and call.first_byte_s is None:
                    log_attempt_failed(call.exchange, failure, "the client gets the failure of the first")
                await _answer_failure(call, failure, stream, deps)
    except Exception as fault:  # noqa: BLE001  (``_end_early`` raises what it does not know)
        await _end_early(call, stream, deps, fault)


def _note_api(call: Call, name: ApiName) -> None:
    """Note the API of a request, for its answer and its row."""
    call.api, call.exchange = APIS[name], call.exchange.with_api(name)


def _note_client_ids(call: Call, headers: Headers) -> None:
    """Note the trace of a request and its client's own id. Ignore what is malformed: neither may fail a call."""
    trace = TraceContext.parse(headers.get("traceparent", ""), headers.get("tracestate", ""))
    request_id = headers.get("x-client-request-id", "")
    is_usable = _CLIENT_REQUEST_ID.fullmatch(request_id)
    call.exchange = call.exchange.with_client_ids(trace, mask_credentials(request_id) if is_usable else None)


async def _end_early(call: Call, stream: Stream, deps: Dependencies, fault: Exception) -> None:
    match fault:
        case ClientLeft():
            await deps.in_flight.abandon(call)
        case Refusal():
            if fault.code in _UNSERVED_CODES:
                _note_api(call, api_name_of(stream.head))
            if isinstance(fault, TokenRefusal):
                deps.in_flight.metrics.count_minute_refusal(fault.owner, fault.unit)
            await refuse(call, stream, deps, refusal_error(fault))
        case AccessTokenUnavailable():
            await refuse(call, stream, deps, no_access_token())
        case StoreUnavailable():
            # ``MeasuredStore`` logs it once. Calls do not log it.
            await refuse(call, stream, deps, LIMITS_UNAVAILABLE)
        case _:
            raise fault


async def _serve_plain(call: Call, endpoint: Endpoint, stream: Stream, deps: Dependencies) -> None:
    """Answer what needs neither a key nor a body."""
    if endpoint is Endpoint.PROBE:
        await stream.respond(make_probe_response(call.exchange.id))
        return
    head, slug = stream.head, slug_in_path(stream.head)
    match list_shape_of(head):
        case "contract":
            page = deps.catalog.page(slug, deps.clock.now())
        case "anthropic":
            _note_api(call, "messages")
            page = deps.catalog.anthropic_page(slug, head.target.partition("?")[2])
        case "openai":
            page = deps.catalog.openai_page(slug)
    await stream.respond(make_catalog_response(page, head.headers.get("if-none-match", ""), call.exchange.id))


async def _prepare(call: Call, stream: Stream, deps: Dependencies) -> UpstreamAttempt:
    """Return the first attempt of an admitted call, dispatched.

    Where none can be made, a refusal for the rate comes before the other one: see ``rate_limit``.
    """
    try:
        chat = await read_request(call, stream, deps.bodies)
        accept_request(call, chat)
        is_light = chat.body_bytes <= LIGHT_BODY_BYTES
        accept_route(
            call,
            find_route(call, deps.speeds)
            if is_light
            else await run_heavy_work(chat.body_bytes, find_route, call, deps.speeds),
        )
        return await reserve_first(call, deps)
    except Exception:
        await take_late_token(call, deps)
        raise


async def admit(call: Call, head: RequestHead, deps: Dependencies, *, has_whole_body: bool = False) -> None:
    """Admit a call by the head of its request, before its body is read.

    Check its size, its API key, its workspace's calls in flight and its workspace's rate, in this order. Raises Refusal
    or StoreUnavailable. With ``has_whole_body``, the rate may be checked with the money: see ``rate_limit``.
    """
    limits = call.settings.conf.limits
    check_size(head, limits.max_request_bytes)
    credential = authenticate(call.settings.keys, read_token(head, takes_x_api_key=call.api.TAKES_X_API_KEY))
    call.exchange = call.exchange.identify(credential.workspace, credential.key)
    if credential.needs_check:
        deps.in_flight.credential_checker.check(call.exchange, credential)
    deps.in_flight.add(call)
    if not (has_whole_body and take_token_later(call, deps)):
        await take_token(call, deps)
    call.exchange = call.exchange.admit()


async def _next_attempt(
    call: Call, attempt: UpstreamAttempt, failure: ErrorAnswer, stream: Stream, deps: Dependencies
) -> UpstreamAttempt | None:
    """Return the attempt after one that failed, dispatched: at another place, or a retry. None where none follows."""
    step = call.find_next_step(attempt, failure, deps.clock.monotonic_s())
    if step is None:
        return None
    if step.wait_s is not None:
        with stream.while_connected():
            await asyncio.sleep(step.wait_s)
    call.exchange = step.exchange
    call.is_without_reasoning |= step.is_without_reasoning
    return await reserve_next(call, deps, failure)


async def _answer_failure(call: Call, failure: ErrorAnswer, stream: Stream, deps: Dependencies) -> None:
    error = call.finish_with_error(failure)
    await deps.in_flight.settle(call, error.status, error.code)
    if call.is_head_sent:
        await stream.end(_error_event(call, error))
    else:
        await stream.respond(make_call_error(call, error))


async def refuse(call: Call, stream: Stream, deps: Dependencies, error: ErrorAnswer) -> None:
    """End a call with an error of the gateway's own, and answer it. The answer does not wait for the settlement."""
    deps.in_flight.settle_in_background(call, error.status, error.code)
    request_line = (stream.head.method, stream.head.path) if error.status in _UNSERVED else None
    deps.in_flight.refuse(call, error.status, error.code, request_line)
    if stream.is_client_gone or stream.is_ended:
        return
    if call.is_head_sent:
        await stream.end(_error_event(call, error))
        return
    is_allowed_elsewhere = error.code == "method_not_allowed"
    more = [("allow", allowed_methods(stream.head))] if is_allowed_elsewhere else []
    is_connect = stream.head.method == "CONNECT"
    await stream.respond(make_call_error(call, error, more, close=is_connect))


def _error_event(call: Call, error: ErrorAnswer) -> bytes:
    """Return the end of a stream whose head the client has."""
    attempt = call.current
    reader = attempt.reader if attempt else None
    context = attempt.writer_context if attempt else None
    return call.api.error_event(error, call.exchange.id, context, reader.events_sent if reader else 0)


async def fail(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Answer a call in which the gateway itself failed, with ``internal_error``."""
    await refuse(call, stream, deps, INTERNAL_ERROR)

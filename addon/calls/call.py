"""The way of one call, from top to bottom: ``serve`` is the coroutine that each request runs."""

from addon.calls.admission import admit
from addon.calls.attempt_runner import AttemptRunner
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.endpoints import Endpoint, allowed_methods, endpoint_of, slug_in_path
from addon.calls.request_body import read_chat_request
from addon.calls.reservation import reserve_first, reserve_next
from addon.calls.responses import catalog_response, error_response, gateway_fields
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.runtime.heavy_work import work_off
from addon.store.protocol import StoreUnavailable
from addon.text.errors import INTERNAL, LIMITS_UNAVAILABLE, ErrorAnswer, from_refusal, no_access_token
from addon.text.retry_after import with_advice
from addon.upstream.access_tokens import AccessTokenUnavailable
from addon.wire.stream import ClientLeft, Stream
from policies.exchange import Exchange
from policies.refusal import Refusal


def begin(deps: Dependencies) -> Call:
    """Return a new call, which keeps the settings of this moment."""
    exchange = Exchange(deps.new_id(), deps.clock.now(), deps.clock.monotonic_s())
    return Call(exchange, deps.settings)


async def serve(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Serve one request. Where the client leaves, or the gateway says no, the call ends here, too."""
    try:
        if endpoint_of(stream.head) is Endpoint.CHAT:
            await _serve_chat(call, stream, deps)
        else:
            await _serve_catalog(call, stream, deps)
    except ClientLeft:
        await deps.in_flight.abandon(call)
    except Refusal as refusal:
        await refuse(call, stream, deps, from_refusal(refusal))
    except AccessTokenUnavailable:
        await refuse(call, stream, deps, no_access_token())
    except StoreUnavailable:
        # Logged once by ``MeasuredStore``, not by each call.
        await refuse(call, stream, deps, LIMITS_UNAVAILABLE)


async def _serve_catalog(call: Call, stream: Stream, deps: Dependencies) -> None:
    page = deps.catalog.page(slug_in_path(stream.head))
    known = stream.head.headers.get("if-none-match", "")
    await stream.respond(catalog_response(page, known, call.exchange.id))


async def _serve_chat(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Admission, body, route, attempt after attempt. The attempt that answers also books the call."""
    await admit(call, stream.head, deps)
    accept_request(call, await read_chat_request(call, stream, deps.bodies))
    accept_route(call, await work_off(call.chat.body_bytes, find_route, call))
    attempt = await reserve_first(call, deps)
    while failed := await AttemptRunner(call, attempt, stream, deps).run():
        failure = with_advice(failed, attempt.advice)
        deps.in_flight.attempt_ended(call, attempt, failure)
        following = None
        if call.may_go_on(attempt, failure):
            following = await reserve_next(call, deps, failure)
        if following is None:
            await _tell_failure(call, failure, stream, deps)
            return
        attempt = following


async def _tell_failure(call: Call, failure: ErrorAnswer, stream: Stream, deps: Dependencies) -> None:
    told = call.answer_with(failure)
    await deps.in_flight.settle(call, told.status, told.code)
    if call.is_committed:
        await stream.end(told.sse_event())
    else:
        await stream.respond(error_response(told, gateway_fields(call)))


async def refuse(call: Call, stream: Stream, deps: Dependencies, answer: ErrorAnswer) -> None:
    """Answer a call that the gateway turns down or failed, and end it."""
    deps.in_flight.settle_beside(call, answer.status, answer.code)
    deps.in_flight.refuse(call, answer.status, answer.code)
    if stream.has_left or stream.is_ended:
        return
    if call.is_committed:
        await stream.end(answer.sse_event())
        return
    fields = gateway_fields(call)
    if answer.code == "method_not_allowed":
        fields.append(("allow", allowed_methods(stream.head)))
    is_connect = stream.head.method == "CONNECT"
    await stream.respond(error_response(answer, fields, close=is_connect))


async def fail(call: Call, stream: Stream, deps: Dependencies) -> None:
    """Answer a call in which the gateway itself failed."""
    await refuse(call, stream, deps, INTERNAL)

"""From a request body to an upstream request, and from an upstream's head to the reader of its answer.

Only what is built here goes upstream: no header and no unknown field of the client's request is among it. No I/O;
it works on mitmproxy's messages, and stamps those that it makes with the time.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from mitmproxy import http
from mitmproxy.net.http.url import hostport, parse

from addon.call import Call
from addon.chat import ChatRequest
from addon.dialects import DIALECTS
from addon.dialects.upstream_request import UpstreamRequest
from addon.dropped import dropped_header, dropped_in
from addon.errors import upstream_garbage
from addon.exchange import Stage
from addon.mask import bookable
from addon.relay import Broken, ErrorRelay, Guarded, Inflated, Relay
from addon.retry_after import NO_ADVICE, parse_retry_advice
from addon.reviewing import reviewed_call
from addon.source import source_of
from addon.store import HoldRequest
from policies.caps import completion_cap
from policies.facts import Attempt, Route
from policies.limits import limits_of
from policies.refusal import Refusal
from policies.request_facts import request_facts
from policies.review import review
from policies.routing import choose_route
from policies.sanitize import choices_sent, sanitize
from policies.spend import NOT_METERED, Want, wanted


def accept_request(call: Call, chat: ChatRequest) -> None:
    """Note what the body of a chat request asks for."""
    call.request = chat
    call.exchange = call.exchange.note(
        requested_model=bookable(chat.model), end_user=bookable(chat.end_user), stream=chat.stream
    )


def find_route(call: Call) -> Route:
    """Return the route of a call. Raises Refusal ``bad_request``, ``invalid_state`` or ``byok_required``."""
    workspace, _ = call.exchange.caller
    asked = request_facts(call.chat.model, call.chat.fields)
    route = choose_route(asked, workspace, call.settings.models, call.settings.providers)
    _check_custom_name(route.attempts[0].model.slug, call)
    return route


def accept_route(call: Call, route: Route) -> None:
    """Let the call go this way."""
    call.exchange = call.exchange.advance(Stage.ROUTED, route=route)


def _check_custom_name(slug: str, call: Call) -> None:
    """Raise Refusal where a name from outside the catalog holds a key: it would go upstream and into the ledger."""
    if slug not in call.settings.models and slug != call.exchange.requested_model:
        raise Refusal(
            "bad_request",
            "The name of the model holds what looks like a credential; have the model added to the catalog.",
            "model",
        )


def review_attempt(call: Call) -> None:
    """Ask the operators' policies about the next attempt. Raises Refusal, or PolicyFailed where one fails."""
    policies = call.settings.policies
    call.narrowed_tokens = review(reviewed_call(call), policies) if policies else None
    call.cap_tokens = completion_cap(call.chat.requested_cap, call.narrowed_tokens)


def hold_request(call: Call) -> HoldRequest:
    """Return what the next attempt of a reviewed call wants held, and under which limits it stands."""
    exchange, attempt, created_at = call.exchange, call.exchange.next_attempt, call.exchange.created_at
    workspace, key = exchange.caller
    return HoldRequest(
        id=exchange.id,
        created_at=created_at,
        workspace=workspace.id,
        key_id=key.id,
        want=_want(call, attempt, is_protected=workspace.overage_protection),
        limits=limits_of(workspace, key, attempt.mode, created_at),
        interrupted_row=exchange.interrupted_row(),
    )


def _want(call: Call, attempt: Attempt, *, is_protected: bool) -> Want:
    model = attempt.model
    if attempt.mode != "payg":
        return NOT_METERED
    assert model.max_completion_tokens is not None  # noqa: S101  (what is metered is of the catalog)
    sendable = call.chat.sendable(model.family)
    return wanted(
        model.retail,
        prompt_tokens=call.chat.prompt_tokens(model.family),
        cap_tokens=completion_cap(call.cap_tokens, model.max_completion_tokens),
        choices=choices_sent(sendable, model.family),
        is_protected=is_protected,
        names_cap=call.chat.requested_cap is not None,
        uncapped_tokens=model.family.uncapped_completion_tokens,
    )


def approve_attempt(call: Call, upstream: UpstreamRequest) -> http.Request:
    """Approve the next attempt of the route, and return its request."""
    request = _http_request(upstream)
    call.relay = call.upstream_status = call.retry_after = call.head_s = call.failure = None
    call.is_sent = False
    call.advice = NO_ADVICE
    call.exchange = call.exchange.advance(Stage.DISPATCHED, attempts=call.exchange.attempts + 1)
    return request


def upstream_request(call: Call) -> UpstreamRequest:
    """Return the request of the next attempt. Raises Refusal ``validation_failed`` for what its model can't be sent."""
    chat, exchange = call.chat, call.exchange
    attempt = exchange.next_attempt
    budget = exchange.hold.cap_tokens if exchange.hold and attempt.mode == "payg" else None
    cap = completion_cap(call.cap_tokens, attempt.model.max_completion_tokens, budget)
    sendable = chat.sendable(attempt.model.family)
    call.sanitized = sanitize(sendable, attempt.model, cap, chat.stream)
    request = DIALECTS[attempt.model.provider.dialect].request(attempt, call.sanitized.body)
    given, changed = chat.fields.keys() | chat.extras.keys(), dropped_in(call.sanitized.changes)
    call.dropped_by_attempt[exchange.attempts + 1] = dropped_header(
        given, sendable, changed, request.left_out
    )
    return request if chat.large is None else replace(request, content=chat.large.restore(request.content))


def reader_of(call: Call, head: http.Response) -> Relay:
    """Return the reader for the answer that begins with ``head``."""
    attempt = call.exchange.attempt
    dialect = DIALECTS[attempt.model.provider.dialect]
    call.upstream_status, call.retry_after = head.status_code, head.headers.get("retry-after")
    call.advice = parse_retry_advice(head.headers, datetime.now(UTC))
    created_s = int(call.exchange.created_at.timestamp())
    source = source_of(
        attempt,
        created_s,
        _choices_asked(call),
        call_id=call.exchange.id,
        include_usage=call.chat.include_usage,
    )
    relay: Relay
    if not 200 <= head.status_code < 300:
        relay = ErrorRelay(head.status_code, source)
    elif call.exchange.stream:
        relay = dialect.stream(source)
    else:
        relay = dialect.whole(source, call.settings.conf.upstream.max_response_bytes)
    encoding = head.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        relay = Inflated(relay)
    elif encoding not in ("identity", ""):
        unasked = upstream_garbage("it is compressed in a way that was not asked for.")
        relay = Broken(relay.give_up() or unasked)
    return Guarded(relay, attempt.secrets)


def client_head(*, stream: bool, is_fallback: bool) -> http.Response:
    """Return the head of a successful answer. A new one: the upstream's own tells mitmproxy how its message ends."""
    content_type = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    headers = http.Headers([(b"content-type", content_type)])
    if is_fallback and not stream:
        headers["x-gateway-fallback"] = "true"
    return http.Response(b"HTTP/1.1", 200, b"OK", headers, None, None, time.time(), None)


def _choices_asked(call: Call) -> int:
    family = call.exchange.attempt.model.family
    return choices_sent(call.chat.sendable(family), family)


def _http_request(upstream: UpstreamRequest) -> http.Request:
    scheme, host, port, path, authority = _parse_url(upstream.url)
    headers = [(b"host", authority), *((name.encode(), value.encode()) for name, value in upstream.headers)]
    headers.append((b"content-length", b"%d" % len(upstream.content)))
    return http.Request(
        host,
        port,
        b"POST",
        scheme,
        b"",
        path,
        b"HTTP/1.1",
        http.Headers(headers),
        upstream.content,
        None,
        time.time(),
        None,
    )


@lru_cache(maxsize=1024)
def _parse_url(url: str) -> tuple[bytes, str, int, bytes, bytes]:
    """Scheme, host, port, path and ``Host`` of an upstream URL."""
    scheme, host, port, path = parse(url)
    authority = hostport(scheme.decode(), host.decode("idna"), port)
    return scheme, host.decode("idna"), port, path, authority.encode()

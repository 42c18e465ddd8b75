"""The responses that the gateway makes itself: errors, the public catalog, and the headers of a successful answer."""

from collections.abc import Iterable

from addon.calls.call_state import Call
from addon.calls.dropped_fields import HEADER as DROPPED_HEADER
from addon.calls.public_catalog import Page, is_fresh
from addon.text.errors import ErrorAnswer
from addon.text.http_heads import Headers, Response
from addon.text.retry_after import retry_headers

_EVENTS = ("content-type", "text/event-stream; charset=utf-8")
_JSON = ("content-type", "application/json")
CLOSING_STATUSES = frozenset({408, 413})
"""Errors after which the connection is closed: the rest of the body is not worth reading."""


def make_error_response(
    error: ErrorAnswer, more: Iterable[tuple[str, str]], *, body: bytes | None = None, close: bool = False
) -> Response:
    """Return an error, with the nested object of the contract or with ``body``.

    ``more`` are headers, among them ``x-request-id``.
    """
    fields = [_JSON, *more, *retry_headers(error).items()]
    return Response(
        error.status,
        Headers(fields),
        error.body() if body is None else body,
        close or error.status in CLOSING_STATUSES,
    )


def make_call_error(
    call: Call, error: ErrorAnswer, more: Iterable[tuple[str, str]] = (), *, close: bool = False
) -> Response:
    """Return an error as the API of the call words it. ``more`` are headers beside those of every answer."""
    body = call.api.error_body(error, call.exchange.id)
    return make_error_response(
        call.api.advise(error), [*make_gateway_fields(call), *more], body=body, close=close
    )


def make_answer_headers(call: Call) -> Headers:
    """Return the headers of a successful answer. No header of the upstream's is among them."""
    stream = call.exchange.stream
    fields = [_EVENTS if stream else _JSON]
    if call.exchange.target.is_fallback and not stream:
        fields.append(("x-gateway-fallback", "true"))
    return Headers([*fields, *make_gateway_fields(call)])


def make_json_response(call: Call, body: bytes) -> Response:
    """Return a whole answer that the gateway itself makes to a call."""
    return Response(200, Headers([_JSON, *make_gateway_fields(call)]), body)


def make_gateway_fields(call: Call) -> list[tuple[str, str]]:
    """Return the headers that every answer to a call has, successful or not."""
    fields = [(name, call.exchange.id) for name in call.api.ID_FIELDS]
    attempt = call.current if call.exchange.answered_by is None else call.failed
    if attempt and attempt.dropped:
        fields.append((DROPPED_HEADER, attempt.dropped))
    return fields


def make_catalog_response(page: Page, if_none_match: str, request_id: str) -> Response:
    """Return the public catalog, or 304 where the client has it already."""
    fields = [_JSON, ("etag", page.tag), ("cache-control", "no-cache"), ("x-request-id", request_id)]
    if is_fresh(page.tag, if_none_match):
        return Response(304, Headers(fields))
    return Response(200, Headers(fields), page.body)


def make_probe_response(request_id: str) -> Response:
    """Return the answer to a client that asks whether the gateway is there."""
    return Response(200, Headers([("x-request-id", request_id)]))

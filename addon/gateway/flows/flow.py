"""A recording as a flow of mitmproxy. A flow holds only copies, so an addon can't change the call."""

import copy
import time
from collections.abc import Iterable

from mitmproxy.connection import Client, Server
from mitmproxy.flow import Error
from mitmproxy.http import Headers, HTTPFlow, Request
from mitmproxy.http import Response as FlowResponse
from mitmproxy.net.http import status_codes

from addon.gateway.flows.recording import Recording, shown_fields, shown_target
from addon.text.http_heads import Field, RequestHead, ResponseHead
from policies.exchange import Exchange
from policies.money import format_nanousd

_VERSIONS = {"1.0": "HTTP/1.0", "1.1": "HTTP/1.1", "2": "HTTP/2.0"}


def new_flow(head: RequestHead, client: Client) -> HTTPFlow:
    """Return the flow of a request with this head.

    Its server is the gateway itself, so a replay goes there. It is not live, so it can't be killed or resumed.
    """
    flow = HTTPFlow(copy.copy(client), Server(address=client.sockname[:2]), live=False)
    flow.request = _request(head, client)
    return flow


def _request(head: RequestHead, client: Client) -> Request:
    host, port = client.sockname[:2]
    is_connect = head.method == "CONNECT"
    target = shown_target(head.target)
    return Request(
        host=host,
        port=port,
        method=head.method.encode("latin-1"),
        scheme=b"https" if client.tls else b"http",
        authority=(target if is_connect else head.authority).encode("latin-1"),
        path=b"" if is_connect else target.encode("latin-1"),
        http_version=_VERSIONS[head.version].encode(),
        headers=_headers(shown_fields(head.headers.fields)),
        content=None,
        trailers=None,
        timestamp_start=time.time(),
        timestamp_end=None,
    )


def show_request_body(flow: HTTPFlow, recording: Recording) -> None:
    """Add the request's body."""
    flow.request.raw_content = recording.request_body.content()
    flow.request.timestamp_end = time.time()


def show_answer_head(flow: HTTPFlow, answer: ResponseHead, at_s: float) -> None:
    """Add the head of the answer, received at ``at_s``, without a body."""
    has_reason = not flow.request.is_http2
    reason = status_codes.RESPONSES.get(answer.status, "") if has_reason else ""
    flow.response = FlowResponse(
        http_version=flow.request.data.http_version,
        status_code=answer.status,
        reason=reason.encode(),
        headers=_headers(answer.headers.fields),
        content=None,
        trailers=None,
        timestamp_start=at_s,
        timestamp_end=None,
    )


def show_answer_body(flow: HTTPFlow, recording: Recording) -> None:
    """Add as much of the answer's body as the client got."""
    if flow.response is not None:
        has_body = recording.head.method != "HEAD"
        flow.response.raw_content = recording.answer_body.content() if has_body else b""
        flow.response.timestamp_end = time.time()


def show_error(flow: HTTPFlow, message: str) -> None:
    """Add the reason why the answer is not whole."""
    flow.error = Error(message)


def _headers(fields: list[Field] | tuple[Field, ...]) -> Headers:
    return Headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields])


def comment_of(exchange: Exchange, notes: Iterable[str]) -> str:
    """Return the comment of a call that has ended: workspace, slug, provider, tokens, cost, error code, ``notes``.

    Parts that are not known are left out. There are no labels, because mitmweb's list shows only some words.
    """
    return ", ".join([*_parties(exchange), *_outcome(exchange), *notes])


def _parties(exchange: Exchange) -> Iterable[str]:
    if exchange.workspace:
        yield exchange.workspace.id
    if exchange.route:
        yield exchange.target.model.slug
    if exchange.was_sent_upstream:
        yield exchange.target.model.provider.name


def _outcome(exchange: Exchange) -> Iterable[str]:
    if exchange.was_sent_upstream:
        yield _tokens(exchange)
        yield f"{format_nanousd(exchange.retail_nanousd)} USD"
    if exchange.error_code:
        yield f"error {exchange.error_code}"


def _tokens(exchange: Exchange) -> str:
    usage = exchange.usage
    if exchange.usage_source == "none" or usage.total_tokens is None:
        return "no tokens counted"
    parts = f"{usage.prompt_tokens or 0} in, {usage.completion_tokens or 0} out"
    estimated = ", estimated" if exchange.usage_source == "estimated" else ""
    return f"{usage.total_tokens} tokens ({parts}{estimated})"

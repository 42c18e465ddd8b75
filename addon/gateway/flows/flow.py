"""A recording as a flow of mitmproxy. Each part is made from copies, so that nobody who has it has a call's own."""

import copy
import time

from mitmproxy.connection import Client, Server
from mitmproxy.flow import Error
from mitmproxy.http import Headers, HTTPFlow, Request
from mitmproxy.http import Response as FlowResponse
from mitmproxy.net.http import status_codes

from addon.gateway.flows.recording import Recording, shown_fields, shown_target
from addon.text.http_heads import Field, RequestHead, ResponseHead

_VERSIONS = {"1.0": "HTTP/1.0", "1.1": "HTTP/1.1", "2": "HTTP/2.0"}


def new_flow(head: RequestHead, client: Client) -> HTTPFlow:
    """Return the flow of a request whose head is known.

    Its server is the gateway itself, which is where a replay goes. It is not live: there is nothing to kill or resume.
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
    """Add the head of the answer, which came at ``at_s``, and no body."""
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
    """Add the body of the answer, as far as its client got it, after its head."""
    if flow.response is not None:
        has_body = recording.head.method != "HEAD"
        flow.response.raw_content = recording.answer_body.content() if has_body else b""
        flow.response.timestamp_end = time.time()


def show_error(flow: HTTPFlow, message: str) -> None:
    """Say why there is no whole answer."""
    flow.error = Error(message)


def _headers(fields: list[Field] | tuple[Field, ...]) -> Headers:
    return Headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields])

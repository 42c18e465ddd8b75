"""One attempt of a call: what is known of it from its hold to its end, and where and how it is sent. Pure."""

from msgspec import Struct

from addon.answers.reader import AnswerReader
from addon.dialects.http_request import UpstreamRequest
from addon.text.errors import ErrorAnswer
from addon.text.retry_after import NO_ADVICE, RetryAdvice
from addon.upstream.origin import Origin
from policies.route import Target
from policies.sanitize import Sanitized
from policies.spend import Hold


class UpstreamAttempt(Struct):
    """One attempt of a call. It can't be constructed without a hold, and so it can't be sent without one.

    | field | is |
    |---|---|
    | ``target`` | the model, provider and mode, with the secret that is sent: a key or an access token |
    | ``key_target`` | the same target with the platform key that was chosen for it |
    | ``cap_tokens`` | the cap on its completion by the client, operators' policies and the window, None for no limit |
    | ``dropped`` | the value of ``X-Gateway-Dropped`` |
    | ``streams`` | its answer is asked for as a stream, also where the client wants it whole |
    | ``trace_fields`` | the lines of the request's head that carry the client's trace |
    | ``is_sent`` | its request may have reached the provider |
    | ``head_s`` | when the head of its answer came, by the clock of ``Exchange.started_s`` |
    | ``reader``, ``status``, ``retry_after``, ``advice`` | known once the head of its answer is there |
    | ``failure`` | how it failed, None where it did not |
    | ``lagged`` | this process was late, so the failure is not the provider's |
    """

    target: Target
    key_target: Target
    hold: Hold
    cap_tokens: int | None
    sanitized: Sanitized
    request: UpstreamRequest
    dropped: str | None
    streams: bool = False
    trace_fields: bytes = b""
    is_sent: bool = False
    head_s: float | None = None
    reader: AnswerReader | None = None
    status: int | None = None
    retry_after: str | None = None
    advice: RetryAdvice = NO_ADVICE
    failure: ErrorAnswer | None = None
    lagged: bool = False


def origin_of(attempt: UpstreamAttempt, workspace: str) -> Origin:
    """Return where an attempt goes. A call with a customer's own key never shares a connection with another customer.

    A builtin provider is reached without the egress proxy.
    """
    address = attempt.request.endpoint.address
    tenant = workspace if attempt.target.mode == "byok" else ""
    is_direct = attempt.target.model.provider.builtin
    return Origin(address.scheme, address.host, address.port, tenant, is_direct)


def request_head(attempt: UpstreamAttempt, signature: bytes = b"") -> bytes:
    """Return the head of an attempt's request: the headers of its endpoint, ``Host``, the trace, ``Content-Length``.

    ``signature`` has the lines of its signature, if it is signed.
    """
    request, trace_fields = attempt.request, attempt.trace_fields
    return b"%b%b%bcontent-length: %d\r\n\r\n" % (
        request.endpoint.head_start,
        trace_fields,
        signature,
        len(request.content),
    )

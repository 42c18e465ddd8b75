"""One attempt of a call: what is known of it from its hold to its end, and where and how it is sent. Pure."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from addon.answers.reader import AnswerReader
from addon.apis.writer import WriterContext
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeDialect
from addon.text.errors import ErrorAnswer
from addon.text.quota_headers import MAX_REST_S, find_rest_s
from addon.text.retry_after import NO_ADVICE, RetryAdvice
from addon.upstream.origin import Origin
from policies.route import Target
from policies.sanitize import Sanitized
from policies.spend import Hold

NO_QUOTA: Final[Mapping[str, str]] = MappingProxyType({})


class MadeRequest(NamedTuple):
    """The request of an attempt, and what became of the client's fields. Each is as for ``UpstreamAttempt``."""

    sanitized: Sanitized
    request: UpstreamRequest
    dropped: str | None
    streams: bool
    native: NativeDialect | None = None


class UpstreamAttempt(Struct):
    """One attempt of a call. It can't be constructed without a hold, and so it can't be sent without one.

    | field | is |
    |---|---|
    | ``target`` | the model, provider and mode, with the secret that is sent: a key or an access token |
    | ``key_target`` | the same target with the platform key that was chosen for it |
    | ``cap_tokens`` | the cap on its completion by the client, operators' policies and the window, None for no limit |
    | ``dropped`` | the value of ``X-Gateway-Dropped`` |
    | ``streams`` | its answer is asked for as a stream, also where the client wants it whole |
    | ``native`` | how its answer is read where the provider speaks the client's API; None: through chat |
    | ``prompt_tokens`` | the estimate of its prompt, for an answer that is written in another shape |
    | ``prepared`` | what such an answer repeats of its request |
    | ``writer_context`` | what such an answer repeats of its call, once its head is there |
    | ``trace_fields`` | the lines of the request's head that carry the client's trace |
    | ``is_sent`` | its request may have reached the provider |
    | ``began_s`` | when it began to wait for a connection, by the clock of ``Exchange.started_s`` |
    | ``sent_s`` | when its request was first sent, by the clock of ``Exchange.started_s`` |
    | ``head_s`` | when the head of its answer came, by the clock of ``Exchange.started_s`` |
    | ``reader``, ``status``, ``retry_after``, ``advice`` | known once the head of its answer is there |
    | ``quota`` | the headers of the answer that say what is left of the vendor's quota |
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
    native: NativeDialect | None = None
    prompt_tokens: int = 0
    prepared: Any = None
    writer_context: WriterContext | None = None
    trace_fields: bytes = b""
    is_sent: bool = False
    began_s: float = 0.0
    sent_s: float | None = None
    head_s: float | None = None
    reader: AnswerReader | None = None
    status: int | None = None
    retry_after: str | None = None
    advice: RetryAdvice = NO_ADVICE
    quota: Mapping[str, str] = NO_QUOTA
    failure: ErrorAnswer | None = None
    lagged: bool = False


def find_quota_rest_s(attempt: UpstreamAttempt, now: datetime) -> float | None:
    """Return for how long the vendor says that its quota is used up, in seconds; None where it does not say so.

    Tokens are used up where the prompt of this attempt would not fit again. A 429 counts for a customer's own key, too;
    a platform key rests then in any case.
    """
    rests: list[float | None] = (
        [attempt.advice.after_s] if attempt.status == 429 and attempt.target.mode == "byok" else []
    )
    if attempt.quota:
        provider, usage = attempt.target.model.provider, attempt.reader and attempt.reader.usage
        least_tokens = (usage.prompt_tokens if usage else None) or 1
        rests += [
            find_rest_s(attempt.quota, provider.request_quota_headers, 1, now),
            find_rest_s(attempt.quota, provider.token_quota_headers, least_tokens, now),
        ]
    return min(max((rest_s for rest_s in rests if rest_s is not None), default=0.0), MAX_REST_S) or None


def origin_of(target: Target, request: UpstreamRequest, workspace: str) -> Origin:
    """Return where a request goes. A call with a customer's own key never shares a connection with another customer.

    A builtin provider is reached without the egress proxy.
    """
    address = request.endpoint.address
    tenant = workspace if target.mode == "byok" else ""
    return Origin(address.scheme, address.host, address.port, tenant, target.model.provider.builtin)


def request_head(request: UpstreamRequest, trace_fields: bytes = b"", signature: bytes = b"") -> bytes:
    """Return the head of a request: the headers of its endpoint, ``Host``, the trace, ``Content-Length``.

    ``signature`` has the lines of its signature, if it is signed.
    """
    return b"%b%b%bcontent-length: %d\r\n\r\n" % (
        request.endpoint.head_start,
        trace_fields,
        signature,
        len(request.content),
    )

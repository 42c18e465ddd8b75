"""The reader of an upstream answer, chosen by the head of that answer. No I/O."""

from datetime import datetime

from addon.answers.context import source_of
from addon.answers.readers import Broken, ErrorRelay, Guarded, Inflated, Relay
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.dialects import DIALECTS
from addon.text.errors import upstream_garbage
from addon.text.http_heads import ResponseHead
from addon.text.retry_after import parse_retry_advice
from policies.sanitize import choices_sent


def note_head(call: Call, attempt: UpstreamAttempt, head: ResponseHead, now: datetime) -> Relay:
    """Note the head of an answer in its attempt, and return the reader of the body."""
    attempt.status, attempt.retry_after = head.status, head.headers.get("retry-after")
    attempt.advice = parse_retry_advice(head.headers, now)
    attempt.reader = reader = _reader_of(call, attempt, head)
    return reader


def _reader_of(call: Call, attempt: UpstreamAttempt, head: ResponseHead) -> Relay:
    dialect = DIALECTS[attempt.target.model.provider.dialect]
    source = source_of(
        attempt.target,
        int(call.exchange.created_at.timestamp()),
        _choices_asked(call),
        call_id=call.exchange.id,
        include_usage=call.chat.include_usage,
    )
    reader: Relay
    if not 200 <= head.status < 300:
        reader = ErrorRelay(head.status, source)
    elif call.exchange.stream:
        reader = dialect.stream(source)
    else:
        reader = dialect.whole(source, call.settings.conf.upstream.max_response_bytes)
    encoding = head.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        reader = Inflated(reader)
    elif encoding not in ("identity", ""):
        unasked = upstream_garbage("it is compressed in a way that was not asked for.")
        reader = Broken(reader.give_up() or unasked)
    return Guarded(reader, attempt.target.secrets)


def _choices_asked(call: Call) -> int:
    family = call.exchange.attempt.model.family
    return choices_sent(call.chat.sendable(family), family)

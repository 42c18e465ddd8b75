"""The reader of an upstream answer, chosen by the head of that answer. No I/O."""

from datetime import datetime

from addon.answers.context import answer_context
from addon.answers.error import ErrorAnswerReader, UnreadableAnswerReader
from addon.answers.guarded_reader import GuardedReader
from addon.answers.inflating_reader import InflatingReader
from addon.answers.reader import AnswerReader
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.dialects import DIALECTS
from addon.text.errors import unreadable_answer
from addon.text.http_heads import ResponseHead
from addon.text.retry_after import parse_retry_advice


def open_reader(call: Call, attempt: UpstreamAttempt, head: ResponseHead, now: datetime) -> AnswerReader:
    """Note the head of an answer in its attempt, and return the reader of the body."""
    attempt.status, attempt.retry_after = head.status, head.headers.get("retry-after")
    attempt.advice = parse_retry_advice(head.headers, now)
    attempt.reader = reader = _reader_of(call, attempt, head)
    return reader


def _reader_of(call: Call, attempt: UpstreamAttempt, head: ResponseHead) -> AnswerReader:
    dialect = DIALECTS[attempt.target.model.provider.dialect]
    context = answer_context(
        attempt.target,
        int(call.exchange.created_at.timestamp()),
        call.chat.choices(attempt.target.model.family),
        call_id=call.exchange.id,
        include_usage=call.chat.include_usage,
    )
    reader: AnswerReader
    if not 200 <= head.status < 300:
        reader = ErrorAnswerReader(head.status, context)
    elif call.exchange.stream:
        reader = dialect.stream(context)
    else:
        reader = dialect.whole(context, call.settings.conf.upstream.max_response_bytes)
    encoding = head.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        reader = InflatingReader(reader)
    elif encoding not in ("identity", ""):
        unasked = unreadable_answer("it is compressed in a way that was not asked for.")
        reader = UnreadableAnswerReader(reader.error_so_far() or unasked)
    return GuardedReader(reader, attempt.target.secrets)

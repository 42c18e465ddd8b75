"""The reader of an upstream answer, chosen by the head of that answer. No I/O."""

from datetime import datetime
from types import MappingProxyType

from addon.answers.assembled import AssembledAnswerReader
from addon.answers.context import AnswerContext
from addon.answers.error import ErrorAnswerReader, UnreadableAnswerReader
from addon.answers.guarded_reader import GuardedReader
from addon.answers.inflating_reader import InflatingReader
from addon.answers.reader import AnswerReader
from addon.apis.writer import WriterContext
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import CHAT, Call
from addon.dialects import DIALECTS
from addon.text.errors import unreadable_answer
from addon.text.http_heads import ResponseHead
from addon.text.retry_after import RETRY_FIELDS, parse_retry_advice


def open_reader(call: Call, attempt: UpstreamAttempt, head: ResponseHead, now: datetime) -> AnswerReader:
    """Note the head of an answer in its attempt, and return the reader of the body."""
    fields = {name for name, _ in head.headers.fields}
    attempt.status = head.status
    if not RETRY_FIELDS.isdisjoint(fields):
        attempt.retry_after = head.headers.get("retry-after")
        attempt.advice = parse_retry_advice(head.headers, now)
    target = attempt.target
    if target.has_alternative and not target.model.provider.quota_fields.isdisjoint(fields):
        names = target.model.provider.quota_fields
        attempt.quota = {name: value for name, value in head.headers.fields if name in names}
    context = _context(call, attempt)
    reader = _reader_of(call, attempt, head.status, context)
    if "content-encoding" in fields:
        reader = _decompressed(reader, head.headers.get("content-encoding", "").lower())
    attempt.reader = reader = GuardedReader(reader, context.secrets)
    return reader


def _context(call: Call, attempt: UpstreamAttempt) -> AnswerContext:
    """Return the context of the answer. The client sees the slug as the only name of the model."""
    model, streams = attempt.target.model, attempt.streams
    return AnswerContext(
        model_slug=model.slug,
        family=model.family,
        names=MappingProxyType({model.upstream_model_id: model.slug}),
        secrets=attempt.target.secrets,
        created_s=int(call.exchange.created_at.timestamp()),
        choices=call.chat.choices(model.family) if streams else None,
        answer_id=f"chatcmpl-{call.exchange.id}",
        include_usage=call.exchange.stream and call.chat.include_usage,
    )


def _reader_of(call: Call, attempt: UpstreamAttempt, status: int, context: AnswerContext) -> AnswerReader:
    if not 200 <= status < 300:
        return ErrorAnswerReader(status, context)
    max_bytes = call.settings.conf.upstream.max_response_bytes
    if call.api is CHAT:
        return _chat_reader(call, attempt, context, max_bytes)
    attempt.writer_context = _writer_context(call, attempt)
    if attempt.native:
        native = attempt.native
        return native.stream(context) if call.exchange.stream else native.whole(context, max_bytes)
    # Masked before it is translated, too: in a sealed text of base64 no one would find a secret.
    reader = GuardedReader(_chat_reader(call, attempt, context, max_bytes), context.secrets)
    return call.api.translate(reader, attempt.writer_context, streams=call.exchange.stream)


def _chat_reader(
    call: Call, attempt: UpstreamAttempt, context: AnswerContext, max_bytes: int
) -> AnswerReader:
    dialect = DIALECTS[attempt.target.model.dialect]
    if call.exchange.stream:
        return dialect.stream(context)
    if attempt.streams:
        return AssembledAnswerReader(dialect.stream, context, max_bytes)
    return dialect.whole(context, max_bytes)


def _writer_context(call: Call, attempt: UpstreamAttempt) -> WriterContext:
    native = call.chat.native
    return WriterContext(
        call_id=call.exchange.id,
        model_slug=attempt.target.model.slug,
        created_s=int(call.exchange.created_at.timestamp()),
        prompt_tokens=attempt.prompt_tokens,
        request=native.body if native else {},
        prepared=attempt.prepared,
    )


def _decompressed(reader: AnswerReader, encoding: str) -> AnswerReader:
    """Return a reader of the answer in this ``content-encoding``, which may be empty."""
    if encoding in ("gzip", "deflate"):
        return InflatingReader(reader)
    if encoding in ("identity", ""):
        return reader
    unasked = unreadable_answer("it is compressed in a way that was not asked for.")
    return UnreadableAnswerReader(reader.error_so_far() or unasked)

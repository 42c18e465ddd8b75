"""The OpenAI chat-completion shape, which most providers accept. Pure."""

from typing import Any

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader, rewrite_answer
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from policies.route import Target


def request(target: Target, body: dict[str, Any]) -> UpstreamRequest:
    """Build a ``POST`` to the provider's ``chat_path``, which is ``/chat/completions`` nearly everywhere."""
    return json_request(target, target.model.provider.chat_path, body, streams=bool(body.get("stream")))


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of server-sent events, which replaces the model in each."""
    return StreamedAnswerReader(ChatChunks(context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one JSON object, which replaces its model."""
    return WholeAnswerReader(rewrite_answer, context, max_bytes)

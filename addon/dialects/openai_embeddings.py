"""Embeddings of providers in OpenAI's shape: bodies and answers keep it. Pure.

Source: OpenAI, API reference, "Create embeddings"; docs/embeddings.md.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from addon.answers.context import AnswerContext, encode_slug
from addon.answers.reader import AnswerReader
from addon.answers.usage import parse_usage
from addon.answers.whole import Answer, WholeAnswerReader, decode_answer, failed
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeRequest
from addon.text.errors import ErrorAnswer, unreadable_answer
from policies.route import Target
from policies.usage import Usage

_FIELDS: Final = ("input", "encoding_format", "dimensions", "user")
_OURS: Final = frozenset({"model", "metadata", "service_tier"})
"""The gateway sets these itself, or has them for itself."""
_CHAT_PATH: Final = "/chat/completions"
_PATH: Final = "/embeddings"


class _Vector(msgspec.Struct, gc=False):
    """One embedding: an array of numbers, or their bytes in base64. It is not decoded."""

    embedding: msgspec.Raw


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_vectors = msgspec.json.Decoder(list[_Vector]).decode


def request(
    target: Target,
    native: NativeRequest,
    cap_tokens: int | None,  # noqa: ARG001  (an embedding has no completion)
    *,
    streams: bool,  # noqa: ARG001
    hosted_tools: frozenset[str],  # noqa: ARG001
) -> UpstreamRequest:
    """Build ``POST {base_url}/embeddings``; see ``native_request.NativeDialect``."""
    model, given = target.model, native.body
    known = {*_FIELDS, *model.family.extra} - model.family.drops
    renames = model.family.renames
    body = {renames.get(name, name): value for name, value in given.items() if name in known}
    unsent = tuple(name for name in given if name not in known and name not in _OURS)
    chat_path = model.provider.chat_path
    path = chat_path.replace(_CHAT_PATH, _PATH) if _CHAT_PATH in chat_path else _PATH
    return json_request(
        target, path, {**body, "model": model.upstream_model_id}, streams=False, unsent_fields=unsent
    )


def stream(context: AnswerContext) -> AnswerReader:
    """Raise RuntimeError: embeddings are never streamed."""
    raise RuntimeError(f"embeddings of {context.model_slug} are never streamed")


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one list of embeddings."""
    return WholeAnswerReader(read_embeddings, context, max_bytes)


def read_embeddings(body: bytes, context: AnswerContext) -> Answer:
    """Return the answer of a 2xx with the catalog slug as its model. All else keeps its bytes, vectors above all."""
    try:
        members = _members(body.removeprefix(b"\xef\xbb\xbf"))
        if not _vectors(members.get("data", b"[]")):
            return _failed(body, context)
        usage = _read_usage(members, context)
    except (msgspec.DecodeError, ValueError):
        return _failed(body, context)
    model = encode_slug(context.model_slug)
    shown = {**{name: bytes(value) for name, value in members.items()}, "model": model}
    pairs = [msgspec.json.encode(name) + b":" + value for name, value in shown.items()]
    return Answer(b"{" + b",".join(pairs) + b"}", usage)


def _read_usage(members: Mapping[str, msgspec.Raw], context: AnswerContext) -> Usage:
    """Return the provider's counts. There is no completion, so a prompt that was not counted is estimated."""
    report: Any = msgspec.json.decode(members["usage"]) if "usage" in members else None
    return replace(parse_usage({"usage": report}, context.family) or Usage(), completion_tokens=0)


def _failed(body: bytes, context: AnswerContext) -> Answer:
    """Return the failure of a body without embeddings: the provider's error in it, if there is one."""
    payload = decode_answer(body, context)
    return failed(
        payload if isinstance(payload, ErrorAnswer) else unreadable_answer("it holds no embedding.")
    )

"""``AnswerContext``: the facts of an attempt that the reader of its answer needs. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii

import msgspec

from addon.text.errors import NO_NAMES
from policies.family import Family


class AnswerContext(msgspec.Struct, frozen=True, gc=False):
    """The facts of an attempt that the reader of its answer needs.

    | field | meaning |
    |---|---|
    | ``names`` | upstream model ids, and the name that error messages show instead |
    | ``secrets`` | texts that error messages never show |
    | ``answer_id`` | the id of an answer that has none; unique for each answer |
    | ``created_s`` | the Unix time of the call, for an answer that has none |
    | ``choices`` | how many choices were asked for, None where that is unknown; read for streams only |
    | ``include_usage`` | the client asked for the usage of a stream |
    """

    model_slug: str
    family: Family
    names: Mapping[str, str] = NO_NAMES
    secrets: tuple[str, ...] = ()
    created_s: int = 0
    choices: int | None = None
    answer_id: str = "chatcmpl-0"
    include_usage: bool = False


@lru_cache(maxsize=1024)
def encode_slug(model_slug: str) -> bytes:
    """Return a model's slug as JSON."""
    return encode_basestring_ascii(model_slug).encode()

"""``AnswerContext``: the facts of an attempt that the reader of its answer needs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from addon.text.errors import NO_NAMES
from policies.family import Family
from policies.model import Target


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """The facts of an attempt that the reader of its answer needs.

    | field | meaning |
    |---|---|
    | ``names`` | upstream model ids, and the name that error messages show instead |
    | ``secrets`` | texts that error messages never show |
    | ``answer_id`` | the id of an answer that has none; unique for each answer |
    | ``created_s`` | the Unix time of the call, for an answer that has none |
    | ``choices`` | how many choices were asked for, None where that is unknown |
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


def answer_context(
    target: Target, created_s: int, choices: int, *, call_id: str, include_usage: bool
) -> AnswerContext:
    """Return the context of the answer to ``target``. The client sees the slug as the only name of the model."""
    model = target.model
    return AnswerContext(
        model_slug=model.slug,
        family=model.family,
        names=MappingProxyType({model.upstream_model_id: model.slug}),
        secrets=target.secrets,
        created_s=created_s,
        choices=choices,
        answer_id=f"chatcmpl-{call_id}",
        include_usage=include_usage,
    )

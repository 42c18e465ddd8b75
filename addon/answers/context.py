"""``Source``: whose answer is being read, and what may be said of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from addon.text.errors import NO_NAMES
from policies.family import Family
from policies.model import Attempt


@dataclass(frozen=True, slots=True)
class Source:
    """What a reader of an answer has to know of the attempt that it answers.

    ``names`` maps upstream model ids to what the client may see in their place, in error messages, where ``secrets``
    never appear. ``answer_id`` and ``created_s``, the Unix time of the call, are for answers that bear none; no two
    answers have the same id. ``choices`` is how many were asked for, where that is known; ``include_usage``: the client
    asked for the usage of a stream.
    """

    model_slug: str
    family: Family
    names: Mapping[str, str] = NO_NAMES
    secrets: tuple[str, ...] = ()
    created_s: int = 0
    choices: int | None = None
    answer_id: str = "chatcmpl-0"
    include_usage: bool = False


def source_of(attempt: Attempt, created_s: int, choices: int, *, call_id: str, include_usage: bool) -> Source:
    """Return the source of the answer to ``attempt``; the client knows its model by the slug alone."""
    model = attempt.model
    names = MappingProxyType({model.upstream_model_id: model.slug})
    answer_id = f"chatcmpl-{call_id}"
    return Source(
        model.slug, model.family, names, attempt.secrets, created_s, choices, answer_id, include_usage
    )

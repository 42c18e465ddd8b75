"""OpenAI's Responses API for its own clients: bodies and answers keep the form that both sides speak. Pure.

Source: OpenAI, API reference, "Create a model response"; docs/apis-responses.md has what is left out, and why.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeRequest
from addon.dialects.responses.native_answer import read_native
from addon.dialects.responses.native_fields import FIELDS, LOGPROBS, OWN, SEALED, WITHOUT_EFFECT
from addon.dialects.responses.native_items import fit_items
from addon.dialects.responses.native_stream import NativeEvents
from addon.dialects.responses.native_tools import Body, fit_tools
from policies.family import EFFORT, MIN_OUTPUT_TOKENS, Family
from policies.field_rules import clamp_value, is_listed
from policies.model import Model
from policies.route import Target

_NUMBERS: Final = ("temperature", "top_p", "top_logprobs")
_NEVER_DROPPED: Final = OWN | {"input", "instructions", "tools", "tool_choice"}


def request(
    target: Target,
    native: NativeRequest,
    cap_tokens: int | None,
    *,
    streams: bool,
    hosted_tools: frozenset[str],
) -> UpstreamRequest:
    """Build a ``POST`` to the provider's ``responses_path``; see ``native_request.NativeDialect``."""
    unsent: list[str] = []
    body = make_body(target.model, native.body, cap_tokens, hosted_tools, unsent)
    if isinstance(items := body.get("input"), list):
        body["input"] = fit_items(items, unsent, reads_encrypted=not native.has_foreign_reasoning)
    if streams:
        body["stream"] = True
    else:
        body.pop("stream_options", None)
    path, names = target.model.provider.responses_path, tuple(dict.fromkeys(unsent))
    return json_request(target, path, body, streams=streams, unsent_fields=names)


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of typed events, the last of which has the whole answer."""
    return StreamedAnswerReader(NativeEvents(context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one response."""
    return WholeAnswerReader(read_native, context, max_bytes)


def make_body(
    model: Model,
    given: Mapping[str, Any],
    cap_tokens: int | None,
    hosted_tools: frozenset[str],
    unsent: list[str],
) -> Body:
    """Return the body that ``model`` takes, and add to ``unsent`` the names of what is left out."""
    body = {name: value for name, value in given.items() if name in FIELDS}
    unsent += [
        name
        for name, value in given.items()
        if not (name in body or name in OWN or value is None or value == WITHOUT_EFFECT.get(name))
    ]
    body["model"] = model.upstream_model_id
    body["store"] = False
    if cap_tokens is not None:
        body["max_output_tokens"] = max(cap_tokens, MIN_OUTPUT_TOKENS)
    fit_tools(body, hosted_tools, model.max_searches, unsent)
    if is_listed(model):  # What any other model takes is unknown, so it gets what its client wrote.
        _fit_reasoning(body, model.family, unsent)
        _fit_numbers(body, model.family, unsent)
        _drop(body, [name for name in body if name in model.family.drops - _NEVER_DROPPED], unsent)
        if given.get("store") is not False and model.family.reasons_unseen:
            _carry_reasoning(body)
    return body


def _fit_reasoning(body: Body, family: Family, unsent: list[str]) -> None:
    """Leave out what a model refuses that does not reason, or whose effort or verbosity can't be chosen."""
    has_effort = EFFORT in family.extra and EFFORT not in family.drops
    if not (has_effort or family.reasons_unseen):
        _drop(body, ["reasoning"] if body.get("reasoning") else [], unsent)
        _exclude(body, SEALED, unsent)
    elif not has_effort:
        _drop_inner(body, "reasoning", "effort", unsent)
    else:
        _fit_effort(body, family, unsent)
    if "verbosity" not in family.extra:
        _drop_inner(body, "text", "verbosity", unsent)


def _fit_effort(body: Body, family: Family, unsent: list[str]) -> None:
    """Replace an effort that the model does not have by the nearest one."""
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    if isinstance(effort, str) and (fitting := clamp_value(EFFORT, effort, family)) != effort:
        body["reasoning"] = {**body["reasoning"], "effort": fitting}
        unsent.append("reasoning.effort")


def _fit_numbers(body: Body, family: Family, unsent: list[str]) -> None:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    conflicts = family.conflicts.get(EFFORT, frozenset()) if effort not in (None, "none") else frozenset()
    _drop(body, [name for name in _NUMBERS if name in body and name in conflicts], unsent)
    if "logprobs" in conflicts | family.drops:
        _exclude(body, LOGPROBS, unsent)
    for name in _NUMBERS:
        if (
            isinstance(value := body.get(name), int | float)
            and (fitting := clamp_value(name, value, family)) != value
        ):
            body[name] = fitting
            unsent.append(name)


def _carry_reasoning(body: Body) -> None:
    """Ask for reasoning that the client can send back: it expects the provider to keep it, and nothing is kept."""
    include = body.get("include") or []
    if isinstance(include, list) and SEALED not in include:
        body["include"] = [*include, SEALED]


def _drop(body: Body, names: list[str], unsent: list[str]) -> None:
    unsent += [name for name in names if body[name] is not None]
    for name in names:
        del body[name]


def _drop_inner(body: Body, outer: str, name: str, unsent: list[str]) -> None:
    holder = body.get(outer)
    if isinstance(holder, Mapping) and holder.get(name) is not None:
        body[outer] = {key: value for key, value in holder.items() if key != name}
        unsent.append(f"{outer}.{name}")


def _exclude(body: Body, included: str, unsent: list[str]) -> None:
    include = body.get("include")
    if isinstance(include, list) and included in include:
        body["include"] = [one for one in include if one != included]
        unsent.append("include")

"""Anthropic's Messages API for its own clients: bodies and answers keep the form that both sides speak. Pure.

Source: Anthropic, API reference, "Messages"; docs/apis-messages.md has what is left out, and why.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.anthropic.native_answer import NativeChunks, read_native
from addon.dialects.anthropic.native_fields import (
    BETAS,
    CLIENT_TOOLS,
    CONTEXT_EDITS,
    FIELDS,
    FREE_TOOLS,
    REFUSED,
)
from addon.dialects.anthropic.native_messages import move_late_system, restore_turns
from addon.dialects.anthropic.native_thinking import (
    Body,
    check_tool_choice,
    drop_closed_thinking,
    fit_budget,
    fit_sampling,
    fit_thinking,
)
from addon.dialects.anthropic.parts import refuse
from addon.dialects.anthropic.request import DEFAULT_MAX_TOKENS, user_id
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeRequest
from policies.field_rules import is_listed
from policies.hosted_tools import find_search_bound, hosted_tool_of
from policies.model import Model
from policies.route import Target

VERSION: Final = {"anthropic-version": "2023-06-01"}
_BETA: Final = "anthropic-beta"
_GLOBAL: Final = (None, "global")


def request(
    target: Target,
    native: NativeRequest,
    cap_tokens: int | None,
    *,
    streams: bool,
    hosted_tools: frozenset[str],
) -> UpstreamRequest:
    """Build ``POST {base_url}/messages``; see ``native_request.NativeDialect``."""
    unsent: list[str] = []
    body = make_body(target.model, native.body, cap_tokens, hosted_tools, unsent)
    body.pop("stream", None)
    if streams:
        body["stream"] = True
    return json_request(
        target,
        "/messages",
        body,
        streams=streams,
        headers=VERSION,
        call_headers=make_call_headers(target, native),
        unsent_fields=tuple(dict.fromkeys(unsent)),
    )


def make_call_headers(target: Target, native: NativeRequest) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request that its client asks for."""
    betas = _betas(native.headers.get(_BETA, ""), target.model.provider.headers.get(_BETA, ""))
    return ((_BETA, betas),) if betas else ()


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of typed events, the last of which is ``message_stop``."""
    return StreamedAnswerReader(NativeChunks(context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one message."""
    return WholeAnswerReader(read_native, context, max_bytes)


def make_body(
    model: Model,
    given: Mapping[str, Any],
    cap_tokens: int | None,
    hosted_tools: frozenset[str],
    unsent: list[str],
) -> Body:
    """Return the body that ``model`` takes, and add to ``unsent`` the names of what is left out.

    Raises Refusal ``validation_failed``, naming the field, for what would give another answer than the client wants.
    """
    body = _allowed_fields(given, unsent)
    asked_tokens = _count(body.get("max_tokens"))
    body["model"] = model.upstream_model_id
    body["max_tokens"] = next(
        one for one in (cap_tokens, asked_tokens, DEFAULT_MAX_TOKENS) if one is not None
    )
    _fit_metadata(body, unsent)
    # Of the body that its hold was made of, which may have fields that are not sent.
    searches = find_search_bound(given, hosted_tools, model.max_searches)
    _fit_tools(body, searches, hosted_tools, unsent)
    _fit_context(body, unsent)
    body["messages"], left_out = restore_turns(body["messages"])
    unsent += [f"messages.{kind}" for kind in left_out]
    if is_listed(model):  # What any other model takes is unknown, so it gets what its client wrote.
        family = model.family
        check_tool_choice(body, family, model.slug)
        if family.late_system_role != "system":
            unsent += [f"messages.{kind}" for kind in move_late_system(body)]
        fit_thinking(body, family, asked_tokens, unsent)
        fit_sampling(body, family, unsent)
    else:
        fit_budget(body, asked_tokens, unsent)
    if left_out:
        drop_closed_thinking(body, unsent)
    return body


def _allowed_fields(given: Mapping[str, Any], unsent: list[str]) -> Body:
    for name, reason in REFUSED.items():
        if given.get(name) not in _GLOBAL:
            refuse(name, reason)
    unsent += [name for name, value in given.items() if name not in FIELDS and value is not None]
    return {name: value for name, value in given.items() if name in FIELDS}


def _fit_metadata(body: Body, unsent: list[str]) -> None:
    """Leave only the user's id, in a form that the API takes."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return
    unsent += [f"metadata.{name}" for name in metadata if name != "user_id"]
    user = metadata.get("user_id")
    if isinstance(user, str):
        body["metadata"] = {"user_id": user_id(user)}
    else:
        del body["metadata"]


def _fit_tools(body: Body, searches_left: int, hosted_tools: frozenset[str], unsent: list[str]) -> None:
    """Leave out the tools that the provider runs and charges for, but for those of ``hosted_tools``.

    These share ``searches_left``, for which money is held. A choice without its tool is left out, too.
    """
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    kept: list[Any] = []
    for tool in tools:
        kind, hosted = tool.get("type"), hosted_tool_of(tool)
        if hosted and hosted in hosted_tools and searches_left:
            uses = _count(tool.get("max_uses"))
            most = searches_left if uses is None else min(uses, searches_left)
            kept.append({**tool, "max_uses": most})
            searches_left -= most
        elif kind is None or str(kind).startswith(CLIENT_TOOLS + FREE_TOOLS):
            kept.append(tool)
        else:
            unsent.append(f"tools.{kind}")
    if len(kept) == len(tools):
        body["tools"] = kept
        return
    _fit_choice(body, kept, unsent)


def _fit_choice(body: Body, kept: list[Any], unsent: list[str]) -> None:
    choice = body.get("tool_choice")
    named = choice.get("name") if isinstance(choice, dict) else None
    if kept:
        body["tools"] = kept
    else:
        del body["tools"]
    if choice is not None and (not kept or (named and named not in [tool.get("name") for tool in kept])):
        del body["tool_choice"]
        unsent.append("tool_choice")


def _fit_context(body: Body, unsent: list[str]) -> None:
    """Leave out the edits of the context that call a model: their tokens are in no total."""
    managed = body.get("context_management")
    edits = managed.get("edits") if isinstance(managed, dict) else None
    if isinstance(managed, dict) and isinstance(edits, list):
        kept = [edit for edit in edits if _is_kept_edit(edit)]
        if len(kept) < len(edits):
            body["context_management"] = {**managed, "edits": kept}
            unsent.append("context_management")


def _is_kept_edit(edit: object) -> bool:
    return isinstance(edit, dict) and str(edit.get("type")).startswith(CONTEXT_EDITS)


def _betas(asked: str, configured: str) -> str:
    """Return the known ones of the names that a client asked for, and those of the provider's configuration."""
    names = sorted({name for one in asked.split(",") if (name := one.strip()) in BETAS})
    if not names:
        return ""
    return ",".join(dict.fromkeys([*filter(None, map(str.strip, configured.split(","))), *names]))


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None

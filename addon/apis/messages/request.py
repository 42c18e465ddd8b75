"""A request of the Messages API becomes a chat body. Pure.

Source: Anthropic, API reference, "Create a Message"; docs/apis-messages.md has a row for each field.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat.schema import METADATA, is_metadata
from addon.apis.chat_body import ChatBody, Losses
from addon.apis.messages.tools import make_tools
from addon.apis.messages.turns import make_messages, make_system
from addon.apis.strict_schema import is_strict

ADAPTIVE_EFFORT: Final = "medium"
"""The effort of thinking that is on without one: what models that reason take by default."""

FORMAT_NAME: Final = "answer"
"""The name of the schema of an answer. Chat requires one, Messages has none."""

_SAME: Final = ("model", "max_tokens", "temperature", "top_p", "top_k", "stream", "service_tier")
_READ: Final = frozenset(
    {
        *_SAME,
        *("system", "messages", "tools", "tool_choice", "stop_sequences", "metadata"),
        *("thinking", "output_config", "output_format", "cache_control"),
    }
)
# The budgets in tokens below which thinking is an effort. They are between those of families.toml (effort_budgets).
_EFFORTS: Final = ((2_048, "low"), (4_096, "medium"), (16_384, "high"))
_MOST_EFFORT: Final = "xhigh"


def to_chat(given: Mapping[str, Any]) -> ChatBody:
    """Return the chat body of a valid request; a null is the same as an absent field."""
    body = {name: value for name, value in given.items() if value is not None}
    losses = Losses()
    for name in body:
        if name not in _READ:
            losses.drop(name)
    made: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
    messages = make_system(body.get("system"), losses) + make_messages(body["messages"], losses)
    if "cache_control" in body and messages:
        messages[-1] = {"cache_control": body["cache_control"], **messages[-1]}
    if not any(message["role"] != "system" for message in messages):
        losses.refuse("messages", "The model needs a message that is not a system message.")
    made["messages"] = messages or [{"role": "user", "content": ""}]
    made |= make_tools(body, losses) | _output(body, losses) | _metadata(body, losses)
    if effort := _effort(body, losses):
        made["reasoning_effort"] = effort
    if stops := body.get("stop_sequences"):
        made["stop"] = stops
    return losses.made(made)


def _metadata(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the end user, and the client's own tags of the call: chat's, where they have its form."""
    metadata: Mapping[str, Any] = body.get("metadata", {})
    user = metadata.get("user_id")
    made: dict[str, Any] = {} if user is None else {"user": user}
    tags = {name: value for name, value in metadata.items() if name != "user_id" and value is not None}
    if not tags:
        return made
    if is_metadata(tags):
        return {**made, METADATA: tags}
    for name in tags:
        losses.drop(f"{METADATA}.{name}")
    return made


def _output(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the chat field of the format of the answer. ``output_format`` is its older place."""
    config: Mapping[str, Any] = body.get("output_config", {})
    for name, value in config.items():
        if name not in ("effort", "format") and value is not None:
            losses.drop(f"output_config.{name}")
    wanted = config.get("format") or body.get("output_format")
    if wanted is None:
        return {}
    if wanted["type"] != "json_schema":
        losses.refuse("output_config.format.type", "The model takes json_schema.")
        return {}
    schema = wanted["schema"]
    described = {"name": FORMAT_NAME, "schema": schema, "strict": is_strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _effort(body: Mapping[str, Any], losses: Losses) -> str | None:
    """Return the reasoning effort: a name, or that of a budget."""
    thinking: Mapping[str, Any] = body.get("thinking", {})
    kind = thinking.get("type")
    if kind == "disabled":
        return "none"
    if effort := _named_effort(body):
        return effort
    if kind == "enabled":
        budget = thinking["budget_tokens"]
        return next((effort for limit, effort in _EFFORTS if budget < limit), _MOST_EFFORT)
    if kind not in (None, "adaptive"):
        losses.drop("thinking")
        return None
    return ADAPTIVE_EFFORT if kind else None


def _named_effort(body: Mapping[str, Any]) -> str | None:
    """Return the effort of the last turn that has one of its own, or of the request."""
    configs = [turn.get("output_config") for turn in body["messages"] if turn["role"] == "system"]
    for config in (*reversed(configs), body.get("output_config")):
        if config and (effort := config.get("effort")):
            named: str = effort
            return named
    return None


MESSAGES_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "reasoning_effort": "output_config.effort",
        "response_format": "output_config.format",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "tools.parameters": "tools.input_schema",
        "messages.reasoning_details": "messages.thinking",
        "messages.reasoning_content": "messages.thinking",
        "messages.tool_calls.extra_content": "messages.thinking",
        "messages.extra_content": "messages.thinking",
    }
)
"""The chat fields that the API calls otherwise."""

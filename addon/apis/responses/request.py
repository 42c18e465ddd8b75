"""A request of the Responses API becomes a chat body. Pure.

Source: OpenAI, "Create a model response"; docs/apis-responses.md has a row for each field.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat_body import ChatBody, Losses
from addon.apis.responses.input_items import make_messages
from addon.apis.responses.tools import make_tools

_SAME: Final[tuple[str, ...]] = (
    *("model", "temperature", "top_p", "parallel_tool_calls", "user", "metadata", "stream", "service_tier"),
    *("prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
)
_ENCRYPTED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"
# What a call that goes through chat does anyway, or would not do otherwise.
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"store": False, "background": False, "truncation": "disabled"}
)
_READ: Final = frozenset(
    {*_SAME, "input", "instructions", "tools", "tool_choice", "max_output_tokens", "top_logprobs", "text"}
    | {"reasoning", "include", "stream_options"}
)

RESPONSES_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "messages": "input",
        "max_completion_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
        "logprobs": "include",
        "messages.content.cache_control": "input.content.prompt_cache_breakpoint",
        "messages.reasoning_details": "input.reasoning",
        "messages.reasoning_content": "input.reasoning",
        "messages.tool_calls.extra_content": "input.reasoning",
        "messages.extra_content": "input.reasoning",
    }
)
"""The chat fields that the API calls otherwise."""


def to_chat(given: Mapping[str, Any]) -> ChatBody:
    """Return the chat body of a valid request; a null is the same as an absent field."""
    body = {name: value for name, value in given.items() if value is not None}
    losses = Losses()
    for name, value in body.items():
        if name not in _READ and _DEFAULTS.get(name) != value:
            losses.drop(name)
    made = {name: body[name] for name in _SAME if name in body}
    messages = _instructions(body, losses) + make_messages(body["input"], losses)
    if not any(message["role"] in ("user", "assistant", "tool") for message in messages):
        losses.refuse("input", "The model needs a message that is not a system message.")
    made["messages"] = messages or [{"role": "user", "content": ""}]
    if "max_output_tokens" in body:
        made["max_completion_tokens"] = body["max_output_tokens"]
    made |= (
        make_tools(body, losses) | _text(body, losses) | _reasoning(body, losses) | _logprobs(body, losses)
    )
    return losses.made(made)


def _instructions(body: Mapping[str, Any], losses: Losses) -> list[dict[str, Any]]:
    """Return the message of ``instructions``, none where there are none."""
    if not (text := body.get("instructions")):
        return []
    losses.sources["messages"].append("instructions")
    return [{"role": "system", "content": text}]


def _text(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the chat fields of the form of the answer."""
    options: Mapping[str, Any] = body.get("text", {})
    _drop_others("text", options, ("format", "verbosity"), losses)
    made: dict[str, Any] = {}
    if options.get("verbosity") is not None:
        made["verbosity"] = options["verbosity"]
    form: Mapping[str, Any] = options.get("format") or {"type": "text"}
    if form["type"] == "json_schema":
        described = {name: value for name, value in form.items() if name != "type" and value is not None}
        made["response_format"] = {"type": "json_schema", "json_schema": described}
    elif form["type"] != "text":
        made["response_format"] = dict(form)
    return made


def _reasoning(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    options: Mapping[str, Any] = body.get("reasoning", {})
    _drop_others("reasoning", options, ("effort",), losses)
    return {} if options.get("effort") is None else {"reasoning_effort": options["effort"]}


def _logprobs(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the chat fields of what the answer is to include."""
    options: Mapping[str, Any] = body.get("stream_options", {})
    _drop_others("stream_options", options, ("include_obfuscation",), losses)
    include = body.get("include", ())
    for name in include:
        if name not in (_ENCRYPTED, _LOGPROBS):
            losses.drop(f"include.{name}")
    most: int = body.get("top_logprobs", 0)
    if _LOGPROBS not in include and most <= 0:
        return {}
    return {"logprobs": True} | ({"top_logprobs": most} if most > 0 else {})


def _drop_others(field: str, options: Mapping[str, Any], read: tuple[str, ...], losses: Losses) -> None:
    for name, value in options.items():
        if name not in read and value is not None:
            losses.drop(f"{field}.{name}")

"""A sanitized chat body becomes the body of the Responses API. Pure.

Nothing is stored at the provider: a conversation is in its request, with encrypted reasoning. Fields that the API does
not have are left out. Source: OpenAI, API reference, "Create a model response"; "Migrate to the Responses API"; the
types of its Python SDK 3.54; recorded traffic.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.dialects.responses.items import Item, refuse, to_items
from policies.family import CAP_FIELDS, EFFORT, MIN_OUTPUT_TOKENS, RESERVED, Family

ENCRYPTED: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"

_SAME: Final = (
    *("temperature", "top_p", "parallel_tool_calls", "user", "metadata", "service_tier"),
    *("prompt_cache_key", "safety_identifier", "top_logprobs"),
)
_OTHERS: Final = frozenset(
    {
        *("messages", *RESERVED, *_SAME, EFFORT, "verbosity", "response_format", "tools", "tool_choice"),
        *("n", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs"),
    }
)
"""Chat fields that are not sent on unchanged, or not at all, even if the family lists them in ``extra``."""


def to_request(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the native body. Fields of ``family.extra`` that are not chat fields are sent unchanged.

    Raises Refusal ``validation_failed``, naming the field, for a value that the API can't express.
    """
    made: dict[str, Any] = {"model": body["model"], "input": to_items(body["messages"]), "store": False}
    made |= {name: body[name] for name in (*_SAME, *sorted(family.extra - _OTHERS)) if name in body}
    if (cap := next((body[name] for name in CAP_FIELDS if name in body), None)) is not None:
        made["max_output_tokens"] = max(cap, MIN_OUTPUT_TOKENS)
    if body.get("stream"):
        made["stream"] = True
    return made | _reasoning(body, family) | _tools(body) | _text(body)


def _reasoning(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the wish for reasoning, for its summary, and for its encrypted content."""
    effort = body.get(EFFORT)
    if effort is not None and not isinstance(effort, str):
        refuse(EFFORT, "Input should be a string.")
    include = [LOGPROBS] if body.get("logprobs") else []
    if effort == "none":
        return {"reasoning": {"effort": effort}} | ({"include": include} if include else {})
    wanted = {} if effort is None else {"effort": effort}
    if family.reasoning_summary != "none":
        wanted["summary"] = family.reasoning_summary
    return ({"reasoning": wanted} if wanted else {}) | {"include": [ENCRYPTED, *include]}


def _tools(body: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if tools := body.get("tools"):
        made["tools"] = [_tool(tool, f"tools.{index}") for index, tool in enumerate(tools)]
    if "tool_choice" in body:
        choice = body["tool_choice"]
        named = isinstance(choice, Mapping)
        made["tool_choice"] = {"type": "function", "name": choice["function"]["name"]} if named else choice
    return made


def _tool(tool: Mapping[str, Any], place: str) -> Item:
    if tool["type"] == "custom":
        return _custom_tool(tool.get("custom"), f"{place}.custom")
    if tool["type"] != "function":
        refuse(f"{place}.type", "The model takes tools of type function or custom.")
    function = tool["function"]
    made = {"type": "function", "name": function["name"]}
    made |= {name: function[name] for name in ("description", "parameters") if function.get(name) is not None}
    # Without it, the API itself would make the function strict, and change its schema.
    return made | {"strict": bool(function.get("strict"))}


def _custom_tool(custom: object, place: str) -> Item:
    if not isinstance(custom, Mapping) or not isinstance(custom.get("name"), str):
        refuse(f"{place}.name", "Input should be a string.")
    made = {"type": "custom", "name": custom["name"]}
    if custom.get("description") is not None:
        made["description"] = custom["description"]
    form = custom.get("format")
    if isinstance(form, Mapping) and isinstance(grammar := form.get("grammar"), Mapping):
        form = {"type": "grammar", **grammar}
    return made if form is None else {**made, "format": form}


def _text(body: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if form := _format(body.get("response_format") or {}):
        made["format"] = form
    if body.get("verbosity") is not None:
        made["verbosity"] = body["verbosity"]
    return {"text": made} if made else {}


def _format(response_format: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = response_format.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": kind}
    if kind != "json_schema":
        refuse("response_format.type", "The model supports text, json_object and json_schema.")
    described = response_format.get("json_schema")
    if not isinstance(described, Mapping):
        refuse("response_format.json_schema", "Input should be an object.")
    return {"type": kind, **{name: value for name, value in described.items() if value is not None}}

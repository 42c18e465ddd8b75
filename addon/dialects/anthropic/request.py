"""A sanitized chat body becomes the body of Anthropic's Messages API. Pure.

Fields that the API does not have are left out. Those that would change the answer are refused by name instead.
Source: Anthropic, API reference, "Create a Message"; the types of its Python SDK 2.12; recorded traffic.
"""

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.dialects.anthropic.messages import thinks_first, translate_messages, without_thinking
from addon.dialects.anthropic.parts import Block, refuse, with_cache_control
from addon.dialects.anthropic.schema import supported_schema
from policies.family import CAP_FIELDS, RESERVED, Family

JSON_INSTRUCTION: Final = "Answer with one JSON object and nothing else: no other text, no code fence."
"""The instruction in place of JSON mode: the API has no such mode, and accepts no schema that fits every object."""

MIN_BUDGET_TOKENS: Final = 1024
"""Source: Anthropic, "Extended thinking", "Working with thinking budgets"."""

MAX_USER_CHARS: Final = 256
# An e-mail address, or only a telephone number. Source: BerriAI/litellm#10106, vercel/ai#12419.
_PERSONAL: Final = re.compile(r"@|\A\+?[\d ()/.-]{7,}\Z")

DEFAULT_MAX_TOKENS: Final = 4_096
"""The cap for a model outside the catalog when the client sets none. The API requires a cap.

Every Claude accepts this one. Source: Anthropic, "Models overview": claude-3-haiku has the lowest maximum.
"""

_SAME: Final = ("temperature", "top_p")
_TRANSLATED: Final = frozenset(
    {
        *("messages", *RESERVED, *_SAME),
        *(
            "n",
            "presence_penalty",
            "frequency_penalty",
            "seed",
            "stop",
            "logprobs",
            "top_logprobs",
            "logit_bias",
        ),
        *("tools", "tool_choice", "parallel_tool_calls", "response_format", "user", "reasoning_effort"),
    }
)
_NO_THINKING: Final = MappingProxyType({"type": "disabled"})
_NO_PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType({"type": "object", "properties": {}})
_TOOL_CHOICES: Final = MappingProxyType({"auto": "auto", "none": "none", "required": "any"})


def to_request(body: Mapping[str, Any], family: Family, *, keeps_late_system: bool = False) -> dict[str, Any]:
    """Return the native body. Fields of ``family.extra`` that are not chat fields are sent unchanged.

    ``keeps_late_system`` is as for ``translate_messages``. Raises Refusal ``validation_failed``, naming the field, for
    a value that the API can't express.
    """
    system, turns = translate_messages(body["messages"], keeps_late_system=keeps_late_system)
    response_format, instructions = _format(body.get("response_format"))
    effort = _effort(body)
    made = _plain_fields(body, family) | {"messages": turns} | _tools(body)
    if system := system + instructions:
        made["system"] = system[0]["text"] if len(system) == 1 and len(system[0]) == 2 else system
    given = made.pop("thinking", None)
    thinking = _thinking_within_cap(given, made["max_tokens"]) if given else _thinking(effort, family, made)
    if thinking:
        made["thinking"] = thinking
    if family.effort_budgets and (not thinking or thinking == _NO_THINKING):
        made["messages"] = without_thinking(turns)
    return made | _output_config(made, response_format, None if family.effort_budgets else effort)


def _plain_fields(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the fields that are sent unchanged, or under another name, whatever the other fields are."""
    made = {name: body[name] for name in sorted(family.extra - _TRANSLATED) if name in body}
    made |= {"model": body["model"], "max_tokens": _cap(body)}
    made |= {name: body[name] for name in _SAME if name in body}
    if body.get("stream"):
        made["stream"] = True
    if stops := _stops(body.get("stop")):
        made["stop_sequences"] = stops
    if "user" in body:
        made["metadata"] = {"user_id": user_id(body["user"])}
    return made


def user_id(user: str) -> str:
    """Return ``user``, or a hash of it.

    The API refuses texts that may be an e-mail address or a telephone number, and more than 256 characters.
    """
    if len(user) <= MAX_USER_CHARS and not _PERSONAL.search(user):
        return user
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def _cap(body: Mapping[str, Any]) -> int:
    return next((int(body[name]) for name in CAP_FIELDS if name in body), DEFAULT_MAX_TOKENS)


def _stops(stop: object) -> list[str]:
    """Return the stop sequences that are not blank: the API refuses blank ones."""
    return [sequence for sequence in _all_stops(stop) if sequence.strip()]


def has_blank_stop(body: Mapping[str, Any]) -> bool:
    """Return whether a stop sequence of a chat body is left out."""
    return not all(sequence.strip() for sequence in _all_stops(body.get("stop")))


def _all_stops(stop: object) -> list[str]:
    return [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []


def _tools(body: Mapping[str, Any]) -> dict[str, Any]:
    tools = [_tool(tool, f"tools.{index}") for index, tool in enumerate(body.get("tools") or [])]
    choice = _tool_choice(body.get("tool_choice"), one_call=body.get("parallel_tool_calls") is False)
    # The API refuses a tool_choice without tools.
    return ({"tools": tools} | ({"tool_choice": choice} if choice else {})) if tools else {}


def _tool(tool: Mapping[str, Any], place: str) -> Block:
    if tool["type"] != "function":
        refuse(f"{place}.type", "The model takes tools of type function only.")
    function, field = tool["function"], f"{place}.function.parameters"
    parameters = function.get("parameters")
    schema = _NO_PARAMETERS if parameters is None else parameters
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        refuse(field, "The parameters of a function must be a JSON schema of type object.")
    strict = function.get("strict")
    schema = {"type": "object", **schema}
    made: Block = {"name": function["name"], "input_schema": supported_schema(schema) if strict else schema}
    if isinstance(description := function.get("description"), str):
        made["description"] = description
    if strict:
        made["strict"] = True
    return with_cache_control(with_cache_control(made, function), tool)


def _tool_choice(choice: object, *, one_call: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if isinstance(choice, Mapping):
        made = {"type": "tool", "name": choice["function"]["name"]}
    elif isinstance(choice, str):
        made = {"type": _TOOL_CHOICES[choice]}
    if one_call and made.get("type") != "none":
        made = {"type": "auto", **made, "disable_parallel_tool_use": True}
    return made


def _format(response_format: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[Block]]:
    """Return the members of ``output_config``, and an instruction to the model."""
    form = response_format["type"] if response_format else "text"
    if response_format and form == "json_schema":
        return {"format": {"type": "json_schema", "schema": _schema(response_format)}}, []
    if form not in ("text", "json_object"):
        refuse("response_format.type", "The model supports text, json_object and json_schema.")
    return {}, [{"type": "text", "text": JSON_INSTRUCTION}] if form == "json_object" else []


def _schema(response_format: Mapping[str, Any]) -> dict[str, Any]:
    described = response_format.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        refuse("response_format.json_schema.schema", "Input should be an object.")
    return supported_schema(schema)


def _effort(body: Mapping[str, Any]) -> str | None:
    effort = body.get("reasoning_effort")
    if effort is not None and not isinstance(effort, str):
        refuse("reasoning_effort", "Input should be a string.")
    return effort


def _thinking_within_cap(thinking: object, cap_tokens: int) -> Any:
    """Return the client's own ``thinking``, or None when the cap leaves no room for its budget.

    The gateway may have lowered the cap for which the client chose its budget. That must not be an error.
    """
    if not isinstance(thinking, dict):
        refuse("thinking", "Input should be an object.")
    budget = thinking.get("budget_tokens")
    return None if isinstance(budget, int) and budget >= cap_tokens else thinking


def _thinking(effort: str | None, family: Family, made: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the ``thinking`` of a reasoning effort."""
    if effort is None:
        return None
    if effort == "none":
        return dict(_NO_THINKING)
    if not family.effort_budgets:
        return {"type": "adaptive"}
    if effort not in family.effort_budgets:
        refuse("reasoning_effort", f"The model supports none, {', '.join(family.effort_budgets)}.")
    budget = family.effort_budgets[effort]
    # The API refuses a thinking budget in these cases. The effort is only a hint, so the other wish wins.
    forced = made.get("tool_choice", {}).get("type") in ("any", "tool")
    fits = MIN_BUDGET_TOKENS <= budget < made["max_tokens"]
    if forced or not fits or not thinks_first(made["messages"]):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _output_config(
    made: Mapping[str, Any], response_format: Mapping[str, Any], effort: str | None
) -> dict[str, Any]:
    """Return ``output_config`` with the client's own members and ours, if there are any."""
    given = made.get("output_config", {})
    if not isinstance(given, Mapping):
        refuse("output_config", "Input should be an object.")
    output = {**given, **response_format} | ({} if effort in (None, "none") else {"effort": effort})
    return {"output_config": output} if output else {}

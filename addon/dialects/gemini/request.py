"""A sanitized chat body becomes the body of Gemini's generateContent, with only the fields that are named here. Pure.

The model is in the path, and the method's name says whether a stream is wanted. Source: Gemini API reference,
"GenerateContentRequest", "GenerationConfig"; recorded traffic.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.dialects.gemini.content import conversation, refusal
from policies.family import Family

CONFIG_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "n": "candidateCount",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
# For families that list them among their extra fields.
OTHER_NAMES: Final = {"safety_settings": "safetySettings", "cached_content": "cachedContent"}
# Source: google-genai, types.ThinkingLevel.
_LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh")
_THINKING: Final = {
    "include_thoughts": "includeThoughts",
    "thinking_budget": "thinkingBudget",
    "thinking_level": "thinkingLevel",
}
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def to_request(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the native body. Raises Refusal ``validation_failed``, naming the field that Gemini can't express."""
    # Models with thinking levels check signatures; models with budgets don't.
    spoken = conversation(body["messages"], not family.effort_budgets, family.tool_result_media)
    sent: dict[str, Any] = {"contents": spoken.contents}
    if spoken.system:
        sent["systemInstruction"] = {"parts": spoken.system}
    if config := _config(body, family):
        sent["generationConfig"] = config
    if tools := body.get("tools"):
        sent["tools"] = [{"functionDeclarations": _declarations(tools)}]
        # Gemini refuses a tool_choice without tools.
        if (choice := body.get("tool_choice")) is not None:
            sent["toolConfig"] = {"functionCallingConfig": _calling(choice)}
    return sent | {theirs: body[ours] for ours, theirs in OTHER_NAMES.items() if ours in body}


def _config(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    config = {theirs: body[ours] for ours, theirs in CONFIG_NAMES.items() if ours in body}
    if stop := body.get("stop"):
        config["stopSequences"] = [stop] if isinstance(stop, str) else stop
    if body.get("logprobs"):
        config["responseLogprobs"] = True
        if alternatives := body.get("top_logprobs"):
            config["logprobs"] = alternatives
    if thinking := _thinking(body, family):
        config["thinkingConfig"] = thinking
    return config | _format(body.get("response_format") or {"type": "text"})


def _thinking(body: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the thinking that the client asked for, with its text. Without a wish, the model decides."""
    if given := body.get("thinking_config"):
        return _given_thinking(given)
    if (effort := body.get("reasoning_effort")) is None:
        return {}
    if budgets := family.effort_budgets:
        budget = {"none": 0, **budgets}.get(effort) if isinstance(effort, str) else None
        if budget is None:
            raise refusal("reasoning_effort", f"must be one of {', '.join(('none', *budgets))}")
        return {"thinkingBudget": budget, "includeThoughts": effort != "none"}
    if effort not in _LEVELS:
        raise refusal("reasoning_effort", f"must be one of {', '.join(_LEVELS)}")
    return {"thinkingLevel": effort.upper(), "includeThoughts": True}


def _given_thinking(given: Any) -> dict[str, Any]:
    names = _THINKING | {name: name for name in _THINKING.values()}
    if not isinstance(given, Mapping) or not given.keys() <= names.keys():
        raise refusal("thinking_config", f"must be an object of {', '.join(_THINKING)}")
    return {names[name]: value for name, value in given.items()}


def _format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    kind = wanted.get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    if kind != "json_schema":
        raise refusal("response_format.type", "Gemini supports text, json_object and json_schema")
    named = wanted.get("json_schema")
    schema = named.get("schema") if isinstance(named, Mapping) else None
    if not isinstance(schema, Mapping):
        raise refusal("response_format.json_schema.schema", "must be an object")
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


def _declarations(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    declared = []
    for index, tool in enumerate(tools):
        if tool["type"] != "function":
            # A tool that the provider runs costs money that no hold covers.
            raise refusal(f"tools.{index}.type", "the gateway sends only functions to Gemini")
        function = tool["function"]
        made = {name: function[name] for name in ("name", "description") if function.get(name) is not None}
        if schema := function.get("parameters"):
            made["parametersJsonSchema"] = schema
        declared.append(made)
    return declared


def _calling(choice: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}

"""OpenAI, Responses. Lines without a thread are of recorded errors of this API."""

import re

from rig.vendors.openai import NAME, bad_strict, code
from rig.vendors.responses_items import (
    answered_twice_or_never_asked,
    bad_file,
    each_tool,
    kept_item,
    missing,
    nested_tool,
    no_tool_of_choice,
    reasoning_alone,
    unanswered,
    unnamed_tool,
    word_missing,
    wrong_call_id,
    wrong_item,
    wrong_part,
    wrong_role,
)
from rig.vendors.rules import (
    Check,
    Rule,
    Vendor,
    all_of,
    at,
    cap_above,
    more_than,
    openai_error,
    other_than,
    outside,
    prompt_above,
    sent,
    streamed,
    together,
    unknown,
    without,
)

ALWAYS = "gpt-5.5* gpt-5.6-* gpt-6* *-codex* *-pro"
OPTIONAL = "gpt-5.1 gpt-5.2 gpt-5.4*"
FIELDS = (
    *("background", "context_management", "conversation", "include", "input", "instructions"),
    *("max_output_tokens", "max_tool_calls", "metadata", "moderation", "parallel_tool_calls"),
    *("previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options"),
    *("prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store"),
    *("stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p"),
    *("truncation", "user", "client_metadata"),
)
INCLUDES = (
    *("reasoning.encrypted_content", "message.output_text.logprobs", "message.input_image.image_url"),
    *("web_search_call.action.sources", "code_interpreter_call.outputs", "file_search_call.results"),
    "computer_call_output.output.image_url",
)


def reasons(asked):
    return {} if at(asked.body, "reasoning.effort") not in (None, "none") else None


def not_effort_none(asked):
    return {} if at(asked.body, "reasoning.effort") != "none" else None


def unknown_include(asked):
    return next(
        ({"value": one} for one in asked.body.get("include") or () if one not in INCLUDES),
        None,
    )


def efforts(models: str, *taken: str, source: str) -> Rule:
    *some, last = (f"'{one}'" for one in taken)
    message = "Unsupported value: '{value}' is not supported with the '{model}' model. Supported values are: "
    return Rule(
        models,
        other_than("reasoning.effort", *taken),
        f"{message}{', '.join(some)}, and {last}.",
        source,
        more=code("unsupported_value", "reasoning.effort"),
    )


def unsupported(field: str, models: str, when: Check, source: str) -> Rule:
    message = "Unsupported parameter: '{field}' is not supported with this model."
    return Rule(models, all_of(when, sent(field)), message, source, more={"param": field})


def at_fault(asked):
    form = at(asked.body, "text.format") or {}
    return {} if form.get("strict") and bad_strict(form.get("schema")) else None


def unnamed_format(asked):
    form = at(asked.body, "text.format") or {}
    return {} if form.get("type") == "json_schema" and not form.get("name") else None


def wrong_root(tool) -> bool:
    return tool["type"] == "function" and (tool.get("parameters") or {}).get("type") != "object"


def strict_at_fault(tool) -> bool:
    """Return whether a strict function lacks what strict ones need. One that does not say it is completed."""
    return tool["type"] == "function" and bool(tool.get("strict")) and bad_strict(tool.get("parameters"))


RULES = (
    Rule(
        "*",
        sent("messages"),
        "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'.",
        "community.openai.com/t/1144880",
        more=code("unsupported_parameter", "messages"),
    ),
    Rule(
        "*",
        unknown(*FIELDS),
        "Unknown parameter: '{field}'.",
        "openai/openai-python#2488 (of another field)",
        more={"code": "unknown_parameter"},
    ),
    *(
        Rule(
            "*",
            missing(name),
            "Missing required parameter: '{field}'.",
            "recorded, of tools[0].name",
            more=code("missing_required_parameter", name),
        )
        for name in ("model", "input")
    ),
    Rule(
        "*",
        outside("max_output_tokens", 16, float("inf")),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {value} instead.",
        "recorded",
        more=code("integer_below_min_value", "max_output_tokens"),
    ),
    Rule(
        "*",
        cap_above(128000),
        "max_output_tokens is too large: {cap}. This model supports at most 128000 completion tokens, whereas you provided {cap}.",
        "as of chat completions (inferred)",
        more=code("invalid_value", "max_output_tokens"),
    ),
    Rule(
        "*",
        wrong_role,
        "Invalid value: '{value}'. Supported values are: {taken}.",
        "recorded",
        more={"code": "invalid_value"},
    ),
    Rule(
        "*",
        wrong_item,
        "Invalid value: '{value}'. Supported values are: {taken}.",
        "recorded",
        more={"code": "invalid_value"},
    ),
    Rule(
        "*",
        wrong_part,
        "Invalid value: '{value}'. Supported values are: {taken}.",
        "recorded",
        more={"code": "invalid_value"},
    ),
    Rule(
        "*",
        bad_file,
        "Missing or invalid: '{place}'. Expected a base64-encoded data URL with a valid file MIME type, and a name.",
        "recorded, of the data; the name is inferred",
        more={"code": "invalid_value"},
    ),
    Rule(
        "*",
        all_of(kept_item, lambda asked: {} if asked.body.get("store") is False else None),
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
        "maximhq/bifrost#5410, anomalyco/opencode#2480",
        404,
        more={"param": "input"},
    ),
    Rule(
        "*",
        reasoning_alone,
        "Item '{id}' of type 'reasoning' was provided without its required following item.",
        "recorded (code null); vercel/ai#7099",
        more={"param": "input"},
    ),
    Rule(
        "*",
        unanswered,
        "No tool output found for function call {id}.",
        "openai/openai-agents-python#673",
        more={"param": "input"},
    ),
    Rule(
        "*",
        answered_twice_or_never_asked,
        "No tool call found for function call output with call_id {id}.",
        "openai/codex#1852",
        more={"param": "input"},
    ),
    Rule(
        "*",
        wrong_call_id,
        "Invalid 'input[{index}].call_id': string too long. Expected a string with maximum length 64, but got a string with length {length} instead.",
        "openai/openai-agents-js#192 (of an id)",
        more={"code": "string_above_max_length"},
    ),
    Rule(
        "*",
        unnamed_tool,
        "Missing required parameter: '{param}'.",
        "recorded",
        more={"code": "missing_required_parameter"},
    ),
    Rule(
        "*",
        nested_tool,
        "Unknown parameter: '{param}'.",
        "recorded with 200, and the nested part is dropped; refused here to be safe",
        more={"code": "unknown_parameter"},
    ),
    Rule(
        "*",
        each_tool(lambda tool: not re.fullmatch(NAME, tool.get("name", "a"))),
        "Invalid 'tools[{index}].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "as of chat completions (inferred)",
        more={"code": "invalid_value"},
    ),
    Rule(
        "*",
        each_tool(wrong_root),
        "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
        "recorded",
        more={"code": "invalid_function_parameters"},
    ),
    Rule(
        "*",
        each_tool(strict_at_fault),
        "Invalid schema for function '{name}': In context=(), 'required' is required to be supplied and to be an array including every key in properties.",
        "recorded",
        more={"code": "invalid_function_parameters"},
    ),
    Rule(
        "*",
        more_than("tools", 128),
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {value} instead.",
        "as of chat completions (inferred)",
        more=code("array_above_max_length", "tools"),
    ),
    Rule(
        "*",
        no_tool_of_choice,
        "Tool choice must be specified with 'tools' parameter.",
        "openai/openai-python#2346 (inferred)",
        more=code("invalid_value", "tool_choice"),
    ),
    Rule(
        "*",
        unnamed_format,
        "Missing required parameter: 'text.format.name'.",
        "recorded",
        more=code("missing_required_parameter", "text.format.name"),
    ),
    Rule(
        "*",
        at_fault,
        "Invalid schema for response_format: In context=(), 'required' is required to be supplied and to be an array including every key in properties.",
        "as of chat completions (inferred)",
        more=code("invalid_json_schema", "text.format.schema"),
    ),
    Rule(
        "*",
        word_missing,
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.",
        "recorded",
        more={"param": "input"},
    ),
    Rule(
        "*",
        unknown_include,
        "Invalid value: '{value}'.",
        "vendor (inferred)",
        more=code("invalid_value", "include"),
    ),
    Rule(
        "*",
        all_of(sent("stream_options"), without(streamed)),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        "as of chat completions (inferred)",
        more={"param": "stream_options"},
    ),
    Rule(
        "*",
        together("previous_response_id", "conversation"),
        "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.",
        "vendor (inferred)",
        more={"param": "conversation"},
    ),
    Rule(
        "*",
        sent("previous_response_id"),
        "Previous response with id '{value}' not found.",
        "recorded; nothing is stored here",
        more=code("previous_response_not_found", "previous_response_id"),
    ),
    *(
        unsupported(name, ALWAYS, not_effort_none, "recorded, of gpt-5-mini")
        for name in ("temperature", "top_p", "top_logprobs")
    ),
    *(
        unsupported(name, OPTIONAL, reasons, "recorded, of gpt-5-mini; as on chat completions")
        for name in ("temperature", "top_p", "top_logprobs")
    ),
    efforts("gpt-5.1", "none", "low", "medium", "high", source="as on chat completions"),
    efforts("gpt-5.2 gpt-5.4*", "none", "low", "medium", "high", "xhigh", source="as on chat completions"),
    efforts(
        "gpt-5.5 gpt-5.6-* gpt-6-sol gpt-6-luna gpt-6.1-terra",
        *("none", "low", "medium", "high", "xhigh", "max"),
        source="AntSeed/antseed#1040, experiential#764: max is taken on this endpoint only",
    ),
    efforts(
        "gpt-6-astra gpt-6.1-sol",
        *("low", "medium", "high", "xhigh", "max"),
        source="BerriAI/litellm-docs#1173, jhd3197/Prompture v1.15.1",
    ),
    Rule(
        "gpt-5.1 gpt-5.2 gpt-5.4-mini gpt-5.4-nano",
        prompt_above(272000),
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "recorded",
        more=code("context_length_exceeded", "input"),
    ),
    Rule(
        "*",
        prompt_above(922000),
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "recorded",
        more=code("context_length_exceeded", "input"),
    ),
)

OPENAI_RESPONSES = Vendor(
    "openai responses",
    RULES,
    openai_error(param=None, code=None),
    {"gpt-5.1": 272000, "gpt-5.2": 272000, "gpt-5.4-mini": 272000, "gpt-5.4-nano": 272000, "gpt-*": 922000},
    cap_at=("max_output_tokens",),
)

"""OpenAI, chat completions."""

import re

from rig.vendors.conversations import (
    call_id,
    each_function,
    each_message,
    has_tools,
    response_format,
    result_without_call,
    root_not_object,
    tool_name_beyond,
    tools_above,
    unanswered_call,
    word_missing,
)
from rig.vendors.rules import (
    Check,
    Rule,
    Vendor,
    above,
    all_of,
    at,
    cap_above,
    more_than,
    openai_error,
    other_than,
    outside,
    prompt_above,
    prompt_above_window,
    prompt_and_cap_above_window,
    sent,
    together,
    without,
)

OLD = "gpt-4o* gpt-4.1*"
NEW = "gpt-5* gpt-6*"
OPTIONAL = "gpt-5.1 gpt-5.2 gpt-5.4*"
"""They reason only if asked to."""
ALWAYS = "gpt-5.5 gpt-5.6-* gpt-6*"
RESPONSES_ONLY = "gpt-6-astra gpt-6.1-sol"
"""They take no function tools here."""
NAME = "[a-zA-Z0-9_-]+"


def code(name: str, param: str | None = None):
    return {"param": param, "code": name}


def has_effort(asked):
    effort = asked.body.get("reasoning_effort")
    return {} if effort not in (None, "none") else None


def no_effort_none(asked):
    return {} if asked.body.get("reasoning_effort") != "none" else None


def unsupported(models: str, field: str, source: str, when: Check = lambda _asked: {}) -> Rule:
    message = "Unsupported parameter: '{field}' is not supported with this model."
    return Rule(models, all_of(when, sent(field)), message, source, more=code("unsupported_parameter", field))


def efforts(models: str, *taken: str, source: str) -> Rule:
    *some, last = (f"'{one}'" for one in taken)
    message = "Unsupported value: 'reasoning_effort' does not support '{value}' with this model. Supported values are: "
    message += f"{', '.join(some)}, and {last}."
    return Rule(
        models,
        other_than("reasoning_effort", *taken),
        message,
        source,
        more=code("unsupported_value", "reasoning_effort"),
    )


def fixed(models: str, when: Check, source: str) -> list[Rule]:
    """Return the rules of fields that models take only with their default while they reason."""
    message = "Unsupported value: '{field}' does not support {value} with this model. Only the default (1) value is supported."
    sampling = [
        Rule(models, all_of(when, other_than(name, 1)), message, source, more=code("unsupported_value", name))
        for name in ("temperature", "top_p")
    ]
    return [
        *sampling,
        *(unsupported(models, name, f"{source} (inferred)", when) for name in ("logprobs", "top_logprobs")),
    ]


def no_tools(models: str, when: Check, source: str) -> Rule:
    message = "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    return Rule(models, all_of(has_tools, when), message, source, more={"param": "reasoning_effort"})


def range_of(field: str, lowest: float, highest: float, source: str) -> Rule:
    message = f"Invalid '{field}': decimal above maximum value. Expected a value <= {highest}, but got {{value}} instead."
    return Rule(
        "*", outside(field, lowest, highest), message, source, more=code("decimal_above_max_value", field)
    )


def cap_limit(models: str, highest: int, source: str) -> Rule:
    message = f"max_tokens is too large: {{cap}}. This model supports at most {highest} completion tokens, whereas you provided {{cap}}."
    return Rule(models, cap_above(highest), message, source, more=code("invalid_value", "max_tokens"))


def input_limit(models: str, highest: int, source: str) -> Rule:
    message = f"Input tokens exceed the configured limit of {highest} tokens. Your messages resulted in {{prompt}} tokens. Please reduce the length of the messages."
    return Rule(
        models, prompt_above(highest), message, source, more=code("context_length_exceeded", "messages")
    )


def needs(field: str, other: str, source: str) -> Rule:
    """Return the rule of a field that is taken only with another."""
    message = f"Invalid value for '{field}': '{field}' is only allowed when '{other}' are specified."
    return Rule("*", all_of(sent(field), without(has_tools)), message, source, more={"param": field})


def top_logprobs_alone(asked):
    return {} if asked.body.get("top_logprobs") is not None and not asked.body.get("logprobs") else None


def stream_options_whole(asked):
    return {} if asked.body.get("stream_options") is not None and not asked.streams else None


def bad_strict(schema) -> bool:
    """Return whether an object of a strict schema lacks what strict ones need."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(
            properties
        ):
            return True
        return any(map(bad_strict, properties.values()))
    return bad_strict(schema.get("items"))


def strict_format_at_fault(asked):
    named = at(asked.body, "response_format.json_schema") or {}
    return {} if named.get("strict") and bad_strict(named.get("schema")) else None


def unnamed_schema(asked):
    named = at(asked.body, "response_format.json_schema")
    return {} if named is not None and not named.get("name") else None


CONTEXT = code("context_length_exceeded", "messages")
TOO_LONG = code("string_above_max_length")

OPENAI = Vendor(
    "openai",
    (
        Rule(
            "*",
            together("max_tokens", "max_completion_tokens"),
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "recorded",
            more=code("invalid_parameter_combination", "max_tokens"),
        ),
        Rule(
            NEW,
            sent("max_tokens"),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "recorded; bolna-ai/bolna#1019 (gpt-6)",
            more=code("unsupported_parameter", "max_tokens"),
        ),
        cap_limit("gpt-4o*", 16384, "tailcallhq/forgecode#1185"),
        cap_limit("gpt-4.1*", 32768, "opencode-ai/opencode#140"),
        cap_limit(NEW, 128000, "mnfst/modelparams.dev#356 (the words are inferred)"),
        Rule(
            "gpt-4o*",
            prompt_above_window,
            "This model's maximum context length is {window} tokens. However, your messages resulted in {prompt} tokens. Please reduce the length of the messages.",
            "webtimemachine/wtm2#579, Nutlope/aicommits#259",
            more=CONTEXT,
        ),
        Rule(
            OLD,
            prompt_and_cap_above_window,
            "This model's maximum context length is {window} tokens. However, you requested {total} tokens ({prompt} in the messages, {cap} in the completion). Please reduce the length of the messages or completion.",
            "n3d1117/chatgpt-telegram-bot#174 (older models; for these inferred)",
            more=CONTEXT,
        ),
        input_limit(
            "gpt-5.1 gpt-5.2 gpt-5.4-mini gpt-5.4-nano",
            272000,
            "cline/cline#5474, Roo-Code#6856, zed#35857; models.dev",
        ),
        input_limit(
            "gpt-5.4 gpt-5.5 gpt-5.6-* gpt-6*",
            922000,
            "models.dev; BerriAI/litellm#39607; Rynaro/prisma v0.15.0",
        ),
        range_of("temperature", 0, 2, "recorded"),
        range_of("top_p", 0, 1, "as of temperature (inferred)"),
        range_of("presence_penalty", -2, 2, "as of temperature (inferred)"),
        range_of("frequency_penalty", -2, 2, "as of temperature (inferred)"),
        *fixed(
            ALWAYS,
            no_effort_none,
            "mnfst/modelparams.dev#207, #356; bolna-ai/bolna#1019; BerriAI/litellm#39631",
        ),
        *fixed(OPTIONAL, has_effort, "vendor: gpt-5-1-parameter-compatibility by vercel/ai#10940"),
        unsupported(NEW, "stop", "smolagents#1868 (5.1), #1893 (5.2), crewAI#4149, bolna#1019 (astra)"),
        *(
            unsupported(NEW, name, "nextai-translator#1781 (gpt-5-mini); pydantic-ai (later ones inferred)")
            for name in ("presence_penalty", "frequency_penalty")
        ),
        unsupported(NEW, "logit_bias", "pydantic-ai, vercel, litellm (inferred)"),
        Rule(
            "*",
            more_than("stop", 4),
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length {value} instead.",
            "vendor (the words are inferred)",
            more=code("array_above_max_length", "stop"),
        ),
        Rule(
            "*",
            above("n", 128),
            "Invalid 'n': integer above maximum value. Expected a value <= 128, but got {value} instead.",
            "thisisartium/continuous-alignment-testing#25",
            more=code("integer_above_max_value", "n"),
        ),
        Rule(
            "*",
            top_logprobs_alone,
            "'top_logprobs' is only allowed when 'logprobs' is enabled.",
            "vendor (inferred)",
            more={"param": "top_logprobs"},
        ),
        Rule(
            "*",
            outside("top_logprobs", 0, 20),
            "Invalid 'top_logprobs': integer above maximum value. Expected a value <= 20, but got {value} instead.",
            "vendor (inferred)",
            more=code("integer_above_max_value", "top_logprobs"),
        ),
        Rule(
            "*",
            all_of(response_format("json_object"), word_missing("json")),
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            "mem0ai/mem0#3008, ultimatejimmy/xray.koplugin#33",
            more={"param": "messages"},
        ),
        Rule(
            "*",
            stream_options_whole,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "BerriAI/litellm#5803",
            more={"param": "stream_options"},
        ),
        needs("parallel_tool_calls", "tools", "openai/swarm#30"),
        needs("tool_choice", "tools", "as of parallel_tool_calls (inferred)"),
        Rule(
            OLD,
            sent("reasoning_effort"),
            "Unrecognized request argument supplied: reasoning_effort",
            "mnfst/modelparams.dev#291",
        ),
        efforts(
            "gpt-5.1",
            "none",
            "low",
            "medium",
            "high",
            source="models.dev, mnfst/modelparams.dev; the words are recorded",
        ),
        efforts(
            "gpt-5.2 gpt-5.4* gpt-5.5",
            "none",
            "low",
            "medium",
            "high",
            "xhigh",
            source="models.dev, mnfst/modelparams.dev; AntSeed/antseed#1040",
        ),
        efforts(
            "gpt-5.6-*",
            "none",
            "low",
            "medium",
            "high",
            "xhigh",
            source="livekit/agents#7169, mnfst/modelparams.dev#236 (live)",
        ),
        efforts(
            RESPONSES_ONLY,
            "low",
            "medium",
            "high",
            "xhigh",
            source="genkit#6303 (live), BerriAI/litellm-docs#1173 (live), jhd3197/Prompture v1.15.1",
        ),
        efforts(
            "gpt-6-sol gpt-6-luna gpt-6.1-terra",
            "none",
            "low",
            "medium",
            "high",
            "xhigh",
            source="docs.litellm.ai/blog/gpt_6_sol_luna; max is disputed, refused here to be safe",
        ),
        no_tools(
            "gpt-5.2 gpt-5.4* gpt-5.5",
            has_effort,
            "pipecat#4043, openai/openai-openapi#541, livekit/agents#5088, crush#2913",
        ),
        no_tools(
            "gpt-5.6-* gpt-6-sol gpt-6-luna gpt-6.1-terra",
            no_effort_none,
            "BerriAI/litellm#34569 (live), LibreChat#14231, onyx#15008; gpt-6.1-terra inferred",
        ),
        no_tools(
            RESPONSES_ONLY,
            lambda _asked: {},
            "genkit#6303, genkit-dart#423, bolna#1019, jhd3197/Prompture v1.15.1, goruck v3.46.0-beta.1",
        ),
        Rule(
            "*",
            unanswered_call,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
            "aliasrobotics/cai#111, BerriAI/litellm#10083",
            more={"param": "messages"},
        ),
        Rule(
            "*",
            result_without_call,
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            "vendor (inferred)",
            more={"param": "messages"},
        ),
        Rule(
            "*",
            call_id(lambda one: len(one) > 40),
            "Invalid 'messages[{index}].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length {length} instead.",
            "vercel/ai#5171",
            more=TOO_LONG,
        ),
        Rule(
            "*",
            each_message(
                lambda one: one.get("name") is not None and re.fullmatch(r"[^\s<|\\/>]+", one["name"]) is None
            ),
            "Invalid 'messages[{index}].name': string does not match pattern.",
            "extended_openai_conversation#251",
            more=code("invalid_value"),
        ),
        Rule(
            "*",
            tool_name_beyond(NAME),
            "Invalid 'tools[{index}].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "brekkylab/ailoy#109",
            more=code("invalid_value"),
        ),
        Rule(
            "*",
            each_function(lambda one: len(one["name"]) > 64),
            "Invalid 'tools[{index}].function.name': string too long. Expected a string with maximum length 64, but got a string with length {length} instead.",
            "home-assistant/core#121325",
            more=TOO_LONG,
        ),
        Rule(
            "*",
            tools_above(128),
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {value} instead.",
            "0x4m4/hexstrike-ai#29, claude-code-router#686",
            more=code("array_above_max_length", "tools"),
        ),
        Rule(
            "*",
            each_function(root_not_object),
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
            "recorded; {} is disputed",
            more=code("invalid_function_parameters"),
        ),
        Rule(
            "*",
            each_function(lambda one: bool(one.get("strict")) and bad_strict(one.get("parameters"))),
            "Invalid schema for function '{name}': In context=(), 'additionalProperties' is required to be supplied and to be false.",
            "recorded",
            more=code("invalid_function_parameters"),
        ),
        Rule(
            "*",
            unnamed_schema,
            "Missing required parameter: 'response_format.json_schema.name'.",
            "recorded",
            more=code("missing_required_parameter", "response_format.json_schema.name"),
        ),
        Rule(
            "*",
            strict_format_at_fault,
            "Invalid schema for response_format: In context=(), 'required' is required to be supplied and to be an array including every key in properties.",
            "recorded",
            more={"param": "response_format"},
        ),
    ),
    openai_error(param=None, code=None),
    {
        "gpt-4o*": 128000,
        "gpt-4.1*": 1047576,
        # Of these, the part that a prompt may fill: a completion has its own.
        **dict.fromkeys(("gpt-5.1", "gpt-5.2", "gpt-5.4-mini", "gpt-5.4-nano"), 272000),
        "gpt-*": 922000,
    },
)

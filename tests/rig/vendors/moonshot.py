"""Moonshot AI (Kimi), chat completions."""

import re

from rig.vendors.conversations import (
    calls_without,
    each_function,
    empty,
    empty_text_part,
    has_boolean_schema,
    image_by_url,
    result_without_call,
    root_not_object,
    tool_choice,
    tools_above,
    unanswered_call,
)
from rig.vendors.rules import (
    Check,
    Rule,
    Vendor,
    all_of,
    given,
    more_than,
    openai_error,
    other_than,
    prompt_and_cap_above_window,
    sent,
    without,
)

DOCS = "vendor docs by mnfst/modelparams.dev#168"
SCHEMA = "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: "
thinks_off = given("thinking.type", "disabled")
thinks_on = without(thinks_off)


def long_stop(asked):
    stop = asked.body.get("stop") or []
    entries = [stop] if isinstance(stop, str) else stop
    return next(({"value": one} for one in entries if len(one.encode()) > 32), None)


def missing_required(one):
    schema = one.get("parameters") or {}
    return not set(schema.get("required") or ()) <= set(schema.get("properties") or ())


def forced(models: str, form: str, when: Check = lambda _asked: {}) -> Rule:
    source = "UKGovernmentBEIS/inspect_ai#5152, AstrBot#7805, oh-my-pi#1077, #827, big-AGI#1161"
    return Rule(
        models,
        all_of(when, tool_choice(form)),
        "tool_choice '{form}' is incompatible with thinking enabled",
        source,
    )


MOONSHOT = Vendor(
    "moonshot",
    (
        Rule(
            "*",
            prompt_and_cap_above_window,
            "Invalid request: Your request exceeded model token limit: {window} (requested: {total})",
            "kimi-cli#2011; litellm#22478; MoonshotAI/Cookbook#18",
        ),
        Rule(
            "*",
            all_of(thinks_on, other_than("temperature", 1)),
            "invalid temperature: only 1 is allowed for this model",
            "kodus#1120 (live), new-api#5372",
        ),
        Rule(
            "kimi-k2.6",
            all_of(thinks_off, other_than("temperature", 0.6)),
            "invalid temperature: only 0.6 is allowed for this model",
            "nanobot#4962, #4967",
        ),
        Rule(
            "*",
            other_than("top_p", 0.95),
            "invalid top_p: only 0.95 is allowed for this model",
            f"{DOCS} (the words are inferred)",
        ),
        Rule(
            "*",
            other_than("n", 1),
            "invalid n: only 1 is allowed for this model",
            f"{DOCS} (the words are inferred)",
        ),
        *(
            Rule(
                "*",
                other_than(name, 0),
                f"invalid {name}: only 0 is allowed for this model",
                f"{DOCS} (the words are inferred)",
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
        Rule(
            "*", more_than("stop", 5), "invalid stop: at most 5 entries", f"{DOCS} (the words are inferred)"
        ),
        Rule(
            "*",
            long_stop,
            "invalid stop: an entry is longer than 32 bytes",
            f"{DOCS}; AIHubMix K3 guide (the words are inferred)",
        ),
        forced("kimi-k2.6", "required", thinks_on),
        forced("kimi-k2.6", "named", thinks_on),
        forced("kimi-k2.7-code*", "required"),
        forced("kimi-k2.7-code*", "named"),
        forced("kimi-k3", "named"),
        Rule(
            "kimi-k2.7-code*",
            thinks_off,
            "invalid value for thinking type",
            "vendor docs (the words are inferred)",
        ),
        Rule(
            "*",
            other_than("thinking.type", "enabled", "disabled"),
            "invalid value for thinking type",
            "vendor docs (inferred)",
        ),
        Rule(
            "kimi-k2.6",
            all_of(thinks_off, sent("reasoning_effort")),
            "invalid reasoning_effort: thinking is disabled",
            "openclaw#47261 (the words are inferred)",
        ),
        Rule(
            "kimi-k3",
            other_than("reasoning_effort", "low", "high", "max"),
            "Unsupported value: 'reasoning_effort' does not support '{value}' with this model.",
            "pydantic-ai profile, Kilo cloud#3807; refused here to be safe: one live report says ignored",
        ),
        Rule(
            "*",
            all_of(thinks_on, calls_without("reasoning_content")),
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}",
            "continuedev/continue#11527, #11600",
        ),
        Rule(
            "*",
            empty("assistant"),
            "Invalid request: the message at position {index} with role '{role}' must not be empty",
            "AstrBot#7200, lobehub#8419, kimi-code#1985",
        ),
        Rule(
            "*",
            empty("user"),
            "Invalid request: the message at position {index} with role '{role}' must not be empty",
            "as of the assistant (inferred)",
        ),
        Rule("*", empty_text_part, "text content is empty", "kimi-cli#2396"),
        Rule(
            "*",
            unanswered_call,
            "Invalid request: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
            "kimi-cli#1977",
        ),
        Rule(
            "*",
            result_without_call,
            "Invalid request: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
            "hermes-agent#24328, earendil-works/pi#5884",
        ),
        Rule(
            "*",
            image_by_url,
            "Invalid request: unsupported image url: {value}",
            "vercel/ai moonshotai: base64 or ms:// only (the words are inferred)",
        ),
        Rule(
            "*",
            each_function(root_not_object),
            SCHEMA + 'tools.function.parameters.type is required and must be "object"',
            "MiqroForge#1165 (live), MoonshotAI/walle mfjs-spec.md",
        ),
        Rule(
            "*",
            each_function(has_boolean_schema),
            SCHEMA + "<property schema must be an object>",
            "oh-my-pi#5952",
        ),
        Rule(
            "*",
            each_function(missing_required),
            SCHEMA + "<required names a property that is not there>",
            "kimi-code#1610 (the words are inferred)",
        ),
        Rule(
            "*",
            each_function(lambda one: re.match("[A-Za-z][A-Za-z0-9_-]*$", one["name"]) is None),
            "function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes",
            "kimi-cli#1773, #2531",
        ),
        Rule("*", tools_above(128), "Invalid request: too many tools", "vendor docs (inferred)"),
    ),
    openai_error(),
    {"kimi-k3": 1048576, "*": 262144},
)

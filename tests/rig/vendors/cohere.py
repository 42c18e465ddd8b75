"""Cohere, the API that is compatible with OpenAI's."""

from rig.vendors.conversations import each_message, result_without_call, tool_choice, tool_name_beyond
from rig.vendors.rules import (
    Rule,
    Vendor,
    but_not,
    given,
    more_than,
    other_than,
    outside,
    prompt_above_window,
    together,
)

SPEC = "cohere-ai/cohere-developer-experience (2026-08-20)"
ERRORS = f"{SPEC} errors.mdx"
penalties_zero = given("presence_penalty", 0), given("frequency_penalty", 0)


def empty_user(asked):
    return each_message(lambda one: one["role"] == "user" and not one.get("content"))(asked)


def penalty(name: str) -> Rule:
    return Rule(
        "*", outside(name, 0, 1), f"invalid request: {name} must be between 0 and 1 inclusive.", ERRORS
    )


COHERE = Vendor(
    "cohere",
    (
        Rule(
            "*",
            outside("temperature", 0, 1),
            "invalid request: temperature must be between 0 and 1.0 inclusive.",
            ERRORS,
        ),
        penalty("presence_penalty"),
        penalty("frequency_penalty"),
        Rule(
            "*",
            but_not(
                but_not(together("presence_penalty", "frequency_penalty"), penalties_zero[0]),
                penalties_zero[1],
            ),
            "invalid request: cannot specify both frequency_penalty and presence_penalty.",
            f"{ERRORS} (v1)",
        ),
        Rule(
            "*",
            prompt_above_window,
            "too many tokens: the prompt is longer than {window} tokens",
            f"{ERRORS} (the words are inferred)",
        ),
        Rule(
            "*",
            more_than("stop", 5),
            "invalid request: too many stop sequences",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            other_than("reasoning_effort", "none", "high"),
            "invalid request: reasoning_effort must be none or high",
            f"{SPEC} compatibility-api.mdx (the words are inferred)",
        ),
        Rule(
            "*",
            tool_choice("named"),
            "invalid request: tool_choice must be REQUIRED or NONE",
            f"{SPEC} cohere-openapi.yaml (the words are inferred)",
        ),
        Rule(
            "*",
            tool_name_beyond("[A-Za-z_][A-Za-z0-9_]*"),
            "invalid request: tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit",
            f"{ERRORS} (v1)",
        ),
        Rule("*", result_without_call, "tool call id not found in previous tool calls", ERRORS),
        Rule(
            "*",
            empty_user,
            "message must be at least 1 token long or tool results must be specified.",
            ERRORS,
        ),
    ),
    lambda found: {"message": found.message},
    {"command-a-*": 256000, "*": 128000},
)

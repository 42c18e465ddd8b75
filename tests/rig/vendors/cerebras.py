"""Cerebras, chat completions."""

from rig.vendors.conversations import each_function, image, message_field, mixed_strict
from rig.vendors.rules import (
    Rule,
    Vendor,
    above,
    at,
    more_than,
    other_than,
    outside,
    prompt_and_cap_above_window,
    unknown,
)

SPEC = "Cerebras/cerebras-cloud-sdk-python bebb8d1 (2026-01)"
WRONG = {"param": None, "code": "wrong_api_format"}


def word(found):
    said = {name: found.fields.get(name, WRONG[name]) for name in ("param", "code")}
    return {"message": found.message, "type": "invalid_request_error", **said}


def alone(asked):
    return {} if asked.body.get("top_logprobs") is not None and not asked.body.get("logprobs") else None


def unnamed_schema(asked):
    named = at(asked.body, "response_format.json_schema")
    return {} if named is not None and not named.get("name") else None


def loose_strict(one):
    return bool(one.get("strict")) and (one.get("parameters") or {}).get("additionalProperties") is not False


CEREBRAS = Vendor(
    "cerebras",
    (
        Rule(
            "*",
            prompt_and_cap_above_window,
            "Please reduce the length of the messages or completion. Current length is {total} while limit is {window}",
            "cline#5140, opencode#1551 (that the cap counts is inferred)",
            more={"param": "messages", "code": "context_length_exceeded"},
        ),
        Rule(
            "gpt-oss-120b",
            other_than("reasoning_effort", "low", "medium", "high"),
            "reasoning_effort: Input should be 'low', 'medium' or 'high'",
            f"harn-vm 80-cerebras.toml (live), {SPEC}",
        ),
        Rule(
            "*",
            outside("temperature", 0, 1.5),
            "temperature: Input should be less than or equal to 1.5",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            more_than("stop", 4),
            "stop: List should have at most 4 items",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            above("top_logprobs", 20),
            "top_logprobs: Input should be less than or equal to 20",
            f"{SPEC} (the words are inferred)",
        ),
        Rule("*", alone, "top_logprobs requires logprobs", f"{SPEC} (the words are inferred)"),
        Rule(
            "*",
            unknown(
                *(
                    "max_tokens",
                    "max_completion_tokens",
                    "temperature",
                    "top_p",
                    "stop",
                    "seed",
                    "user",
                    "stream_options",
                ),
                *(
                    "tools",
                    "tool_choice",
                    "response_format",
                    "logprobs",
                    "top_logprobs",
                    "reasoning_effort",
                    "n",
                ),
                *(
                    "clear_thinking",
                    "presence_penalty",
                    "frequency_penalty",
                    "logit_bias",
                    "parallel_tool_calls",
                ),
                *("service_tier", "prediction"),
            ),
            "property '{field}' is unsupported",
            "mnfst/modelparams.dev#115; the penalties and the rest of OpenAI's are disputed",
        ),
        Rule(
            "*",
            message_field("reasoning_content"),
            "messages.{index}.assistant.reasoning_content: property 'messages.{index}.assistant.reasoning_content' is unsupported",
            "kilocode#10375, vercel/ai#15042",
            more={"param": "validation_error"},
        ),
        Rule(
            "*",
            unnamed_schema,
            "response_format.json_schema.name: Field required",
            "cerebras-cloud-sdk-node#4 (the words are inferred)",
        ),
        Rule(
            "*",
            mixed_strict,
            "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'",
            "Roo-Code#10334",
            422,
        ),
        Rule(
            "*",
            each_function(loose_strict),
            "strict tools need additionalProperties: false",
            "llmgateway#1455 (the words are inferred)",
            422,
        ),
        Rule("*", image, "messages.{index}.content: image input is not supported", "text model (inferred)"),
    ),
    word,
    {"*": 131072},
)

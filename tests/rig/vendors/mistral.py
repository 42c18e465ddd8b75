"""Mistral, chat completions."""

import re

from rig.vendors.conversations import (
    call_id,
    each_function,
    empty,
    image,
    last_role,
    message_field_beyond,
    no_parameters,
    role_after,
    role_other_than,
)
from rig.vendors.rules import (
    Found,
    Rule,
    Vendor,
    above,
    given,
    other_than,
    outside,
    prompt_above_window,
    prompt_and_cap_above_window,
    sent,
    unknown,
)

SPEC = "mistralai/platform-docs-public public/openapi.yaml (2026-08-21)"
ORDER = {"type": "invalid_request_message_order", "code": "3230"}
ARGUMENTS = {"type": "invalid_request_invalid_args", "code": "3051"}
_EFFORTS = "(<ReasoningEffort.none: 'none'>, <ReasoningEffort.high: 'high'>)"


def word(found: Found):
    """Return the body: a list of details for a 422 of the validation, else one message."""
    if found.rule.status == 422:
        place = found.fields.get("loc") or [found.fields.get("field", "max_tokens")]
        kind = found.fields.get("kind", "extra_forbidden")
        detail = {
            "type": kind,
            "loc": ["body", *place],
            "msg": found.message,
            "input": found.fields.get("value"),
        }
        return {"detail": [detail]}
    members = {"type": "invalid_request_error", "param": None, "code": None}
    said = {name: found.fields[name] for name in ("type", "code") if name in found.fields}
    return {"object": "error", "message": found.message, **members, **said}


FORBIDDEN = "Extra inputs are not permitted"
_FUNCTION = {"name", "description", "parameters", "strict"}

MISTRAL = Vendor(
    "mistral",
    (
        Rule(
            "*",
            prompt_above_window,
            "Prompt contains {prompt} tokens, too large for model with {window} maximum context length",
            "docs.mistral.ai/resources/known-limitations",
            more=ARGUMENTS,
        ),
        Rule(
            "*",
            prompt_and_cap_above_window,
            "Value error, the token count of the prompt plus max_tokens ({total}) cannot exceed the model's context length ({window})",
            f"{SPEC}; openclaw#53054, #53177 (the words are inferred)",
            422,
            {"kind": "value_error"},
        ),
        Rule("*", sent("max_completion_tokens"), FORBIDDEN, "openclaw#47079, eca#231", 422),
        Rule(
            "*",
            unknown(
                *(
                    "max_tokens",
                    "temperature",
                    "top_p",
                    "stop",
                    "random_seed",
                    "response_format",
                    "tools",
                    "tool_choice",
                ),
                *(
                    "presence_penalty",
                    "frequency_penalty",
                    "n",
                    "prediction",
                    "parallel_tool_calls",
                    "prompt_mode",
                ),
                *(
                    "reasoning_effort",
                    "guardrails",
                    "safe_prompt",
                    "metadata",
                    "prompt_cache_key",
                    "service_tier",
                ),
            ),
            FORBIDDEN,
            f"{SPEC}; openclaude#739; anon-kode#53 (stream_options)",
            422,
        ),
        Rule(
            "*",
            message_field_beyond(assistant=("tool_calls", "prefix"), tool=("tool_call_id", "name")),
            FORBIDDEN,
            f"crush#1590; {SPEC}",
            422,
        ),
        Rule(
            "*",
            above("temperature", 1.5),
            "Input should be less than or equal to 1.5",
            f"mnfst/modelparams.dev#234 (live); {SPEC}",
            422,
            {"kind": "less_than_equal"},
        ),
        Rule(
            "*",
            outside("top_p", 0.0001, 1),
            "Input should be less than or equal to 1",
            f"{SPEC}; mnfst/modelparams.dev#234",
            422,
            {"kind": "less_than_equal"},
        ),
        Rule(
            "*",
            outside("random_seed", 0, 2**63),
            "Input should be greater than or equal to 0",
            SPEC,
            422,
            {"kind": "greater_than_equal"},
        ),
        *(
            Rule(
                "*",
                outside(name, -2, 2),
                "Input should be less than or equal to 2",
                SPEC,
                422,
                {"kind": "less_than_equal"},
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
        Rule(
            "mistral-small-* mistral-medium-2604",
            other_than("reasoning_effort", "none", "high"),
            "reasoning_effort='{value}' is not supported for this model. Must be one of " + _EFFORTS,
            "recorded; SmartHopper#647",
            more=ARGUMENTS,
        ),
        Rule(
            "mistral-large-* ministral-*",
            sent("reasoning_effort"),
            "Reasoning effort is not enabled for this model",
            "dust#27613",
            more=ARGUMENTS,
        ),
        Rule(
            "mistral-small-2603 mistral-medium-2604",
            given("prompt_mode", "reasoning"),
            "Reasoning prompt mode is not enabled for this model",
            "badlogic/pi-mono#3096, #3989",
            more=ARGUMENTS,
        ),
        Rule(
            "*",
            role_other_than("system", "user", "assistant", "tool"),
            "Input tag '{role}' found using 'role' does not match any of the expected tags: 'system', 'user', 'assistant', 'tool'",
            SPEC,
            422,
            {"kind": "union_tag_invalid"},
        ),
        Rule(
            "*",
            role_after("system", "assistant", "tool"),
            "Unexpected role '{role}' after role '{previous}'",
            "recorded (after assistant); after tool inferred",
            more=ORDER,
        ),
        Rule(
            "*",
            role_after("user", "tool"),
            "Unexpected role '{role}' after role '{previous}'",
            "avante.nvim#2695, onyx#6458, litellm#17761",
            more=ORDER,
        ),
        Rule(
            "*",
            role_after("tool", "user"),
            "Unexpected role '{role}' after role '{previous}'",
            "crush#279",
            more=ORDER,
        ),
        Rule(
            "*",
            last_role("assistant", but="prefix"),
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
            "new-api#2858, AiNiee#641",
            more=ORDER,
        ),
        Rule(
            "*",
            empty("assistant"),
            "Assistant message must have either content or tool_calls, but not none.",
            "OpenHands#8685, solbrowse#16",
        ),
        Rule(
            "*",
            call_id(lambda one: re.fullmatch("[a-zA-Z0-9]{9}", one) is None),
            "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
            "gptel#1203, langchain#24668",
        ),
        Rule(
            "ministral-8b-latest",
            image,
            "Image input is not enabled for this model",
            "models.dev: text only (inferred, as are the words)",
            more=ARGUMENTS,
        ),
        Rule(
            "*",
            each_function(no_parameters),
            "Field required",
            f"{SPEC}; Mirascope#961 (inferred)",
            422,
            {"kind": "missing"},
        ),
        Rule(
            "*",
            each_function(lambda one: not one.keys() <= _FUNCTION),
            FORBIDDEN,
            "mistralai/client-python#91",
            422,
        ),
    ),
    word,
    {
        "mistral-large-*": 262144,
        "mistral-medium-*": 262144,
        "mistral-small-*": 256000,
        "ministral-8b-latest": 128000,
    },
)

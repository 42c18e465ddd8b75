"""OpenRouter, chat completions."""

import json

from rig.vendors.conversations import has_tools, image
from rig.vendors.rules import (
    Rule,
    Vendor,
    all_of,
    more_than,
    other_than,
    outside,
    prompt_and_cap_above_window,
    sent,
)

SPEC = "OpenRouterTeam/typescript-sdk openapi (2026-08-22)"
EFFORTS = ("max", "xhigh", "high", "medium", "low", "minimal", "none")
TEXT_MODELS = "amazon/nova-micro-v1 inception/* ai21/* nvidia/* meta-llama/llama-3.3-* nousresearch/* ibm-granite/granite-4.1-*"


def word(found):
    error = {"message": found.message, "code": found.rule.status}
    if "metadata" in found.fields:
        error["metadata"] = found.fields["metadata"]
    return {"error": error, "user_id": "user_1"}


def invalid(code: str, place: str, **more) -> str:
    return json.dumps([{"code": code, **more, "path": [place]}])


def efforts_differ(asked):
    """Refuse ``reasoning`` and ``reasoning_effort`` that say different things."""
    said = (asked.body.get("reasoning") or {}).get("effort")
    flat = asked.body.get("reasoning_effort")
    return {} if "reasoning" in asked.body and flat is not None and said != flat else None


OPENROUTER = Vendor(
    "openrouter",
    (
        Rule(
            "*",
            prompt_and_cap_above_window,
            "This endpoint's maximum context length is {window} tokens. However, you requested about {total} tokens ({prompt} of text input, {cap} in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.",
            "OpenHands#9937, aider#3721, shelley#159; today's ending is recorded",
            more={"metadata": {"provider_name": None}},
        ),
        Rule(
            "*",
            more_than("stop", 4),
            invalid("too_big", "stop", maximum=4),
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            outside("temperature", 0, 2),
            invalid("too_big", "temperature", maximum=2),
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            outside("top_logprobs", 0, 20),
            invalid("too_big", "top_logprobs", maximum=20),
            f"{SPEC} (the words are inferred)",
        ),
        *(
            Rule(
                "*",
                outside(name, -2, 2),
                invalid("too_big", name, maximum=2),
                f"{SPEC} (the words are inferred)",
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
        Rule(
            "*",
            efforts_differ,
            '[{"code":"custom","message":"Only one of \\"reasoning\\" and \\"reasoning_effort\\" may be provided","path":[]}]',
            f"LibreChat#6076; {SPEC}",
        ),
        Rule(
            "*",
            all_of(sent("reasoning.effort"), sent("reasoning.max_tokens")),
            'Only one of "reasoning.effort" and "reasoning.max_tokens" can be specified',
            "amx#66",
        ),
        Rule(
            "*",
            other_than("reasoning_effort", *EFFORTS),
            invalid("invalid_value", "reasoning_effort"),
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "nousresearch/hermes-4-405b",
            has_tools,
            'No endpoints found that support tool use. Try disabling "tools". To learn more about provider routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection',
            "kilocode#9006; models.dev: no tools",
            404,
        ),
        Rule(
            TEXT_MODELS,
            image,
            "No endpoints found that support image input",
            "hermes-agent#23411; models.dev: text only",
            404,
        ),
    ),
    word,
    {
        "amazon/nova-2-lite-v1": 1000000,
        "amazon/nova-micro-v1": 128000,
        "amazon/nova-*": 300000,
        "inception/mercury-2": 128000,
        "ai21/jamba-large-1.7": 256000,
        "nvidia/nemotron-3-ultra-*": 262144,
        "*": 131072,
    },
)

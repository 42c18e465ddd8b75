"""Together AI, chat completions."""

from rig.vendors.conversations import image, role_other_than
from rig.vendors.rules import (
    Rule,
    Vendor,
    given,
    openai_error,
    other_than,
    outside,
    prompt_and_cap_above_window,
)

SPEC = "togethercomputer/openapi 090263a (2026-04-28)"
TEXT_MODELS = "Qwen/Qwen3.7-Max meta-llama/* openai/* zai-org/*"


def word(found):
    return {"id": "oN1", **openai_error(param=None, code=None)(found)}


TOGETHER = Vendor(
    "together",
    (
        Rule(
            "*",
            prompt_and_cap_above_window,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {window}. Given: {prompt} `inputs` tokens and {cap} `max_new_tokens`",
            f"{SPEC}: context_length_exceeded_behavior is error; stanford-crfm/helm#2079 (the words are older)",
        ),
        Rule("*", outside("n", 1, 128), "n must be between 1 and 128", f"{SPEC} (the words are inferred)"),
        Rule(
            "*", outside("top_p", 0, 1), "top_p must be between 0 and 1", f"{SPEC} (the words are inferred)"
        ),
        *(
            Rule(
                "*",
                outside(name, -2, 2),
                f"{name} must be between -2 and 2",
                f"{SPEC} (the words are inferred)",
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
        Rule(
            "openai/gpt-oss-*",
            other_than("reasoning_effort", "low", "medium", "high"),
            "Invalid reasoning_effort: {value}",
            "litellm#38263 (max, none); the enum (others; the words are inferred)",
        ),
        Rule(
            "zai-org/GLM-5.3",
            given("reasoning_effort", "none", "minimal", "xhigh"),
            "Invalid reasoning_effort: {value}",
            "docs.together.ai glm-5.3-quickstart (inferred)",
        ),
        Rule(
            "*",
            given("reasoning_effort", "minimal", "xhigh"),
            "Invalid reasoning_effort: {value}",
            f"{SPEC}: low, medium, high (inferred)",
        ),
        Rule(TEXT_MODELS, image, "This model does not support images", "models.dev: text only (inferred)"),
        Rule(
            "*",
            role_other_than("system", "user", "assistant", "tool", "function"),
            "Invalid role: {role}",
            f"{SPEC} (inferred)",
        ),
    ),
    word,
    {
        "MiniMaxAI/MiniMax-M3": 524288,
        "Qwen/Qwen3.5-9B": 262144,
        "Qwen/*": 1000000,
        "meta-llama/*": 131072,
        "openai/*": 131072,
        "zai-org/GLM-5.2": 262144,
        "zai-org/GLM-5.3": 1048575,
        "moonshotai/Kimi-K3": 1048576,
    },
)

"""Fireworks, chat completions."""

from rig.vendors.conversations import each_message, image
from rig.vendors.rules import (
    Rule,
    Vendor,
    given,
    more_than,
    other_than,
    outside,
    prompt_above_window,
    together,
    unknown,
    whole_cap_above,
)

SPEC = "fw-ai-external/python-sdk 8399c12 (2026-07-21)"
ID = "accounts/fireworks/models/"
TEXT_MODELS = " ".join(f"{ID}{name}" for name in ("deepseek-*", "glm-*", "gpt-oss-*", "minimax-m2p7"))
LOW_TO_HIGH = f"{ID}gpt-oss-* {ID}minimax-m2p7"


def word(found):
    """Return the body. That of a cap which only a stream may have is another."""
    if found.rule is WHOLE_CAP:
        return {
            "error": {"message": found.message, "param": "max_tokens", "code": "BAD_REQUEST", "type": "error"}
        }
    kind = "invalid_request_error"
    return {"error": {"object": "error", "type": kind, "code": kind, "message": found.message}}


WHOLE_CAP = Rule(
    "*",
    whole_cap_above(4096),
    "Requests with max_tokens > 4096 must have stream=true",
    "nullclaw#231, goclaw#660, nanobot#996",
)

FIREWORKS = Vendor(
    "fireworks",
    (
        WHOLE_CAP,
        # A cap beyond the window is lowered: context_length_exceeded_behavior is "truncate".
        Rule(
            "*",
            prompt_above_window,
            "The prompt is too long: {prompt}, model maximum context length: {window}",
            "fw-ai/cookbook#134",
        ),
        Rule(
            "*",
            together("max_tokens", "max_completion_tokens"),
            "max_tokens and max_completion_tokens cannot both be set",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            unknown(
                *(
                    "max_tokens",
                    "max_completion_tokens",
                    "temperature",
                    "top_p",
                    "top_k",
                    "min_p",
                    "typical_p",
                    "stop",
                    "n",
                ),
                *(
                    "presence_penalty",
                    "frequency_penalty",
                    "repetition_penalty",
                    "logit_bias",
                    "logprobs",
                    "top_logprobs",
                ),
                *(
                    "seed",
                    "user",
                    "tools",
                    "tool_choice",
                    "parallel_tool_calls",
                    "response_format",
                    "stream_options",
                ),
                *(
                    "reasoning_effort",
                    "thinking",
                    "reasoning_history",
                    "context_length_exceeded_behavior",
                    "metadata",
                ),
                *(
                    "mirostat_target",
                    "mirostat_lr",
                    "prompt_cache_key",
                    "service_tier",
                    "echo",
                    "ignore_eos",
                    "raw_output",
                ),
            ),
            "Extra inputs are not permitted, field: '{field}', value: {value}",
            "midscene#1322, shelley#242, pi-mono#3854",
        ),
        Rule(
            "*",
            each_message(lambda one: "cache_control" in one),
            "Extra inputs are not permitted, field: 'messages[{index}].cache_control'",
            "pi-mono#3854",
        ),
        Rule(
            "*",
            outside("temperature", 0, 2),
            "temperature must be between 0.0 and 2.0, got {value}",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            f"{ID}minimax-m2p7",
            outside("temperature", 0, 1),
            "temperature must be between 0.0 and 1.0 for minimax_m2 (upstream model constraint), got {value}",
            "mnfst/modelparams.dev#268 (live)",
        ),
        Rule(
            "*",
            more_than("stop", 4),
            "stop: at most 4 sequences, got {value}",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            outside("top_logprobs", 0, 5),
            "top_logprobs must be between 0 and 5, got {value}",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            outside("n", 1, 128),
            "n must be between 1 and 128, got {value}",
            f"{SPEC} (the words are inferred)",
        ),
        *(
            Rule(
                "*",
                outside(name, -2, 2),
                f"{name} must be between -2.0 and 2.0, got {{value}}",
                f"{SPEC} (the words are inferred)",
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
        Rule(
            "*",
            given("reasoning_effort", "minimal"),
            "Invalid reasoning effort: {value}",
            "UKGovernmentBEIS/inspect_ai#4708; vercel/ai maps it",
        ),
        Rule(
            LOW_TO_HIGH,
            other_than("reasoning_effort", "low", "medium", "high"),
            "Invalid reasoning effort: {value}",
            "UKGovernmentBEIS/inspect_ai#4708",
        ),
        Rule(
            "*",
            together("thinking", "reasoning_effort"),
            "thinking and reasoning_effort cannot both be set",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            TEXT_MODELS,
            image,
            "This model does not support images",
            "models.dev: text only (the words are inferred)",
        ),
    ),
    word,
    {
        f"{ID}deepseek-v4-flash": 1000000,
        f"{ID}deepseek-v4-pro": 1000000,
        f"{ID}glm-5p1": 202800,
        f"{ID}glm-5p2": 1040000,
        f"{ID}gpt-oss-*": 131072,
        f"{ID}kimi-*": 262000,
        f"{ID}minimax-m2p7": 196608,
        f"{ID}minimax-m3": 512000,
        f"{ID}qwen3p7-plus": 262144,
    },
)

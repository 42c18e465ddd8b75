"""xAI, chat completions."""

from rig.vendors.conversations import each_message
from rig.vendors.rules import Rule, Vendor, given, other_than, outside, prompt_above_window, sent

NO_EFFORT = "grok-4.20-* grok-build*"
REASONING = "grok-4.3 grok-4.5 grok-4.6 grok-4.7 grok-build*"
INVALID = "Invalid reasoning effort: {value}"


def word(found):
    return {"code": "invalid-argument", "error": found.message}


def no_content(message):
    return message.get("content") == [] or (
        not message.get("content") and "tool_calls" not in message and message.get("content") != ""
    )


XAI = Vendor(
    "xai",
    (
        Rule(
            "*",
            prompt_above_window,
            "This model's maximum prompt length is {window} but the request contains {prompt} tokens.",
            "recorded; chenyme/grok2api#693",
        ),
        Rule(
            NO_EFFORT,
            sent("reasoning_effort"),
            "Model {model} does not support parameter reasoningEffort.",
            "neavo/LinguaGacha#771, chenyme/grok2api#814, NousResearch/hermes-agent#23435, router-for-me/CLIProxyAPI#3968",
        ),
        Rule(
            "grok-4.3",
            other_than("reasoning_effort", "none", "low", "medium", "high"),
            INVALID,
            "vercel @ai-sdk/xai (refusal of the others inferred)",
        ),
        Rule(
            "grok-4.5",
            given("reasoning_effort", "none"),
            "This model does not support 'reasoning_effort' value 'none'",
            "pydantic-ai (live); anomalyco/opencode#39448",
        ),
        Rule(
            "grok-4.5",
            other_than("reasoning_effort", "low", "medium", "high"),
            INVALID,
            "anomalyco/opencode#39448 (the words are inferred)",
        ),
        Rule(
            "grok-4.6",
            other_than("reasoning_effort", "minimal", "low", "medium", "high", "xhigh"),
            INVALID,
            "NousResearch/hermes-agent#85779; chenyme/grok2api#901 (minimal is disputed)",
        ),
        Rule(
            "grok-4.7",
            other_than("reasoning_effort", "low", "medium", "high", "xhigh"),
            INVALID,
            "theopenco/llmgateway#4169, farion1231/cc-switch#7584 (the refusal is inferred)",
        ),
        Rule(
            "grok-4.3 grok-4.5 grok-4.6 grok-4.7 grok-4.20-*",
            sent("presence_penalty"),
            "Model {model} does not support parameter presencePenalty.",
            "NativeTavern#83; mnfst/modelparams.dev",
        ),
        Rule(
            "grok-4.3 grok-4.5 grok-4.6 grok-4.7 grok-4.20-*",
            sent("frequency_penalty"),
            "Model {model} does not support parameter frequencyPenalty.",
            "NativeTavern#83; mnfst/modelparams.dev",
        ),
        Rule(
            REASONING,
            sent("stop"),
            "Model {model} does not support parameter stop.",
            "BerriAI/litellm-docs#817, mnfst/modelparams.dev#330 (4.3, 4.7, build inferred)",
        ),
        Rule(
            "*",
            sent("logit_bias"),
            "Argument not supported: logit_bias",
            "helidon-io/helidon#10601 (Grok at OCI); refused here to be safe",
        ),
        Rule(
            "*",
            outside("top_logprobs", 0, 8),
            "Invalid top_logprobs: {value}",
            "langchain's reference: 0 to 8; refused here to be safe",
        ),
        Rule(
            "*",
            outside("temperature", 0, 2),
            "Invalid temperature: {value}",
            "vendor docs (the words are inferred)",
        ),
        Rule(
            "*",
            each_message(no_content),
            "Invalid request content: Each message must have at least one content element.",
            "AstrBotDevs/AstrBot#6447",
        ),
    ),
    word,
    {"grok-4.3": 1000000, "grok-4.20-*": 1000000, "grok-build-*": 256000, "*": 500000},
)

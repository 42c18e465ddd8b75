"""xAI, Responses."""

from rig.vendors.responses_items import (
    each_tool,
    nested_tool,
    unnamed_tool,
    wrong_item,
    wrong_part,
    wrong_role,
)
from rig.vendors.rules import Rule, Vendor, given, other_than, outside, prompt_above_window, sent, unknown
from rig.vendors.xai import INVALID, NO_EFFORT, word

FIELDS = (
    *("background", "include", "input", "instructions", "logprobs", "max_output_tokens", "metadata"),
    *("parallel_tool_calls", "previous_response_id", "prompt_cache_key", "reasoning", "search_parameters"),
    *("service_tier", "store", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p"),
    "user",
)
REFERENCE = "reference.langchain.com/javascript/langchain-xai/XAIResponsesCreateParams"


def effort(models: str, *taken: str, source: str) -> Rule:
    return Rule(models, other_than("reasoning.effort", *taken), INVALID, source)


XAI_RESPONSES = Vendor(
    "xai responses",
    (
        Rule("*", sent("messages"), "Unknown field: messages", "as of the other fields (inferred)"),
        Rule("*", unknown(*FIELDS), "Unknown field: {field}", f"{REFERENCE}; the refusal is inferred"),
        Rule("*", wrong_role, "Unknown role: {value}", "as OpenAI (inferred)"),
        Rule("*", wrong_item, "Unknown item: {value}", "as OpenAI (inferred)"),
        Rule("*", wrong_part, "Unknown part: {value}", "as OpenAI (inferred)"),
        Rule("*", unnamed_tool, "Missing name: {param}", "as OpenAI (inferred)"),
        Rule("*", nested_tool, "Unknown field: {param}", "as OpenAI (inferred)"),
        Rule(
            "*",
            each_tool(lambda tool: tool["type"] == "custom"),
            "Invalid request content: unknown tool type custom",
            "tools it documents are functions and its own; a custom call was recorded once, of its own x_search",
        ),
        Rule(
            NO_EFFORT,
            sent("reasoning.effort"),
            "Model {model} does not support parameter reasoningEffort.",
            "as of chat completions",
        ),
        effort("grok-4.3", "none", "low", "medium", "high", source="vercel @ai-sdk/xai"),
        effort("grok-4.5", "low", "medium", "high", source="anomalyco/opencode#39448"),
        effort("grok-4.6 grok-4.7", "low", "medium", "high", "xhigh", source="theopenco/llmgateway#4169"),
        Rule(
            "*", given("max_output_tokens", 0), "Invalid max_output_tokens: {value}", "as of chat (inferred)"
        ),
        Rule("*", outside("top_logprobs", 0, 8), "Invalid top_logprobs: {value}", REFERENCE),
        Rule("*", outside("temperature", 0, 2), "Invalid temperature: {value}", REFERENCE),
        Rule(
            "*",
            prompt_above_window,
            "This model's maximum prompt length is {window} but the request contains {prompt} tokens.",
            "recorded, of chat completions",
        ),
    ),
    word,
    {"grok-4.3": 1000000, "grok-4.20-*": 1000000, "grok-build-*": 256000, "*": 500000},
    cap_at=("max_output_tokens",),
)

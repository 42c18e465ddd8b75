"""Groq, chat completions."""

from rig.vendors.conversations import (
    has_tools,
    image,
    message_field,
    response_format,
    tool_name_beyond,
    tools_above,
)
from rig.vendors.rules import (
    Rule,
    Vendor,
    all_of,
    cap_above,
    more_than,
    openai_error,
    other_than,
    outside,
    prompt_and_cap_above_window,
    sent,
    together,
    unknown,
)

SPEC = "groq/groq-python 9620fde (2026-08-18)"
LENGTH = {"param": "messages", "code": "context_length_exceeded"}

GROQ = Vendor(
    "groq",
    (
        Rule(
            "openai/gpt-oss-*",
            cap_above(65536),
            "`max_completion_tokens` must be less than or equal to `65536`, the maximum value for `max_completion_tokens` is less than the `context_window` for this model",
            "free-claude-code#955, Roo-Code#5729, mnfst/modelparams.dev#276",
            more={"param": "max_completion_tokens"},
        ),
        Rule(
            "*",
            prompt_and_cap_above_window,
            "Please reduce the length of the messages or completion.",
            "amurex#51 (that the cap counts is inferred)",
            more=LENGTH,
        ),
        *(
            Rule(
                "*",
                sent(name),
                f"property '{name}' is unsupported",
                f"console.groq.com/docs/openai; {SPEC} (the words are inferred)",
            )
            for name in ("logprobs", "top_logprobs", "logit_bias", "metadata", "store")
        ),
        Rule(
            "*",
            message_field("name", "user", "system", "assistant"),
            "'messages.{index}' : property 'name' is unsupported",
            "console.groq.com/docs/openai (the words are inferred)",
        ),
        Rule("*", other_than("n", 1), "`n` must be 1", f"{SPEC} (the words are inferred)"),
        Rule(
            "*",
            outside("temperature", 0, 2),
            "`temperature` must be between 0 and 2",
            "mnfst/modelparams.dev#276 (the words are inferred)",
        ),
        Rule(
            "*",
            outside("top_p", 0, 1),
            "`top_p` must be between 0 and 1",
            "mnfst/modelparams.dev#276 (the words are inferred)",
        ),
        *(
            Rule(
                "*",
                outside(name, -2, 2),
                f"`{name}` must be between -2 and 2",
                "mnfst/modelparams.dev#276 (the words are inferred)",
            )
            for name in ("presence_penalty", "frequency_penalty")
        ),
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
                    "n",
                    "user",
                    "tools",
                ),
                *(
                    "tool_choice",
                    "parallel_tool_calls",
                    "presence_penalty",
                    "frequency_penalty",
                    "response_format",
                ),
                *(
                    "stream_options",
                    "reasoning_effort",
                    "reasoning_format",
                    "include_reasoning",
                    "service_tier",
                ),
                *(
                    "disable_tool_validation",
                    "documents",
                    "citation_options",
                    "compound_custom",
                    "search_settings",
                ),
            ),
            "property '{field}' is unsupported",
            "mnfst/modelparams.dev#276",
        ),
        Rule(
            "*",
            more_than("stop", 4),
            "`stop` must have at most 4 sequences",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "openai/gpt-oss-*",
            other_than("reasoning_effort", "low", "medium", "high"),
            "`reasoning_effort` must be one of `low`, `medium`, or `high`",
            f"{SPEC}; llmgateway#3422",
            more={"param": "reasoning_effort"},
        ),
        Rule(
            "*",
            together("include_reasoning", "reasoning_format"),
            "cannot specify both `include_reasoning` and `reasoning_format`",
            f"{SPEC} (the words are inferred)",
        ),
        Rule(
            "*",
            all_of(has_tools, response_format("json_object", "json_schema")),
            "json mode cannot be combined with tool/function calling",
            "agno#1065, vercel/ai#16540; json_schema: GroqApiLibrary#33",
        ),
        Rule(
            "*",
            message_field("reasoning_content"),
            "'messages.{index}' : for 'role:assistant' the following must be satisfied[('messages.{index}' : property 'reasoning_content' is unsupported)]",
            "jan#8136, vercel/ai#8057",
        ),
        Rule("*", image, "messages[{index}].content must be a string", "vercel/ai#2837"),
        Rule("*", tools_above(128), "'tools' : maximum number of items is 128", "ha-groq#25"),
        Rule(
            "*",
            tool_name_beyond("[a-zA-Z0-9_-]{1,64}"),
            "'tools.{index}.function.name' : does not match pattern",
            f"{SPEC} (the words are inferred)",
        ),
    ),
    openai_error(),
    {"*": 131072},
)

"""Anthropic, Messages API, native."""

import re

from rig.vendors.rules import (
    Rule,
    Vendor,
    all_of,
    at,
    but_not,
    cap_above,
    given,
    other_than,
    outside,
    prompt_above_window,
    sent,
    together,
    unknown,
    without,
)

BUDGETS = "*claude-haiku-4-5* *claude-sonnet-4-5* *claude-opus-4-5*"
FOUR_SIX = "*claude-sonnet-4-6* *claude-opus-4-6*"
NO_SAMPLING = (
    "*claude-opus-4-7* *claude-opus-4-8* *claude-opus-5* *claude-sonnet-5* *claude-haiku-5-5* *claude-fable-*"
)
FABLE = "*claude-fable-*"
UNFORCED = f"{FABLE} *claude-opus-5-5* *claude-sonnet-5-5*"
LATE_SYSTEM = "*claude-opus-4-8* *claude-opus-5* *claude-sonnet-5* *claude-haiku-5-5* *claude-fable-*"
GUIDE = "vendor's guides of the 5-5 models"
_NAME = "[a-zA-Z0-9_-]{1,128}"


def word(found):
    return {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": found.message},
        "request_id": "req_1",
    }


def forced(asked):
    return {} if at(asked.body, "tool_choice.type") in ("any", "tool") else None


def budget(asked):
    return {"value": value} if (value := at(asked.body, "thinking.budget_tokens")) is not None else None


def budget_below(asked):
    found = budget(asked)
    return found if found and found["value"] < 1024 else None


def budget_over_cap(asked):
    found = budget(asked)
    return found if found and found["value"] >= (asked.cap_tokens or 0) else None


thinks = given("thinking.type", "enabled")


def blocks(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def kinds(message, kind):
    return [block for block in blocks(message) if block["type"] == kind]


def last_is_assistant(asked):
    said = [one for one in asked.body["messages"] if one["role"] != "system"]
    return {} if said and said[-1]["role"] == "assistant" else None


def prefill_ends_blank(asked):
    if last_is_assistant(asked) is None:
        return None
    last = blocks(asked.body["messages"][-1])[-1]
    return {} if last["type"] == "text" and last["text"] != last["text"].rstrip() else None


def has_system_role(asked):
    return (
        {"index": index}
        if (
            index := next(
                (at for at, one in enumerate(asked.body["messages"]) if one["role"] == "system"), None
            )
        )
        is not None
        else None
    )


def misplaced_system(asked):
    """Refuse a system message at the beginning, and one that neither ends the conversation nor precedes an assistant's."""
    said = asked.body["messages"]
    for index, one in enumerate(said):
        follower = said[index + 1]["role"] if index + 1 < len(said) else "assistant"
        if one["role"] == "system" and (index == 0 or follower != "assistant"):
            return {"index": index}
    return None


def empty_content(asked):
    said = asked.body["messages"]
    return next(({"index": index} for index, one in enumerate(said) if not one["content"]), None)


def blank_text(asked):
    system = asked.body.get("system") or []
    texts = [block["text"] for one in asked.body["messages"] for block in kinds(one, "text")]
    texts += [system] if isinstance(system, str) else [block["text"] for block in system]
    return {} if any(not text.strip() for text in texts) else None


def unanswered_use(asked):
    """Refuse a tool use whose result is not at the beginning of the next message."""
    said = asked.body["messages"]
    for index, message in enumerate(said):
        used = {block["id"] for block in kinds(message, "tool_use")}
        following = blocks(said[index + 1]) if index + 1 < len(said) else []
        count = next(
            (at for at, block in enumerate(following) if block["type"] != "tool_result"), len(following)
        )
        if lost := used - {block["tool_use_id"] for block in following[:count]}:
            return {"index": index, "ids": ", ".join(sorted(lost))}
    return None


def result_without_use(asked):
    said = asked.body["messages"]
    for index, message in enumerate(said):
        before = {block["id"] for block in kinds(said[index - 1], "tool_use")} if index else set()
        for block in kinds(message, "tool_result"):
            if block["tool_use_id"] not in before:
                return {"index": index, "id": block["tool_use_id"]}
    return None


def tools(asked):
    return asked.body.get("tools") or []


def each_tool(refuses):
    return lambda asked: next(
        ({"index": index} for index, one in enumerate(tools(asked)) if refuses(one)), None
    )


def same_names(asked):
    names = [one["name"] for one in tools(asked)]
    return {} if len(names) != len(set(names)) else None


def loose_strict(tool):
    return bool(tool.get("strict")) and tool["input_schema"].get("additionalProperties") is not False


def blank_stop(asked):
    return {} if any(not one.strip() for one in asked.body.get("stop_sequences") or ()) else None


def effort_beyond(models: str, *levels: str, source: str) -> Rule:
    message = (
        "This model does not support effort level '{value}'. Supported levels: "
        + ", ".join(sorted(levels))
        + "."
    )
    return Rule(models, other_than("output_config.effort", *levels), message, source)


SAMPLING = tuple(
    Rule(
        NO_SAMPLING,
        but_not(sent(name), given(name, 1)) if name == "temperature" else sent(name),
        f"`{name}` is deprecated for this model.",
        "pr-agent#2456, pollinations#11319; haiku-5-5 migration guide",
    )
    for name in ("temperature", "top_p", "top_k")
)

ANTHROPIC_RULES = (
    Rule("*", without(sent("max_tokens")), "max_tokens: Field required", "vendor (the words are inferred)"),
    Rule(
        BUDGETS,
        cap_above(64000),
        "max_tokens: {cap} > 64000, which is the maximum allowed number of output tokens for {model}",
        "anthropics/claude-code#24451",
    ),
    Rule(
        "*",
        cap_above(128000),
        "max_tokens: {cap} > 128000, which is the maximum allowed number of output tokens for {model}",
        "mnfst/modelparams.dev#345; platform.claude.com models overview",
    ),
    Rule("*", prompt_above_window, "prompt is too long: {prompt} tokens > {window} maximum", "recorded"),
    Rule("*", outside("temperature", 0, 1), "temperature: range: 0..1", "recorded"),
    Rule(
        f"{BUDGETS} {FOUR_SIX}",
        together("temperature", "top_p"),
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "recorded; platform.claude.com haiku-4-5 migration guide",
    ),
    *SAMPLING,
    Rule(
        f"{BUDGETS} {FOUR_SIX}",
        all_of(thinks, other_than("temperature", 1)),
        "`temperature` may only be set to 1 when thinking is enabled.",
        "Hk-Gosuto/ChatGPT-Next-Web-LangChain#345",
    ),
    Rule(
        f"{BUDGETS} {FOUR_SIX}",
        all_of(thinks, sent("top_k")),
        "`top_k` must be unset when thinking is enabled",
        "vendor docs (the words are inferred)",
    ),
    Rule(
        "*",
        unknown(
            *(
                "max_tokens",
                "system",
                "temperature",
                "top_p",
                "top_k",
                "stop_sequences",
                "metadata",
                "tools",
                "tool_choice",
            ),
            *(
                "thinking",
                "output_config",
                "service_tier",
                "cache_control",
                "container",
                "context_management",
            ),
        ),
        "{field}: Extra inputs are not permitted",
        "recorded",
    ),
    Rule(
        "*",
        blank_stop,
        "stop_sequences: each stop sequence must contain non-whitespace",
        "mcp-web-ui#5, BerriAI/litellm#3436",
    ),
    Rule(
        "*",
        budget_below,
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        "vendor docs (the words are inferred)",
    ),
    Rule("*", budget_over_cap, "`max_tokens` must be greater than `thinking.budget_tokens`.", "recorded"),
    Rule(
        NO_SAMPLING,
        thinks,
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
        "nvda-OpenAI#126; haiku-5-5 migration guide",
    ),
    Rule(
        BUDGETS,
        given("thinking.type", "adaptive"),
        "adaptive thinking is not supported on this model",
        "OmniRoute#4713",
    ),
    Rule(
        f"{UNFORCED}",
        given("thinking.type", "disabled"),
        '"thinking.type.disabled" is not supported for this model.',
        f"LibreChat#13704, cline#13203; {GUIDE}; vercel @ai-sdk/anthropic 4.0.67",
    ),
    Rule(
        "*claude-opus-5",
        all_of(given("thinking.type", "disabled"), given("output_config.effort", "xhigh", "max")),
        "thinking cannot be disabled at this effort",
        "elgorro/aiquila#410, vercel, pydantic-ai (the words are inferred)",
    ),
    effort_beyond(FOUR_SIX, "low", "medium", "high", "max", source="recorded"),
    Rule(
        "*claude-haiku-4-5* *claude-sonnet-4-5*",
        sent("output_config.effort"),
        "This model does not support the effort parameter.",
        "llm-rosetta#289, claude-code#30010",
    ),
    effort_beyond(
        "*claude-opus-4-5*",
        "low",
        "medium",
        "high",
        source="models.dev; gajae-code#3913 (the words are inferred)",
    ),
    effort_beyond(
        NO_SAMPLING,
        "low",
        "medium",
        "high",
        "xhigh",
        "max",
        source="gajae-code#3913 (the words are inferred)",
    ),
    Rule(
        UNFORCED,
        forced,
        'tool_choice: type "tool" and "any" are not supported for this model.',
        f"oh-my-pi#12939, jp#1191; {GUIDE}; vercel @ai-sdk/anthropic 4.0.67",
    ),
    Rule(
        "*",
        all_of(thinks, forced),
        "Thinking may not be enabled when tool_choice forces tool use.",
        "mastra#7507, oh-my-pi#341, BerriAI/litellm#17129",
    ),
    Rule(
        "*",
        lambda asked: {} if asked.body.get("tool_choice") and not tools(asked) else None,
        "tool_choice: tool_choice may only be specified while providing tools",
        "vendor (inferred)",
    ),
    Rule(
        f"{FOUR_SIX} {NO_SAMPLING}",
        last_is_assistant,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "promptfoo#10821 (live), recorded; haiku-5-5 migration guide",
    ),
    Rule(
        "*",
        prefill_ends_blank,
        "messages: final assistant content cannot end with trailing whitespace",
        "tailcallhq/forgecode#1872",
    ),
    Rule(
        f"{BUDGETS} {FOUR_SIX} *claude-opus-4-7*",
        has_system_role,
        "role 'system' is not supported on this model",
        "cursor-claude-connector#3; docs.rs gproxy-transform",
    ),
    Rule(
        LATE_SYSTEM,
        misplaced_system,
        "messages.{index}: role 'system' must precede an 'assistant' message or end the array",
        "claude-code#73821; LeenHawk/gproxy#209 (live)",
    ),
    Rule(
        "*",
        empty_content,
        "messages.{index}: all messages must have non-empty content except for the optional final assistant message",
        "claude-code#4416",
    ),
    Rule(
        "*",
        blank_text,
        "messages: text content blocks must contain non-whitespace text",
        "home-assistant/core#175637",
    ),
    Rule(
        "*",
        unanswered_use,
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        "recorded",
    ),
    Rule(
        "*",
        result_without_use,
        "messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        "recorded",
    ),
    Rule(
        "*",
        each_tool(lambda one: re.fullmatch(_NAME, one["name"]) is None),
        "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "BerriAI/litellm#26788, claude-code#96152",
    ),
    Rule("*", same_names, "tools: Tool names must be unique.", "LibreChat#13162"),
    Rule(
        "*",
        each_tool(lambda one: one["input_schema"].get("type") != "object"),
        "tools.{index}.custom.input_schema.type: Input should be 'object'",
        "recorded",
    ),
    Rule(
        "*",
        each_tool(lambda one: not {"oneOf", "allOf", "anyOf"}.isdisjoint(one["input_schema"])),
        "tools.{index}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        "claude-code#27337, #5319",
    ),
    Rule(
        "*",
        each_tool(loose_strict),
        "tools.{index}.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
        "strands-agents/harness-sdk#2210",
    ),
)

ANTHROPIC = Vendor(
    "anthropic",
    ANTHROPIC_RULES,
    word,
    {"claude-*-4-5*": 200000, "*": 1000000},
    cap_at=("max_tokens",),
)

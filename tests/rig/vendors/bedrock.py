"""Amazon Bedrock: Converse, and its endpoint that is compatible with OpenAI's."""

import itertools
import re

from rig.vendors.conversations import image as chat_image
from rig.vendors.rules import (
    Rule,
    Vendor,
    all_of,
    at,
    cap_above,
    given,
    openai_error,
    other_than,
    outside,
    path_model,
    prompt_above_window,
    sent,
    streamed,
    together,
)

CLAUDE = "*anthropic.claude-*"
CLAUDE_BUDGETS = "*claude-haiku-4-5* *claude-sonnet-4-5*"
CLAUDE_NEW = "*claude-sonnet-5 *claude-opus-4-8 *claude-opus-5"
NOVA_1 = "amazon.nova-*"
NOVA_2 = "*amazon.nova-2-*"
NOVA = "*amazon.nova-*"
LLAMA = "*meta.llama*"
QWEN = "qwen.*"
OWN = "additionalModelRequestFields"
FROM_MODEL = "The model returned the following errors: "
FIRST_OF_NAME = "[a-zA-Z0-9_-]{1,64}"
NOVA_SCHEMA = {"type", "properties", "required"}


def word(found):
    return {"message": found.message}


def blocks(asked):
    """Yield each block with the index of its message."""
    for index, message in enumerate(asked.body["messages"]):
        yield from ((index, message["role"], block) for block in message["content"])


def specs(asked):
    return [one["toolSpec"] for one in at(asked.body, "toolConfig.tools") or () if "toolSpec" in one]


def has_tools(asked):
    return {} if specs(asked) else None


def choice(*kinds):
    return lambda asked: next(
        ({"kind": kind} for kind in kinds if kind in (at(asked.body, "toolConfig.toolChoice") or {})), None
    )


def each_spec(refuses):
    return lambda asked: next(
        ({"index": at, "name": one["name"]} for at, one in enumerate(specs(asked)) if refuses(one)), None
    )


def schema(spec):
    return spec["inputSchema"]["json"]


def nova_extra(asked):
    return next(
        (
            {"index": at, "key": sorted(wrong)[0]}
            for at, one in enumerate(specs(asked))
            if (wrong := schema(one).keys() - NOVA_SCHEMA)
        ),
        None,
    )


def block(kind):
    return lambda asked: next(({"index": index} for index, _role, one in blocks(asked) if kind in one), None)


def mixed(kind):
    """Refuse a message that has blocks of this kind and others."""

    def check(asked):
        for index, message in enumerate(asked.body["messages"]):
            if len({kind in one for one in message["content"]}) > 1:
                return {"index": index}
        return None

    return check


def tools_without_config(asked):
    used = any("toolUse" in one or "toolResult" in one for _, _, one in blocks(asked))
    return {} if used and "toolConfig" not in asked.body else None


def first_is_assistant(asked):
    return {} if asked.body["messages"][0]["role"] == "assistant" else None


def last_is_assistant(asked):
    return {} if asked.body["messages"][-1]["role"] == "assistant" else None


def same_roles(asked):
    said = [one["role"] for one in asked.body["messages"]]
    return {} if any(a == b for a, b in itertools.pairwise(said)) else None


def blank_text(asked):
    return next(
        (
            {"index": index}
            for index, _role, one in blocks(asked)
            if "text" in one and not one["text"].strip()
        ),
        None,
    )


def uneven_results(asked):
    """Refuse tool uses whose results are not in the next message."""
    said = asked.body["messages"]
    for index, message in enumerate(said):
        used = {one["toolUse"]["toolUseId"] for one in message["content"] if "toolUse" in one}
        following = said[index + 1]["content"] if index + 1 < len(said) else []
        answered = {one["toolResult"]["toolUseId"] for one in following if "toolResult" in one}
        if used != answered:
            return {"index": index + 1, "ids": ", ".join(sorted(used ^ answered))}
    return None


def bad_use_id(asked):
    ids = [one["toolUse"]["toolUseId"] for _, _, one in blocks(asked) if "toolUse" in one]
    return next(({"id": one} for one in ids if re.fullmatch("[a-zA-Z0-9_.:-]{1,64}", one) is None), None)


def budget_over_cap(asked):
    value = at(asked.body, f"{OWN}.thinking.budget_tokens")
    return {} if value is not None and value >= (asked.cap_tokens or 0) else None


def high_effort(asked):
    config = at(asked.body, f"{OWN}.reasoningConfig") or {}
    return {} if config.get("maxReasoningEffort") == "high" and config.get("type") == "enabled" else None


def any_inference(*names):
    return lambda asked: next(
        ({"field": name} for name in names if at(asked.body, f"inferenceConfig.{name}") is not None), None
    )


def cap(models, highest, source):
    message = f"The maximum tokens you requested exceeds the model limit of {highest}. Try again with a maximum tokens value that is lower than {highest}."
    return Rule(models, cap_above(highest), message, source)


def field_unsupported(models, check, name, source):
    return Rule(
        models, check, f"This model doesn't support the {name} field. Remove {name} and try again.", source
    )


def unknown_own(asked):
    wrong = (asked.body.get(OWN) or {}).keys() - {"reasoningConfig", "inferenceConfig", "topK"}
    return {"key": sorted(wrong)[0]} if wrong else None


CLAUDE_RULES = (
    Rule(
        CLAUDE_BUDGETS,
        cap_above(64000),
        FROM_MODEL
        + "max_tokens: {cap} > 64000, which is the maximum allowed number of output tokens for {model}",
        "Anthropic's text (the form is disputed)",
    ),
    Rule(
        CLAUDE,
        cap_above(128000),
        FROM_MODEL
        + "max_tokens: {cap} > 128000, which is the maximum allowed number of output tokens for {model}",
        "Anthropic's text (the form is disputed)",
    ),
    Rule(
        CLAUDE,
        prompt_above_window,
        FROM_MODEL + "prompt is too long: {prompt} tokens > {window} maximum",
        "recorded at Anthropic",
    ),
    Rule(
        CLAUDE,
        budget_over_cap,
        FROM_MODEL + "`max_tokens` must be greater than `thinking.budget_tokens`.",
        "BerriAI/litellm#39740",
    ),
    Rule(
        CLAUDE,
        together("inferenceConfig.temperature", "inferenceConfig.topP"),
        FROM_MODEL
        + "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "recorded",
    ),
    *(
        Rule(
            CLAUDE_NEW,
            sent(f"inferenceConfig.{name}"),
            FROM_MODEL + f"`{native}` is deprecated for this model.",
            "as Anthropic",
        )
        for name, native in (("temperature", "temperature"), ("topP", "top_p"))
    ),
    Rule(
        CLAUDE_NEW,
        given(f"{OWN}.thinking.type", "enabled"),
        FROM_MODEL + '"thinking.type.enabled" is not supported for this model.',
        "as Anthropic",
    ),
    Rule(
        CLAUDE_BUDGETS,
        given(f"{OWN}.thinking.type", "adaptive"),
        FROM_MODEL + "adaptive thinking is not supported on this model",
        "as Anthropic",
    ),
    Rule(
        CLAUDE_BUDGETS,
        sent(f"{OWN}.output_config.effort"),
        FROM_MODEL + "This model does not support the effort parameter.",
        "as Anthropic",
    ),
    Rule(
        "*claude-sonnet-4-6*",
        other_than(f"{OWN}.output_config.effort", "low", "medium", "high", "max"),
        FROM_MODEL + "This model does not support effort level '{value}'.",
        "as Anthropic, recorded",
    ),
    Rule(
        CLAUDE,
        all_of(given(f"{OWN}.thinking.type", "enabled"), choice("any", "tool")),
        FROM_MODEL + "Thinking may not be enabled when tool_choice forces tool use.",
        "oh-my-pi#341 (sonnet-4-6)",
    ),
    Rule(
        CLAUDE_NEW,
        sent("outputConfig"),
        FROM_MODEL + "output_config.format: Extra inputs are not permitted",
        "presenton#939, anthropic-sdk-python#1759, vercel, pydantic-ai",
    ),
    Rule(
        CLAUDE_NEW,
        each_spec(lambda one: "strict" in one),
        FROM_MODEL + "tools.{index}.custom.strict: Extra inputs are not permitted",
        "vercel; lobehub#19876 (opus-5-5, fable-5-1)",
    ),
    Rule(
        CLAUDE,
        each_spec(
            lambda one: bool(one.get("strict")) and schema(one).get("additionalProperties") is not False
        ),
        FROM_MODEL
        + "tools.{index}.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
        "strands-agents/harness-sdk#2210",
    ),
    Rule(
        "*claude-sonnet-4-6* *claude-sonnet-5 *claude-opus-4-8",
        last_is_assistant,
        FROM_MODEL
        + "This model does not support assistant message prefill. The conversation must end with a user message.",
        "as Anthropic; recorded",
    ),
)

NOVA_RULES = (
    cap(NOVA_1, 10000, "BerriAI/litellm#23198 (live)"),
    cap(NOVA_2, 65535, "truefoundry/models#622, BerriAI/litellm#17371, inspect_ai#3848"),
    Rule(
        NOVA_2,
        all_of(high_effort, any_inference("maxTokens", "temperature", "topP")),
        "{field} must be unset with maxReasoningEffort high",
        "inspect_ai#3848, #3767, promptfoo#6531 (the words are inferred)",
    ),
    Rule(
        NOVA_1,
        sent(f"{OWN}.reasoningConfig"),
        FROM_MODEL
        + "Malformed input request: the provided reasoning config value is invalid, please reformat your input and try again.",
        "inspect_ai#5301",
    ),
    Rule(
        NOVA,
        unknown_own,
        FROM_MODEL
        + "Malformed input request: #: extraneous key [{key}] is not permitted, please reformat your input and try again.",
        "mcp-agent#126",
    ),
    Rule(
        NOVA,
        nova_extra,
        FROM_MODEL
        + "Malformed input request: #/toolConfig/tools/{index}/toolSpec/inputSchema/json: extraneous key [{key}] is not permitted, please reformat your input and try again.",
        "mcp-agent#126, strands#247, pydantic-ai#1623, BerriAI/litellm#10062",
    ),
)

BEDROCK = Vendor(
    "bedrock",
    (
        Rule(
            "*",
            outside("inferenceConfig.maxTokens", 1, 2**31),
            "1 validation error detected: Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1",
            "botocore (the words are inferred)",
        ),
        Rule(
            "*",
            outside("inferenceConfig.temperature", 0, 1),
            "1 validation error detected: Value '{value}' at 'inferenceConfig.temperature' failed to satisfy constraint: Member must have value less than or equal to 1",
            "mnfst/modelparams.dev#305 (the words are inferred)",
        ),
        *CLAUDE_RULES,
        *NOVA_RULES,
        cap(LLAMA, 8192, "pollinations#5503 (the figure is disputed)"),
        cap(QWEN, 16384, "models.dev (inferred)"),
        Rule("*", prompt_above_window, "Input is too long for requested model.", "vendor (inferred)"),
        field_unsupported(
            QWEN,
            any_inference("stopSequences"),
            "stopSequences",
            "dify-official-plugins#1767 (Qwen3 235B; for this one inferred)",
        ),
        field_unsupported(
            f"{NOVA} {LLAMA} {QWEN}",
            sent("outputConfig"),
            "outputConfig.textFormat",
            "pydantic-ai (inferred)",
        ),
        field_unsupported(
            LLAMA,
            choice("any", "tool"),
            "toolConfig.toolChoice",
            "run-llama/llama_index#19886, strands-agents/harness-sdk#1241",
        ),
        Rule(
            LLAMA,
            all_of(has_tools, streamed),
            "This model doesn't support tool use in streaming mode.",
            "n8n#14206, earendil-works/pi#3739",
        ),
        Rule(
            LLAMA,
            mixed("toolResult"),
            "messages.{index}.content: Conversation blocks and tool result blocks cannot be provided in the same turn.",
            "langchain-aws#141",
        ),
        Rule(
            LLAMA,
            mixed("toolUse"),
            "messages.{index}.content: Conversation blocks and tool use blocks cannot be provided in the same turn.",
            "quarkus-langchain4j#1983; pydantic-ai#6098",
        ),
        Rule(
            "*",
            tools_without_config,
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
            "pydantic-ai#1966",
        ),
        Rule(
            "*",
            each_spec(lambda one: re.fullmatch(FIRST_OF_NAME, one["name"]) is None),
            "1 validation error detected: Value '{name}' at 'toolConfig.tools.{index}.member.toolSpec.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+",
            "botocore (the words are inferred)",
        ),
        Rule(
            "*",
            bad_use_id,
            "1 validation error detected: Value '{id}' at 'toolUseId' failed to satisfy constraint",
            "botocore (the words are inferred)",
        ),
        Rule(
            "*",
            each_spec(lambda one: schema(one).get("type") != "object"),
            "The value at toolConfig.tools.{index}.toolSpec.inputSchema.json.type must be one of the following: object.",
            "kirodotdev/Kiro#11026",
        ),
        Rule(
            "*",
            uneven_results,
            "Expected toolResult blocks at messages.{index}.content for the following Ids: {ids}",
            "agno#6698, pydantic-ai#3253",
        ),
        Rule(
            f"{NOVA} {LLAMA}",
            first_is_assistant,
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
            "pydantic-ai (live)",
        ),
        Rule(
            f"{NOVA} {LLAMA}",
            same_roles,
            "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
            "pydantic-ai",
        ),
        Rule(
            "*",
            blank_text,
            "The text field in the ContentBlock object at messages.{index}.content.0 is blank. Add text to the text field, and try again.",
            "public threads",
        ),
        Rule(
            f"*nova-micro* {LLAMA} {QWEN}",
            block("image"),
            "This model doesn't support the image content block that you provided.",
            "models.dev: text only (the words are inferred)",
        ),
    ),
    word,
    {
        "*claude-*-4-5*": 200000,
        "*claude-*": 1000000,
        "*nova-2-*": 1000000,
        "*nova-micro*": 128000,
        "*nova-*": 300000,
        "*llama*": 128000,
        "qwen.*": 32000,
    },
    cap_at=("inferenceConfig.maxTokens",),
    read=path_model(r"/model/([^/]+)/", "/converse-stream"),
)

BEDROCK_OPENAI = Vendor(
    "bedrock-openai",
    (
        *(
            Rule(
                "*",
                sent(name),
                f"The '{name}' parameter is not supported",
                "brainlid/langchain#356; presence_penalty inferred",
            )
            for name in ("frequency_penalty", "presence_penalty")
        ),
        Rule("*", chat_image, "This model does not support images", "models.dev: text only (inferred)"),
        Rule("*", prompt_above_window, "Input is too long for requested model.", "vendor (inferred)"),
    ),
    openai_error(param=None, code=None),
    {"*": 128000},
)

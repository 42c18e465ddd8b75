"""DeepSeek, chat completions."""

from rig.vendors.conversations import (
    calls_without,
    each_function,
    image,
    response_format,
    result_without_call,
    role_other_than,
    root_not_object,
    tool_choice,
    tool_name_beyond,
    tools_above,
    unanswered_call,
    word_missing,
)
from rig.vendors.rules import (
    Rule,
    Vendor,
    all_of,
    cap_above,
    given,
    more_than,
    openai_error,
    other_than,
    outside,
    prompt_and_cap_above_window,
    sent,
    without,
)

DOCS = "vendor docs"
BODY = "Failed to deserialize the JSON body into the target type: "
thinks_off = given("thinking.type", "disabled")
thinks_on = without(thinks_off)


def top_logprobs_alone(asked):
    return {} if asked.body.get("top_logprobs") is not None and not asked.body.get("logprobs") else None


def no_tools(asked):
    return {} if asked.body.get("tools") == [] else None


DEEPSEEK = Vendor(
    "deepseek",
    (
        Rule(
            "*",
            cap_above(393216),
            "Invalid max_tokens value, the valid range of max_tokens is [1, 393216]",
            "openclaude#35, aider#4125 (the number is inferred)",
        ),
        Rule(
            "*",
            prompt_and_cap_above_window,
            "This model's maximum context length is {window} tokens. However, you requested {total} tokens ({prompt} in the messages, {cap} in the completion). Please reduce the length of the messages or completion.",
            "recorded; fast-agent#621",
        ),
        Rule(
            "*",
            other_than("reasoning_effort", "high", "low", "medium", "max", "xhigh"),
            BODY
            + "reasoning_effort: unknown variant `{value}`, expected one of `high`, `low`, `medium`, `max`, `xhigh` at line 1 column 68",
            "nextai-translator#1879",
        ),
        Rule(
            "*",
            all_of(thinks_off, sent("reasoning_effort")),
            "thinking options type cannot be disabled when reasoning_effort is set",
            "cc-switch#3876, lobehub#14173, routatic#26",
        ),
        Rule(
            "*",
            all_of(thinks_on, tool_choice("required", "named")),
            "Thinking mode does not support this tool_choice",
            "recorded (v4-flash)",
        ),
        Rule(
            "*",
            outside("top_p", 1e-9, 1),
            "Invalid top_p value, the valid range of top_p is (0, 1.0]",
            "chatbox#2483",
        ),
        Rule(
            "*",
            outside("temperature", 0, 2),
            "Invalid temperature value, the valid range of temperature is [0, 2.0]",
            "as of top_p (inferred)",
        ),
        Rule("*", top_logprobs_alone, "Invalid top_logprobs and logprobs value", "DeepSeek-V2#9"),
        Rule("*", more_than("stop", 16), "Invalid stop value", f"{DOCS} (the words are inferred)"),
        Rule(
            "*",
            response_format("json_schema"),
            "This response_format type is unavailable now",
            "llm-exe#662 (live)",
        ),
        Rule(
            "*",
            all_of(response_format("json_object"), word_missing("json")),
            "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.",
            "WrenAI#1581, trading-gpt#77",
        ),
        Rule(
            "*",
            all_of(thinks_on, calls_without("reasoning_content")),
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            "mnfst/modelparams.dev#29, hermes-agent#15717",
        ),
        Rule(
            "*",
            unanswered_call,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)",
            "gptme#3421",
        ),
        Rule(
            "*",
            result_without_call,
            "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            "Newelle#425, agentscope-go#7, OpenManus#23",
        ),
        Rule(
            "*",
            role_other_than("system", "user", "assistant", "tool", "latest_reminder"),
            BODY
            + "messages[{index}].role: unknown variant `{role}`, expected one of `system`, `user`, `assistant`, `tool`, `latest_reminder` at line 1 column 51783",
            "open-codesign#316, pi#1048",
        ),
        Rule(
            "deepseek-v4-*",
            image,
            BODY + "messages[{index}]: unknown variant `{kind}`, expected `text` at line 1 column 201",
            "recorded (video_url, v4-flash); deepseek-flash is disputed",
        ),
        Rule(
            "*",
            tool_name_beyond("[a-zA-Z0-9_-]+"),
            "Invalid 'tools[{index}].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "zed#57531, Whimbox#61, rikkahub#1511, one-api#346",
        ),
        Rule(
            "*",
            no_tools,
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "marimo#6108",
        ),
        Rule(
            "*",
            each_function(root_not_object),
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: null'.",
            "dots-hyprland#3640 (live)",
        ),
        Rule("*", tools_above(128), "Invalid 'tools': array too long", f"{DOCS} (the words are inferred)"),
    ),
    openai_error(param=None, code="invalid_request_error"),
    {"*": 1000000},
    cap_at=("max_tokens",),
)

"""MiniMax, chat completions."""

from rig.vendors.conversations import (
    arguments_not_json,
    each_function,
    image,
    late_system,
    result_without_call,
    role_other_than,
    several_system,
)
from rig.vendors.rules import Rule, Vendor, above, cap_above, outside, prompt_above_window

DOCS = "platform.minimax.io text-chat"


def word(found):
    message = f"invalid params, {found.message} (2013)"
    return {
        "type": "error",
        "error": {"type": "bad_request_error", "message": message, "http_code": "400"},
        "request_id": "1",
    }


MINIMAX = Vendor(
    "minimax",
    (
        Rule(
            "*",
            late_system,
            "chat content has invalid message role: system",
            "CodexPlusPlus#267, #410, temm1e#59, MiniMax-M2#27",
        ),
        Rule("*", several_system, "invalid chat setting", "openclaw#19386 (live), oh-my-pi#954 (live)"),
        Rule(
            "*",
            role_other_than("system", "user", "assistant", "tool"),
            "chat content has invalid message role: {role}",
            "as of system (inferred)",
        ),
        Rule(
            "*",
            each_function(lambda one: not one.get("parameters")),
            "function parameters is empty",
            "qwen-code#11905; an empty object inferred",
        ),
        Rule("*", result_without_call, "tool result's tool id({id}) not found", "MiniMax-M2#76"),
        Rule(
            "*",
            arguments_not_json,
            "invalid function arguments json string, tool_call_id: {id}",
            "hermes-agent#12167",
        ),
        Rule("*", prompt_above_window, "context window exceeds limit", "MiniMax-M2#119"),
        Rule(
            "MiniMax-M3",
            cap_above(196608),
            "max_tokens must be at most {limit}",
            "openclaw#88190 (the words are inferred)",
        ),
        Rule(
            "*",
            outside("temperature", 1e-9, 1),
            "temperature must be in (0, 1]",
            f"{DOCS}, promptfoo, camel-ai (the words are inferred)",
        ),
        Rule("*", outside("top_p", 1e-9, 1), "top_p must be in (0, 1]", f"{DOCS} (the words are inferred)"),
        Rule("*", above("n", 1), "n must be 1", f"{DOCS} (the words are inferred)"),
        Rule(
            "MiniMax-M2*",
            image,
            "image input is not supported",
            "text-openai-api by hebo-gateway#154 (the words are inferred)",
        ),
    ),
    word,
    {"MiniMax-M2*": 204800, "MiniMax-M3": 512000},
)

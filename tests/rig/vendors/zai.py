"""Z.AI (GLM), chat completions."""

from rig.vendors.conversations import empty, image, no_user, role_other_than, tool_choice
from rig.vendors.rules import (
    Rule,
    Vendor,
    cap_above,
    given,
    more_than,
    other_than,
    outside,
    prompt_above_window,
)

DOCS = "vendor docs"
PLAIN = "Invalid API parameter, please check the documentation."
ALWAYS = "This model always engages in thinking and cannot be disabled; please use low, high, or max"
TEXT_MODELS = "glm-4.5 glm-4.5-air glm-4.6 glm-4.7 glm-4.7-flashx glm-5 glm-5.1 glm-5.2 glm-5.3"


def word(found):
    return {"error": {"code": found.fields.get("code", "1210"), "message": found.message}}


def cap(models: str, highest: int, source: str) -> Rule:
    return Rule(
        models,
        cap_above(highest),
        f"max_tokens must be in [1,{highest}]",
        f"{source} (the words are inferred)",
    )


ZAI = Vendor(
    "zai",
    (
        cap("glm-4.5 glm-4.5-air", 98304, "vendor docs, models.dev"),
        cap("glm-4.6v", 32768, DOCS),
        cap("glm-4.6 glm-4.7* glm-5*", 131072, "mnfst/modelparams.dev#301 (live), AIHubMix"),
        Rule(
            "*",
            prompt_above_window,
            "Prompt exceeds max length",
            "hermes-agent#61728, freellmapi#873",
            more={"code": "1261"},
        ),
        Rule(
            "glm-5.3*",
            other_than("reasoning_effort", "low", "high", "max"),
            ALWAYS,
            "mnfst/modelparams.dev#301, #327 (live), hermes-agent#97286, docs.z.ai",
        ),
        Rule(
            "glm-5.3*", given("thinking.type", "disabled"), ALWAYS, "mnfst/modelparams.dev#301, #327 (live)"
        ),
        Rule(
            "glm-4* glm-5 glm-5.1 glm-5.2 glm-5.3",
            outside("temperature", 0, 1),
            PLAIN,
            f"{DOCS}; mnfst/modelparams.dev#301 (glm-5.3, live)",
        ),
        Rule("*", outside("top_p", 0.01, 1), PLAIN, DOCS),
        Rule("*", more_than("stop", 1), PLAIN, f"{DOCS}: one stop word (inferred)"),
        Rule(
            "*",
            tool_choice("none", "required", "named", "any"),
            "Tool choice must be auto",
            "hindsight#4246, onyx#14192; glm-4.5-air disputed",
        ),
        Rule(
            "*",
            no_user,
            "The messages parameter is illegal. Please check the documentation.",
            "opencode#2557, bigmodel docs",
            more={"code": "1214"},
        ),
        Rule(
            "*",
            empty("user"),
            "The prompt parameter was not received normally.",
            "AionUi#538, ApeRAG#387",
            more={"code": "1213"},
        ),
        Rule(TEXT_MODELS, image, PLAIN, "kilocode#13069, codegraff#812"),
        Rule(
            "*",
            role_other_than("system", "user", "assistant", "tool"),
            "The messages parameter is illegal. Please check the documentation.",
            "vendor's list of errors (inferred)",
            more={"code": "1214"},
        ),
    ),
    word,
    {
        "glm-4.5*": 131072,
        "glm-4.6v": 128000,
        "glm-4.6": 204800,
        "glm-4.7": 204800,
        "glm-5": 204800,
        "glm-4.7-flashx": 200000,
        "glm-5.1": 200000,
        "*": 1000000,
    },
)

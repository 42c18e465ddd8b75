"""Google's Gemini API, generateContent, native."""

import re

from rig.vendors.rules import (
    Rule,
    Vendor,
    above,
    at,
    but_not,
    given,
    more_than,
    outside,
    path_model,
    prompt_above_window,
    sent,
    together,
)

TWO = "gemini-2*"
THREE = "gemini-3*"
NO_MINIMAL = "gemini-3.1-pro-preview gemini-3.8-flash"
ENDS_WITH_USER = "gemini-3.6-flash gemini-3.8-flash"
CONFIG = "generationConfig"
_FIELDS = {
    *(
        "temperature",
        "topP",
        "topK",
        "maxOutputTokens",
        "candidateCount",
        "seed",
        "stopSequences",
        "presencePenalty",
    ),
    *(
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "thinkingConfig",
        "responseMimeType",
        "responseSchema",
    ),
    *(
        "responseJsonSchema",
        "responseModalities",
        "speechConfig",
        "mediaResolution",
        "enableEnhancedCivicAnswers",
    ),
}
_TOP = {
    "contents",
    "systemInstruction",
    "generationConfig",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
}
LEVEL = f"{CONFIG}.thinkingConfig.thinkingLevel"
BUDGET = f"{CONFIG}.thinkingConfig.thinkingBudget"
NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"


def word(found):
    return {"error": {"code": 400, "message": found.message, "status": "INVALID_ARGUMENT"}}


def unknown_name(asked):
    config = asked.body.get(CONFIG) or {}
    wrong = [(name, "") for name in asked.body.keys() - _TOP] + [
        (name, " at 'generation_config'") for name in config.keys() - _FIELDS
    ]
    return {"field": wrong[0][0], "place": wrong[0][1]} if wrong else None


def contents(asked):
    return asked.body.get("contents") or []


def has(content, member):
    return any(member in part for part in content["parts"])


def last_is_model(asked):
    last = contents(asked)[-1]
    return {} if last["role"] == "model" and not has(last, "functionResponse") else None


def only_model(asked):
    return {} if len(contents(asked)) == 1 and last_is_model(asked) is not None else None


def misplaced_call(asked):
    """Refuse a function call at the beginning, or right after a turn of the model."""
    said = contents(asked)
    for index, content in enumerate(said):
        if has(content, "functionCall") and (index == 0 or said[index - 1]["role"] == "model"):
            return {"index": index}
    return None


def misplaced_response(asked):
    said = contents(asked)
    for index, content in enumerate(said):
        if has(content, "functionResponse") and (index == 0 or not has(said[index - 1], "functionCall")):
            return {"index": index}
    return None


def uneven_responses(asked):
    said = contents(asked)
    for index, content in enumerate(said[:-1]):
        calls = sum("functionCall" in part for part in content["parts"])
        responses = sum("functionResponse" in part for part in said[index + 1]["parts"])
        if calls and calls != responses:
            return {"index": index}
    return None


def empty_parts(asked):
    return next(
        ({"index": index} for index, content in enumerate(contents(asked)) if not content["parts"]), None
    )


def unsigned_call(asked):
    """Refuse the first call of a step in the current turn, after the last text of the user's, without a signature."""
    said = contents(asked)
    turn = max((at for at, one in enumerate(said) if one["role"] == "user" and has(one, "text")), default=0)
    for content in said[turn:]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            return {"name": calls[0]["functionCall"]["name"]}
    return None


def pictures_in_response(asked):
    parts = [
        part["functionResponse"]
        for content in contents(asked)
        for part in content["parts"]
        if "functionResponse" in part
    ]
    return {} if any(part.get("parts") for part in parts) else None


def declarations(asked):
    return [one for tool in asked.body.get("tools") or () for one in tool.get("functionDeclarations", ())]


def bad_name(asked):
    return next(
        (
            {"index": at}
            for at, one in enumerate(declarations(asked))
            if re.fullmatch(NAME, one["name"]) is None
        ),
        None,
    )


def same_names(asked):
    names = [one["name"] for one in declarations(asked)]
    return {"name": names[0]} if len(names) != len(set(names)) else None


def json_with_tools(asked):
    return (
        {}
        if declarations(asked) and at(asked.body, f"{CONFIG}.responseMimeType") == "application/json"
        else None
    )


GEMINI = Vendor(
    "gemini",
    (
        Rule(
            "*",
            unknown_name,
            'Invalid JSON payload received. Unknown name "{field}"{place}: Cannot find field.',
            "recorded",
        ),
        # A cap above the maximum is lowered: mnfst/modelparams.dev#334.
        Rule(
            "*",
            outside(f"{CONFIG}.maxOutputTokens", 1, 2**31 - 1),
            "max_output_tokens must be positive.",
            "vendor (inferred)",
        ),
        Rule(
            "*",
            prompt_above_window,
            "The input token count exceeds the maximum number of tokens allowed ({window}).",
            "recorded",
        ),
        Rule(
            THREE,
            above(f"{CONFIG}.candidateCount", 1),
            "Multiple candidates is not enabled for this model",
            "googleapis/js-genai#1609, python-genai#1723; 3.5 and later inferred",
        ),
        Rule(
            TWO,
            outside(f"{CONFIG}.candidateCount", 1, 8),
            "The number of candidates must be between 1 and 8",
            "vendor docs (the words are inferred)",
        ),
        *(
            Rule(
                "*",
                sent(f"{CONFIG}.{name}"),
                "Penalty is not enabled for models/{model}",
                "recorded (2.5); 3.* inferred",
            )
            for name in ("presencePenalty", "frequencyPenalty")
        ),
        *(
            Rule(
                "*",
                sent(f"{CONFIG}.{name}"),
                "Logprobs is not enabled for models/{model}",
                "mscraftsman/generative-ai#135, python-genai#1921",
            )
            for name in ("responseLogprobs", "logprobs")
        ),
        Rule(
            "*",
            outside(f"{CONFIG}.temperature", 0, 2),
            "temperature must be in the range [0.0, 2.0]",
            "mnfst/modelparams.dev#334 (the words are inferred)",
        ),
        Rule(
            "*",
            above(f"{CONFIG}.topP", 1),
            "top_p must be in the range [0.0, 1.0]",
            "mnfst/modelparams.dev#334 (the words are inferred)",
        ),
        Rule(
            "*",
            more_than(f"{CONFIG}.stopSequences", 5),
            "the number of stop_sequences must not exceed 5",
            "continuedev/continue#2702",
        ),
        Rule(
            "*",
            outside(f"{CONFIG}.seed", -(2**31), 2**31 - 1),
            "Invalid value at 'generation_config.seed' (TYPE_INT32), {value}",
            "the form of such errors (inferred)",
        ),
        Rule(
            "gemini-2.5-flash-lite",
            but_not(outside(BUDGET, 512, 24576), given(BUDGET, 0, -1)),
            "The thinking budget {value} is invalid. Please choose a value between 512 and 24576.",
            "earendil-works/pi#2861",
        ),
        Rule(TWO, sent(LEVEL), "Thinking level is not supported for this model.", "as of MINIMAL (inferred)"),
        Rule(
            THREE,
            together(LEVEL, BUDGET),
            "You can only set only one of thinking budget and thinking level.",
            "vendor docs (the words are inferred)",
        ),
        Rule(
            NO_MINIMAL,
            given(LEVEL, "MINIMAL"),
            "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
            "vellum-assistant#32687; BerriAI/litellm-docs#1505, kiss-translator#1048, any-llm#1345",
        ),
        Rule(
            "*",
            given(LEVEL, "XHIGH", "MAX", "NONE"),
            "Invalid value at 'generation_config.thinking_config.thinking_level', \"{value}\"",
            "the form of such errors (inferred)",
        ),
        Rule(
            TWO,
            json_with_tools,
            "Function calling with a response mime type: 'application/json' is unsupported",
            "googleapis/python-genai#867",
        ),
        Rule(
            "*",
            only_model,
            "Please ensure that single turn requests end with a user role or the role field is empty.",
            "recorded",
        ),
        Rule(
            ENDS_WITH_USER,
            last_is_model,
            "Requests ending with a model turn are not supported.",
            "LibreChat-AI/agents#323 (live), opencode#47034",
        ),
        Rule(
            "*",
            misplaced_call,
            "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
            "gemini-cli#11814, lobehub#10049",
        ),
        Rule(
            "*",
            misplaced_response,
            "Please ensure that function response turn comes immediately after a function call turn.",
            "microsoft/vscode#299295",
        ),
        Rule(
            "*",
            uneven_responses,
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            "microsoft/vscode#299295",
        ),
        Rule(
            "*",
            empty_parts,
            "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n",
            "chatwise#250",
        ),
        Rule(
            THREE,
            unsigned_call,
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}`.",
            "nanbingxyz/5ire#405",
        ),
        Rule(
            TWO,
            pictures_in_response,
            "Multimodal function responses are not supported for this model.",
            "NousResearch/hermes-agent#96466 (the words are inferred)",
        ),
        Rule(
            "*",
            bad_name,
            "* GenerateContentRequest.tools[0].function_declarations[{index}].name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n",
            "gemini-cli#9535",
        ),
        Rule(
            "*",
            lambda asked: {} if len(declarations(asked)) > 512 else None,
            "The GenerateContentRequest proto is invalid:\n * tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
            "gemini-cli#25440",
        ),
        Rule("*", same_names, "Duplicate function declaration found: {name}", "vendor (inferred)"),
    ),
    word,
    {"*": 1048576},
    cap_at=(f"{CONFIG}.maxOutputTokens",),
    read=path_model(r"/models/([^/:]+):", ":streamGenerateContent"),
)

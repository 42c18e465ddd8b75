"""What becomes of each field and item of a Responses request in the chat body."""

import json
from typing import Any

import pytest

from addon.apis.chat.schema import validate as validate_chat
from addon.apis.responses.outputs import ATTACHED, NO_TEXT
from addon.apis.responses.request import to_chat
from addon.apis.responses.schema import validate
from addon.dialects.opaque_reasoning import seal
from addon.text.json_decode import decode_large_object
from addon.text.json_encode import encode_json, encode_request

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CHAT_FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
IMAGE = {"type": "input_image", "image_url": "https://a/b.png", "detail": "high"}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "high"}}
SIGNED = {"type": "reasoning.text", "text": "Hm", "signature": "s", "format": "anthropic-claude-v1"}


def translate(given: Any = "Hi", **fields: Any) -> Any:
    body = {"input": given, **fields}
    before = json.dumps(body)
    validate(body)
    made = to_chat(body)
    validate_chat(made.body)
    assert json.dumps(body) == before, "the client's body is never changed"
    return made


def messages_of(*items: Any) -> Any:
    return translate(list(items)).body["messages"]


@pytest.mark.parametrize(
    ("given", "chat"),
    [
        ({"model": "m"}, {"model": "m"}),
        ({"max_output_tokens": 64}, {"max_completion_tokens": 64}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, {"stream": True}),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        (
            {"prompt_cache_key": "k", "service_tier": "flex"},
            {"prompt_cache_key": "k", "service_tier": "flex"},
        ),
        ({"metadata": {"team": "a"}}, {"metadata": {"team": "a"}}),
        ({"reasoning": {"effort": "low", "summary": None}}, {"reasoning_effort": "low"}),
        ({"text": {"verbosity": "low", "format": {"type": "text"}}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": True},
                }
            },
        ),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}, {"logprobs": True}),
        ({"store": False, "truncation": "disabled", "background": False, "top_logprobs": 0}, {}),
        ({"tools": [FUNCTION], "tool_choice": "auto"}, {"tools": [CHAT_FUNCTION], "tool_choice": "auto"}),
        (
            {"tools": [FUNCTION], "parallel_tool_calls": False},
            {"tools": [CHAT_FUNCTION]} | {"parallel_tool_calls": False},
        ),
        (
            {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
            {"tools": [CHAT_FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
    ],
)
def test_fields(given: dict[str, Any], chat: dict[str, Any]) -> None:
    made = translate(**given)
    assert made.body == chat | {"messages": [USER]}
    assert made.untranslated == () and made.obstacle is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"store": True}, ["store"]),
        ({"truncation": "auto", "max_tool_calls": 3}, ["truncation", "max_tool_calls"]),
        ({"client_metadata": {"a": "b"}, "new": 1}, ["client_metadata", "new"]),
        (
            {"reasoning": {"summary": "auto", "context": "all_turns"}},
            ["reasoning.summary", "reasoning.context"],
        ),
        ({"include": ["web_search_call.action.sources"]}, ["include.web_search_call.action.sources"]),
        (
            {"tools": [{"type": "web_search"}, {"type": "tool_search"}]},
            ["tools.web_search", "tools.tool_search"],
        ),
        ({"tools": [FUNCTION | {"defer_loading": True}]}, ["tools.defer_loading"]),
        ({"tools": [FUNCTION | {"strict": True}]}, ["tools.strict"]),
    ],
)
def test_what_chat_has_no_word_for_is_named(given: dict[str, Any], named: list[str]) -> None:
    assert list(translate(**given).untranslated) == named


def test_instructions_come_first() -> None:
    made = translate([{"type": "message", "role": "developer", "content": "D"}, USER], instructions="I")
    assert [(one["role"], one["content"]) for one in made.body["messages"]] == [
        ("system", "I"),
        ("developer", "D"),
        ("user", "Hi"),
    ]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ({"type": "input_text", "text": "x"}, "x"),
        ({"type": "output_text", "text": "x", "annotations": [], "logprobs": []}, "x"),
        ({"type": "refusal", "refusal": "no"}, [{"type": "refusal", "refusal": "no"}]),
        (IMAGE, [CHAT_IMAGE]),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
            [
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                }
            ],
        ),
        (
            {"type": "input_file", "file_url": "https://a/b.pdf"},
            [{"type": "file", "file": {"filename": "document.pdf", "file_data": "https://a/b.pdf"}}],
        ),
        ({"type": "input_file", "file_id": "file_1"}, [{"type": "file", "file": {"file_id": "file_1"}}]),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}],
        ),
        (
            {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}},
            [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        ),
        ({"type": "input_video", "url": "u"}, [{"type": "input_video", "url": "u"}]),
    ],
)
def test_parts(part: dict[str, Any], content: Any) -> None:
    assert messages_of({"role": "user", "content": [part]}) == [{"role": "user", "content": content}]


def test_items_of_one_turn_are_one_message() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal([SIGNED])}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    second = CALL | {"call_id": "c2", "id": "fc_2", "status": "completed"}
    made = messages_of(USER, reasoning, answer, CALL, second, OUTPUT, OUTPUT | {"call_id": "c2"}, USER)
    assert made == [
        USER,
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [CHAT_CALL, CHAT_CALL | {"id": "c2"}],
            "reasoning_details": [SIGNED | {"index": 0}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "tool", "tool_call_id": "c2", "content": "4"},
        USER,
    ]


def test_an_answer_after_calls_is_another_message() -> None:
    answer = {"role": "assistant", "content": "Done."}
    roles = [one["role"] for one in messages_of(USER, CALL, OUTPUT, answer, answer, USER)]
    assert roles == ["user", "assistant", "tool", "assistant", "assistant", "user"]


def test_an_empty_answer_is_no_message() -> None:
    empty = {"role": "assistant", "content": [{"type": "output_text", "text": ""}]}
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": seal([SIGNED])}
    made = translate([USER, reasoning, empty, USER])
    assert made.body["messages"] == [USER, USER]
    assert made.untranslated == ("input.reasoning",)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('"{\\"a\\": 1}"', '{"a": 1}'), ('"text"', '"text"'), ('"', '"'), ("", "")],
)
def test_arguments_that_were_encoded_twice(arguments: str, sent: str) -> None:
    message = messages_of(USER, CALL | {"arguments": arguments}, OUTPUT)[1]
    assert message["tool_calls"][0]["function"]["arguments"] == sent


def test_reasoning_of_several_items_has_one_row_of_indexes() -> None:
    items = [{"type": "reasoning", "summary": [], "encrypted_content": seal([SIGNED | {"index": 0}])}] * 2
    details = messages_of(USER, *items, CALL, OUTPUT)[1]["reasoning_details"]
    assert [detail["index"] for detail in details] == [0, 1]


@pytest.mark.parametrize(
    ("item", "content", "named"),
    [
        ({"content": [{"type": "reasoning_text", "text": "raw"}], "summary": []}, "raw", []),
        ({"summary": [{"type": "summary_text", "text": "sum"}], "content": None}, "sum", []),
        (
            {"summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"},
            None,
            ["input.reasoning"],
        ),
        ({"summary": [], "encrypted_content": "tg1.changed"}, None, ["input.reasoning"]),
        ({"summary": [], "encrypted_content": seal([{"type": "reasoning.text", "text": "own"}])}, "own", []),
    ],
)
def test_reasoning_of_others(item: dict[str, Any], content: str | None, named: list[str]) -> None:
    made = translate([USER, {"type": "reasoning", **item}, CALL, OUTPUT])
    assert made.body["messages"][1].get("reasoning_content") == content
    assert "reasoning_details" not in made.body["messages"][1]
    assert list(made.untranslated) == named


def test_a_thought_signature_goes_back_to_its_call() -> None:
    signature = {"type": "reasoning.encrypted", "data": "sig", "format": "google-gemini-v1", "id": "c1"}
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": seal([signature])}
    message = messages_of(USER, reasoning, CALL, OUTPUT)[1]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert "reasoning_details" not in message


def test_pictures_of_outputs_follow_them() -> None:
    output = OUTPUT | {"output": [{"type": "input_text", "text": "See"}, IMAGE]}
    second = {"type": "function_call_output", "call_id": "c2", "output": [IMAGE]}
    made = messages_of(
        USER, CALL, CALL | {"call_id": "c2"}, output, second, {"role": "assistant", "content": "A"}
    )
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "See"},
        {"role": "tool", "tool_call_id": "c2", "content": NO_TEXT},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": f"{ATTACHED} c1:"},
                CHAT_IMAGE,
                {"type": "text", "text": f"{ATTACHED} c2:"},
                CHAT_IMAGE,
            ],
        },
        {"role": "assistant", "content": "A"},
    ]


def test_custom_tools_are_functions_of_one_text() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    tool = {"type": "custom", "name": "patch", "description": "Patches.", "format": grammar}
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'a "b"\n'}
    made = translate([USER, call, OUTPUT | {"type": "custom_tool_call_output"}], tools=[tool]).body
    function = made["tools"][0]["function"]
    text = function["parameters"]["properties"]["input"]
    assert (function["name"], function["description"]) == ("patch", "Patches.")
    assert "lark grammar" in text["description"] and "start: WORD" in text["description"]
    assert json.loads(made["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"input": 'a "b"\n'}


def test_functions_of_a_namespace_have_both_names() -> None:
    tools = [{"type": "namespace", "name": "mcp", "tools": [FUNCTION]}]
    choice = {"type": "function", "name": "f", "namespace": "mcp"}
    made = translate([USER, CALL | {"namespace": "mcp"}, OUTPUT], tools=tools, tool_choice=choice).body
    assert made["tools"][0]["function"]["name"] == "mcp__f"
    assert made["messages"][1]["tool_calls"][0]["function"]["name"] == "mcp__f"
    assert made["tool_choice"]["function"]["name"] == "mcp__f"


@pytest.mark.parametrize(
    ("call", "output", "arguments", "result"),
    [
        (
            {"type": "local_shell_call", "id": "c1", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "c1", "output": "a"},
            {"command": ["ls"]},
            "a",
        ),
        (
            {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}]},
            {"commands": ["ls"]},
            '[{"stdout":"a"}]',
        ),
        (
            {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
            {"type": "delete_file", "path": "a"},
            "completed",
        ),
        (
            {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [FUNCTION]},
            {"query": "x"},
            "Tools available: f",
        ),
    ],
)
def test_tools_that_the_client_runs(call: Any, output: Any, arguments: Any, result: str) -> None:
    kind = call["type"].removesuffix("_call")
    made = translate([USER, call, output], tools=[{"type": kind, "execution": "client"}])
    function = made.body["messages"][1]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (kind, arguments)
    assert made.body["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": result}
    assert made.body["tools"][0]["function"]["name"] == kind
    assert made.untranslated == ()


def test_tools_of_items_are_offered_too() -> None:
    loaded = {"type": "additional_tools", "role": "developer", "tools": [FUNCTION]}
    searched = {
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "tools": [FUNCTION | {"name": "g"}],
    }
    made = translate([USER, loaded, searched])
    assert [tool["function"]["name"] for tool in made.body["tools"]] == ["f", "g"]
    assert made.untranslated == ("input.tool_search_output",)


def test_each_message_has_its_source() -> None:
    picture = OUTPUT | {"output": [IMAGE]}
    made = translate([USER, {"type": "web_search_call"}, CALL, picture, USER], instructions="I")
    assert made.sources["messages"] == ["instructions", "input.0", "input.2", "input.3", "input.3", "input.4"]
    assert translate("Hi").sources["messages"] == ["input"]


def test_each_tool_has_its_source() -> None:
    tools = [{"type": "mcp"}, FUNCTION, {"type": "namespace", "name": "n", "tools": [FUNCTION]}]
    loaded = {"type": "additional_tools", "role": "developer", "tools": [FUNCTION, FUNCTION | {"name": "g"}]}
    made = translate([USER, loaded], tools=tools)
    assert made.sources["tools"] == ["tools.1", "tools.2.tools.0", "input.1.tools.1"]


def test_what_a_provider_did_itself_is_named() -> None:
    items = [USER, {"type": "web_search_call", "id": "ws_1"}, {"type": "mcp_call", "id": "mcp_1"}, USER]
    made = translate(items)
    assert made.body["messages"] == [USER, USER]
    assert made.untranslated == ("input.web_search_call", "input.mcp_call")


@pytest.mark.parametrize(
    ("choice", "names", "chat_choice"),
    [
        ({"type": "allowed_tools", "mode": "required", "tools": [FUNCTION]}, ["f"], "required"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, [], None),
        ({"type": "custom", "name": "p"}, ["f", "p"], {"type": "function", "function": {"name": "p"}}),
        ("none", ["f", "p"], "none"),
    ],
)
def test_choices(choice: Any, names: list[str], chat_choice: Any) -> None:
    tools = [FUNCTION, {"type": "custom", "name": "p"}]
    body = translate(tools=tools, tool_choice=choice).body
    assert [tool["function"]["name"] for tool in body.get("tools", ())] == names
    assert body.get("tool_choice") == chat_choice


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search"}]}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "g"}, "tools": [FUNCTION]}, "tool_choice"),
        ({"tool_choice": "required", "tools": [{"type": "web_search"}]}, "tool_choice"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}, USER]}, "input.0"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input.0.content.0.file_id",
        ),
        ({"input": [{"role": "developer", "content": "x"}]}, "input"),
        ({"input": [{"type": "web_search_call"}]}, "input"),
    ],
)
def test_what_may_not_be_left_out_is_an_obstacle(fields: dict[str, Any], field: str) -> None:
    body = {"input": "Hi", **fields}
    validate(body)
    assert (made := to_chat(body)).obstacle is not None
    assert made.obstacle[0] == field


def test_long_texts_stay_long_unless_they_are_inside_of_json() -> None:
    long = "a\n" * 50_000
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": long}
    outputs = [OUTPUT | {"output": long}]
    given = {"input": [{"role": "user", "content": long}, custom, *outputs], "instructions": long}
    body, large = decode_large_object(encode_json(given))
    validate(body)
    made = to_chat(body).body
    assert large is not None
    sent = json.loads(large.restore(encode_request(made)))
    assert [one["content"] for one in sent["messages"]] == [long, long, None, long]
    assert json.loads(sent["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"input": long}

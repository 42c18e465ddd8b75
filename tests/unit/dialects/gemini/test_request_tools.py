"""Tools in Gemini's requests: declarations, choices, calls, their results and their signatures."""

import base64
from typing import Any

import pytest
from rig.gemini_requests import BY_BUDGET, BY_LEVEL, HI, assistant, contents, result, sent
from rig.sent import shipped_families

SKIPPED = base64.b64encode(b"skip_thought_signature_validator").decode()


def test_calls_are_followed_by_their_results_as_objects():
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"où": "là"}'},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    other = {"id": "c2", "type": "function", "function": {"name": "wait", "arguments": ""}}
    said = contents(
        HI,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call, other]},
        result("c2", [{"type": "text", "text": "ra"}, {"type": "text", "text": "in"}]),
        result("c1", '{"sun": true}'),
        {"role": "user", "content": "Well?"},
    )
    assert said[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Let me see."},
                {
                    "functionCall": {"name": "look", "args": {"où": "là"}, "id": "c1"},
                    "thoughtSignature": "c2ln",
                },
                {"functionCall": {"name": "wait", "args": {}, "id": "c2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "wait", "response": {"result": "rain"}, "id": "c2"}},
                {"functionResponse": {"name": "look", "response": {"sun": True}, "id": "c1"}},
                {"text": "Well?"},
            ],
        },
    ]


@pytest.mark.parametrize("text", ["[1]", "3", "", "{", '{"a": NaN}', '{"a": 1e999}', '{"a": ' * 5_000])
def test_a_result_that_is_not_a_json_object_is_sent_as_text(text: str):
    said = contents(assistant(("c", "f")), result("c", text))
    assert said[1]["parts"][0]["functionResponse"]["response"] == {"result": text}


def test_a_result_belongs_to_the_last_call_with_its_id():
    said = contents(assistant(("c", "first")), result("c", "1"), assistant(("c", "second")), result("c", "2"))
    assert [content["parts"][0]["functionResponse"]["name"] for content in said[1::2]] == ["first", "second"]


def test_a_first_call_without_a_signature_gets_the_documented_placeholder():
    made = contents(assistant(("a", "f"), ("b", "g")), family=BY_LEVEL)[0]["parts"]
    assert [part.get("thoughtSignature") for part in made] == [SKIPPED, None]
    unchecked = contents(assistant(("a", "f")), family=BY_BUDGET)[0]["parts"]
    assert "thoughtSignature" not in unchecked[0]


def test_tools_are_declared_with_their_schema_as_it_is():
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }
    native = sent(
        tools=[
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": schema, "strict": True},
            },
            {"type": "function", "function": {"name": "g"}},
        ]
    )
    assert native["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "d", "parametersJsonSchema": schema},
                {"name": "g"},
            ]
        }
    ]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (
            {"type": "function", "function": {"name": "f"}},
            {"mode": "ANY", "allowedFunctionNames": ["f"]},
        ),
    ],
)
def test_a_tool_choice_is_a_mode(choice: Any, calling: dict[str, Any]):
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert sent(tools=tools, tool_choice=choice)["toolConfig"] == {"functionCallingConfig": calling}


TEXT = {"type": "text", "text": "seen"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}}
ADDRESS = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
SOUND = {"type": "input_audio", "input_audio": {"format": "wav", "data": "V0FW"}}
PICTURE_PART = {"inlineData": {"mimeType": "image/png", "data": "UE5H"}}
ADDRESS_PART = {"fileData": {"fileUri": "https://a.test/b.png", "mimeType": "image/png"}}
SOUND_PART = {"inlineData": {"mimeType": "audio/wav", "data": "V0FW"}}


@pytest.mark.parametrize(
    ("family", "inside", "after"),
    [
        ("gemini-2", [], [PICTURE_PART, ADDRESS_PART, SOUND_PART]),
        ("gemini", [PICTURE_PART], [ADDRESS_PART, SOUND_PART]),
    ],
)
def test_a_picture_in_a_result_is_inside_of_it_or_follows_all_results(
    family: str, inside: list[Any], after: list[Any]
):
    said = contents(
        assistant(("a", "f"), ("b", "g")),
        result("a", [TEXT, PICTURE, ADDRESS, SOUND]),
        result("b", "2"),
        HI,
        family=shipped_families()[family],
    )
    first = {"name": "f", "response": {"result": "seen"}, "id": "a"} | ({"parts": inside} if inside else {})
    second = {"name": "g", "response": {"result": "2"}, "id": "b"}
    assert said[1]["parts"] == [
        {"functionResponse": first},
        {"functionResponse": second},
        *after,
        {"text": "Hi"},
    ]


def test_a_result_of_only_a_picture_has_an_empty_text():
    made = contents(assistant(("a", "f")), result("a", [PICTURE]))[1]["parts"]
    assert made == [{"functionResponse": {"name": "f", "response": {"result": ""}, "id": "a"}}, PICTURE_PART]

"""A chat body becomes a body of Amazon Bedrock's Converse API."""

import base64
import json

import pytest
from pydantic import SecretStr
from rig.native_converse import check_request

from addon.apis.chat.request import parse_chat_request
from addon.dialects import DIALECTS
from addon.dialects.bedrock.request import to_request
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.route import Target

PLAIN = Family("plain")
CLAUDE = Family(
    "claude",
    extra=frozenset({"thinking", "reasoning_effort", "top_k"}),
    message_extra=frozenset({"reasoning_details", "cache_control"}),
)
HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
PNG = "data:image/png;base64,aGk="
PDF = "data:application/pdf;base64,aGk="
CACHED = {"cache_control": {"type": "ephemeral"}}


def sent(family=PLAIN, **fields):
    body = {"model": "m", "max_tokens": 9, "messages": [HI]} | fields
    made = to_request(body, family)
    check_request(made)
    return made


def content(*parts):
    return sent(messages=[{"role": "user", "content": list(parts)}])["messages"][0]["content"]


# case: chat fields, the members of the native body
FIELDS = {
    "sampling": (
        {"temperature": 0.5, "top_p": 0.9, "stop": "x"},
        {"inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x"]}},
    ),
    "no cap of its own": ({"max_tokens": 7}, {"inferenceConfig": {"maxTokens": 7}}),
    "fields without a place": ({"user": "u", "seed": 1, "n": 1, "parallel_tool_calls": False}, {}),
    "a system message": (
        {"messages": [{"role": "system", "content": "s"}, HI]},
        {"system": [{"text": "s"}]},
    ),
    "json mode": (
        {"response_format": {"type": "json_object"}},
        {"system": [{"text": "Answer with one JSON object and nothing else: no other text, no code fence."}]},
    ),
    "tools": (
        {"tools": [TOOL]},
        {
            "toolConfig": {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "f",
                            "description": "d",
                            "inputSchema": {"json": {"type": "object"}},
                        }
                    }
                ]
            }
        },
    ),
    "no tool may be called": ({"tools": [TOOL], "tool_choice": "none"}, {}),
}


@pytest.mark.parametrize(("fields", "members"), FIELDS.values(), ids=FIELDS)
def test_fields(fields, members):
    expected = {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "inferenceConfig": {"maxTokens": 9},
    }
    assert sent(**fields) == expected | members


@pytest.mark.parametrize(
    ("choice", "native"),
    [
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ({"type": "function", "function": {"name": "f"}}, {"tool": {"name": "f"}}),
    ],
)
def test_a_tool_choice(choice, native):
    assert sent(tools=[TOOL], tool_choice=choice)["toolConfig"]["toolChoice"] == native


def test_calls_and_results_are_blocks_and_parallel_results_one_turn():
    result = {"role": "tool", "content": "1"}
    messages = [
        HI,
        {"role": "assistant", "content": "t", "tool_calls": [CALL, CALL | {"id": "c2"}]},
        result | {"tool_call_id": "c1"},
        result | {"tool_call_id": "c2"},
    ]
    _, spoken, results = sent(messages=messages, tools=[TOOL])["messages"]
    uses = [{"toolUse": {"toolUseId": one, "name": "f", "input": {"a": 1}}} for one in ("c1", "c2")]
    assert spoken == {"role": "assistant", "content": [{"text": "t"}, *uses]}
    answered = [{"toolResult": {"toolUseId": one, "content": [{"text": "1"}]}} for one in ("c1", "c2")]
    assert results == {"role": "user", "content": answered}


def test_a_choice_of_no_tool_is_refused_in_a_conversation_with_calls():
    messages = [
        HI,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    with pytest.raises(Refusal) as caught:
        sent(messages=messages, tools=[TOOL], tool_choice="none")
    assert (caught.value.code, caught.value.param) == ("validation_failed", "tool_choice")


def test_a_picture_and_a_file_are_sent_as_bytes():
    image = {"type": "image_url", "image_url": {"url": PNG}}
    file = {"type": "file", "file": {"file_data": PDF, "filename": "my_report.v2 (new).pdf"}}
    assert content(image, file, {"type": "text", "text": "?"}) == [
        {"image": {"format": "png", "source": {"bytes": "aGk="}}},
        {"document": {"format": "pdf", "name": "my report v2 (new) pdf", "source": {"bytes": "aGk="}}},
        {"text": "?"},
    ]
    (unnamed,) = content({"type": "file", "file": {"file_data": PDF}})
    assert unnamed["document"]["name"] == "document"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}, "image_url.url"),
        ({"type": "file", "file": {"file_data": "https://a.test/b.pdf"}}, "file.file_data"),
        ({"type": "input_audio", "input_audio": {}}, ""),
    ],
)
def test_a_part_that_the_api_can_not_take_is_refused_by_name(part, param):
    with pytest.raises(Refusal) as caught:
        content(part)
    assert caught.value.param == f"messages.0.content.0{'.' if param else ''}{param}"


def test_a_cache_breakpoint_follows_its_block():
    made = sent(
        CLAUDE,
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "s", **CACHED}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a", **CACHED}, {"type": "text", "text": "b"}],
            },
        ],
        tools=[TOOL | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    )
    point = {"cachePoint": {"type": "default"}}
    assert made["system"] == [{"text": "s"}, point]
    assert made["messages"][0]["content"] == [{"text": "a"}, point, {"text": "b"}]
    assert made["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


# case: chat fields, family, additionalModelRequestFields
OWN = {
    "a field of the model": ({"top_k": 3}, CLAUDE, {"top_k": 3}),
    "an effort of a model that decides itself": (
        {"reasoning_effort": "low"},
        CLAUDE,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    "an effort with a budget": (
        {"reasoning_effort": "low", "max_tokens": 4000},
        Family("old", extra=CLAUDE.extra, effort_budgets={"low": 1024}),
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    "an effort of a model without thinking": (
        {"reasoning_effort": "low"},
        Family("gpt-oss", extra=frozenset({"reasoning_effort"})),
        {"reasoning_effort": "low"},
    ),
    "an effort that the family does not know": ({"reasoning_effort": "low"}, PLAIN, None),
}


@pytest.mark.parametrize(("fields", "family", "own"), OWN.values(), ids=OWN)
def test_fields_of_the_model(fields, family, own):
    assert sent(family, **fields).get("additionalModelRequestFields") == own


def test_signed_and_sealed_reasoning_goes_back_and_unsigned_does_not():
    details = [
        {
            "type": "reasoning.text",
            "text": "t",
            "signature": "s",
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        {"type": "reasoning.encrypted", "data": "Eu8E", "format": "anthropic-claude-v1", "index": 1},
        {"type": "reasoning.text", "text": "unsigned", "format": "anthropic-claude-v1", "index": 2},
    ]
    messages = [HI, {"role": "assistant", "content": "a", "reasoning_details": details}, HI]
    made = sent(CLAUDE, messages=messages, thinking={"type": "enabled", "budget_tokens": 1})
    assert made["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "RXU4RQ=="}},
        {"text": "a"},
    ]


def test_a_schema_is_sent_as_text_with_only_the_keywords_that_the_api_takes():
    schema = {"type": "object", "properties": {"a": {"type": "array", "maxItems": 3}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    form = sent(response_format=wanted)["outputConfig"]["textFormat"]
    made = json.loads(form["structure"]["jsonSchema"]["schema"])
    assert made["additionalProperties"] is False
    assert made["properties"]["a"] == {"type": "array", "description": "{maxItems: 3}"}


def test_a_long_text_in_a_schema_is_decoded_because_it_becomes_a_text_itself():
    described = 'a "quoted" ' * 20_000
    schema = {"type": "object", "properties": {}, "description": described}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    chat = parse_chat_request(json.dumps({"messages": [HI], "response_format": wanted}).encode())
    assert chat.large is not None
    content = request("m", {"model": "m", "max_tokens": 1, **chat.fields}).content
    body = json.loads(chat.large.restore(content))
    form = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]
    assert json.loads(form)["description"] == described


def test_long_sealed_reasoning_is_decoded_because_it_is_sent_in_base64():
    sealed = 'Eu8E"' * 40_000
    details = [{"type": "reasoning.encrypted", "data": sealed, "format": "anthropic-claude-v1"}]
    messages = [HI, {"role": "assistant", "content": "a", "reasoning_details": details}, HI]
    chat = parse_chat_request(json.dumps({"messages": messages}).encode())
    assert chat.large is not None
    body = sent(CLAUDE, messages=chat.fields["messages"], thinking={"type": "enabled", "budget_tokens": 1})
    block = body["messages"][1]["content"][0]
    assert base64.b64decode(block["reasoningContent"]["redactedContent"]).decode() == sealed


def test_a_long_picture_is_sent_as_the_client_wrote_it():
    url = "data:image/png;base64," + "aGkh" * 60_000
    content = [{"type": "image_url", "image_url": {"url": url}}]
    chat = parse_chat_request(json.dumps({"messages": [{"role": "user", "content": content}]}).encode())
    assert chat.large is not None
    made = json.loads(
        chat.large.restore(request("m", {"model": "m", "max_tokens": 1, **chat.fields}).content)
    )
    image = made["messages"][0]["content"][0]["image"]
    assert image == {"format": "png", "source": {"bytes": "aGkh" * 60_000}}


def request(model_id, body):
    provider = Provider("VENDOR", "https://bedrock.example", "bedrock", ())
    free = Prices(0, 0, 0)
    model = Model("slug", provider, model_id, PLAIN, free, free, 9, byok_only=False, active=True)
    return DIALECTS["bedrock"].request(Target(model, "payg", SecretStr("key")), body)


# upstream model id, and its segment as recorded
PATHS = {
    "amazon.nova-lite-v1:0": "amazon.nova-lite-v1%3A0",
    "us.anthropic.claude-sonnet-5": "us.anthropic.claude-sonnet-5",
    "arn:aws:bedrock:us-east-1:012345678901:inference-profile/us.anthropic.claude-3-7-sonnet-20250219-v1:0": (
        "arn%3Aaws%3Abedrock%3Aus-east-1%3A012345678901%3Ainference-profile%2F"
        "us.anthropic.claude-3-7-sonnet-20250219-v1%3A0"
    ),
    "a/../b?c#d%2F": "a%2F..%2Fb%3Fc%23d%252F",
}


@pytest.mark.parametrize(("model_id", "segment"), PATHS.items(), ids=PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_model_is_one_segment_of_the_path(model_id, segment, stream):
    body = {"model": model_id, "max_tokens": 1, "messages": [HI]} | ({"stream": True} if stream else {})
    made = request(model_id, body)
    method = "converse-stream" if stream else "converse"
    assert made.url == f"https://bedrock.example/model/{segment}/{method}"
    accept = "application/vnd.amazon.eventstream" if stream else "application/json"
    assert [value for name, value in made.headers if name == "accept"] == [accept]
    assert "model" not in json.loads(made.content)


def test_a_field_without_a_place_is_named():
    body = {"model": "m", "max_tokens": 1, "messages": [HI | {"name": "n"}], "user": "u", "temperature": 1}
    body |= {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False}
    assert request("m", body).unsent_fields == ("user", "parallel_tool_calls", "messages.name")

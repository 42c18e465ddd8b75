"""The schema names each invalid field by its path in the client's body, and refuses nothing that it need not read."""

from typing import Any

import pytest
from rig.messages_requests import HELLO, MARK, PNG, TOOL, ask, result, text, tool_use, user

from addon.apis.messages.schema import validate
from addon.apis.validation import MAX_FOUND_FAILURES
from policies.refusal import Refusal


def refusal(body: dict[str, Any], **how: bool) -> Refusal:
    with pytest.raises(Refusal) as refused:
        validate(body, **how)
    return refused.value


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (ask(messages="Hi"), "messages"),
        (ask(messages=["Hi"]), "messages.0"),
        (ask(messages=[{"role": "tool", "content": "x"}]), "messages.0.role"),
        (ask(messages=[{"role": "user"}]), "messages.0.content"),
        (ask(messages=[{"role": "user", "content": 1}]), "messages.0.content"),
        (ask(messages=[{"role": "system", "content": 1}]), "messages.0.content"),
        (ask(user({"text": "x"})), "messages.0.content.0.type"),
        (ask(user({"type": ["text"]})), "messages.0.content.0.type"),
        (ask(user({"type": "text"})), "messages.0.content.0.text"),
        (ask(user(text("x", cache_control=True))), "messages.0.content.0.cache_control"),
        (ask(user(text("x", cache_control={}))), "messages.0.content.0.cache_control.type"),
        (ask(user({"type": "image"})), "messages.0.content.0.source"),
        (ask(user({"type": "image", "source": {}})), "messages.0.content.0.source.type"),
        (ask(user({"type": "image", "source": PNG | {"data": 1}})), "messages.0.content.0.source.data"),
        (
            ask(user({"type": "image", "source": PNG | {"media_type": "a/b;base64,x"}})),
            "messages.0.content.0.source.media_type",
        ),
        (ask(user({"type": "document", "source": {"type": "url"}})), "messages.0.content.0.source.url"),
        (
            ask(user({"type": "document", "source": {"type": "content", "content": [text("a"), {}]}})),
            "messages.0.content.0.source.content.1.type",
        ),
        (
            ask(user({"type": "search_result", "title": "T", "source": "S", "content": [{"type": "image"}]})),
            None,
        ),
        (ask(user(tool_use() | {"input": "{}"})), "messages.0.content.0.input"),
        (ask(user(tool_use(id=""))), "messages.0.content.0.id"),
        (ask(user(result(id=1))), "messages.0.content.0.tool_use_id"),
        (ask(user(result([{"type": "text"}]))), "messages.0.content.0.content.0.text"),
        (ask(user(result(is_error="no"))), "messages.0.content.0.is_error"),
        (ask(user({"type": "thinking", "thinking": 1})), "messages.0.content.0.thinking"),
        (ask(user({"type": "redacted_thinking"})), "messages.0.content.0.data"),
        (ask(system=[{"type": "image"}]), None),
        (ask(system={"text": "x"}), "system"),
        (ask(tools=[{"name": "x"}]), "tools.0.input_schema"),
        (ask(tools=[TOOL | {"name": ""}]), "tools.0.name"),
        (ask(tools=[TOOL | {"type": 7}]), "tools.0.type"),
        (ask(tools={}), "tools"),
        (ask(tool_choice="auto"), "tool_choice"),
        (ask(tool_choice={"type": "tool"}), "tool_choice.name"),
        (ask(tool_choice={"type": "some"}), "tool_choice.type"),
        (ask(thinking={"type": "enabled"}), "thinking.budget_tokens"),
        (ask(thinking={"type": "enabled", "budget_tokens": 0}), "thinking.budget_tokens"),
        (ask(thinking=True), "thinking"),
        (ask(output_config={"effort": 3}), "output_config.effort"),
        (ask(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema"),
        (ask(output_format={"schema": {}}), "output_format.type"),
        (ask(metadata={"user_id": 7}), "metadata.user_id"),
        (ask(stop_sequences="END"), "stop_sequences"),
        (ask(stop_sequences=["END", 7]), "stop_sequences.1"),
        (ask(max_tokens=0), "max_tokens"),
        (ask(max_tokens="9"), "max_tokens"),
        (ask(max_tokens=True), "max_tokens"),
        (ask(temperature="hot"), "temperature"),
        (ask(top_p=2), "top_p"),
        (ask(top_k=0.5), "top_k"),
        (ask(stream="yes"), "stream"),
        (ask(model=""), "model"),
        ({"messages": HELLO}, "max_tokens"),
    ],
)
def test_an_invalid_field_is_named_by_its_path(body: dict[str, Any], field: str | None):
    found = refusal(body)
    assert (found.code, found.param) == ("validation_failed", field)
    assert (
        found.message.startswith(f"{field}: ") if field else "0.type: Input should be 'text'" in found.message
    )


def test_all_invalid_fields_are_named_at_once():
    found = refusal(ask(user({"type": "text"}), temperature="hot", tools=7))
    assert all(name in found.message for name in ("messages.0.content.0.text", "temperature", "tools: Input"))
    assert found.param is None


def test_no_value_is_repeated():
    secret = "sk-ant-obviously-fake"
    body = ask([{"role": secret, "content": [{"type": "text", "text": [secret]}]}], tool_choice=secret)
    assert secret not in refusal(body | {"service_tier": [secret], "thinking": secret}).message


def test_endless_errors_end_early():
    found = refusal(ask([{"role": "user", "content": [{"type": "text"}] * MAX_FOUND_FAILURES * 2}]))
    assert found.message == f"More than {MAX_FOUND_FAILURES} fields are invalid."


@pytest.mark.parametrize("body", [{"max_tokens": 9}, {"max_tokens": 9, "messages": []}])
def test_messages_are_required(body: dict[str, Any]):
    found = refusal(body)
    assert (found.code, found.param) == ("bad_request", "messages")


@pytest.mark.parametrize(
    "body",
    [
        ask(user({"type": "new tomorrow", "with": {"any": ["member"]}}, text("x", citations=None))),
        ask([*HELLO, {"role": "system", "output_config": {"effort": "low", "more": 1}}]),
        ask([*HELLO, {"role": "system", "content": [{"type": "tool_addition", "tool": {}}]}]),
        ask(tools=[TOOL | {"type": "custom", "input_examples": [{}]}, {"type": "web_search_20260318"}]),
        ask(tools=[TOOL | {"type": None, "cache_control": None, "strict": None}]),
        ask(thinking={"type": "between_tools"}, context_management={"edits": []}, container=None),
        ask(user(result(None), {"type": "tool_result", "tool_use_id": "t1"}), unknown={"key": 1}),
        ask(user({"type": "image", "source": {"type": "file", "file_id": "file_1"}})),
        ask(user(text("x", cache_control=MARK | {"ttl": "1h"})), cache_control=MARK),
    ],
)
def test_what_the_gateway_need_not_read_is_not_refused(body: dict[str, Any]):
    validate(body)


def test_tokens_are_counted_without_a_cap():
    validate({"messages": HELLO}, counts_only=True)
    assert refusal({"messages": HELLO, "top_p": 7}, counts_only=True).param == "top_p"

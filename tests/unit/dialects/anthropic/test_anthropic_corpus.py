"""Recorded answers and requests of Anthropic's shape keep the meaning that its SDK reads."""

import json
from collections import Counter
from functools import cache

import pytest
from rig.corpus import needs_corpus
from rig.large import large, sized
from rig.native_anthropic import (
    NotInChatError,
    chat_request_of,
    check_request,
    meaning_of_request,
    read_recordings,
)
from rig.native_anthropic_answers import (
    accumulated,
    assembled,
    events_of,
    meaning_of_completion,
    meaning_of_message,
    message_of,
)

from addon.apis.chat.request import parse_chat_request
from addon.dialects.anthropic.answer import AnthropicStream, to_completion
from addon.dialects.anthropic.request import to_request
from policies.family import Family
from policies.refusal import Refusal

FAMILY = Family("claude", extra=frozenset({"thinking", "top_k", "output_config", "reasoning_effort"}))
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
pytestmark = needs_corpus


@cache
def recordings():
    return read_recordings(("anthropic_messages", "bedrock_invoke_anthropic"))


def answers(*, stream):
    return [record for record in recordings() if record["stream"] is stream and record["status"] == 200]


def expected(message):
    meaning = meaning_of_message(message)
    meaning["finish_reason"] = FINISH_REASONS[meaning.pop("stop_reason")]
    return meaning


def test_every_recorded_whole_answer_means_what_the_sdk_reads():
    count = 0
    for record in answers(stream=False):
        answer = json.loads(record["response_text"])
        if "content" not in answer:  # the API of 2023, with a prompt in place of messages
            with pytest.raises(ValueError):
                to_completion(answer, "claude", 1)
            continue
        made = to_completion(answer, "claude", 1)
        assert meaning_of_completion(made) == expected(message_of(answer)), record["id"]
        count += 1
    assert count > 100


def test_every_recorded_stream_means_what_the_sdk_joins():
    count = 0
    for record in answers(stream=True):
        events = events_of(record["response_text"])
        if any(event["type"] == "error" for event in events):
            continue
        stream = AnthropicStream("claude", 1)
        chunks = [chunk for event in events for chunk in stream.read(event)]
        assert stream.is_closed
        made = assembled(chunks + stream.finish())
        assert meaning_of_completion(made) == expected(accumulated(events)), record["id"]
        assert (made["model"], made["created"]) == ("claude", 1)
        count += 1
    assert count > 50


def test_every_recorded_request_with_a_chat_form_keeps_its_meaning():
    unsaid = Counter()
    count = 0
    for record in recordings():
        native = record["request"]
        if record["api"] != "anthropic_messages" or not native or record["status"] == 400:
            continue
        try:
            chat = chat_request_of(native)
        except NotInChatError as error:
            unsaid[str(error).split(",")[0]] += 1
            continue
        made = to_request(chat, FAMILY)
        check_request(made)
        assert meaning_of_request(made) == meaning_of_request(native), record["id"]
        count += 1
    assert count > 150
    assert sum(unsaid.values()) < 30, unsaid


def test_no_request_causes_a_recorded_400():
    asked = {record["id"][-16:]: record["request"] for record in recordings() if record["status"] == 400}
    made = to_request(chat_request_of(asked["8d383faa650dc97c"]), FAMILY)
    check_request(made)
    assert '"minimum":' not in json.dumps(made["output_config"])
    with pytest.raises(Refusal) as caught:  # a schema of parameters whose type is not object
        to_request(chat_request_of(asked["1a8658d923f9aaf6"]), FAMILY)
    assert caught.value.param == "tools.0.function.parameters"
    greedy = dict(asked["31ab924aba011331"])
    assert greedy["thinking"]["budget_tokens"] == greedy["max_tokens"]
    del greedy["tools"], greedy["tool_choice"]  # a search that the provider runs itself
    assert "thinking" not in to_request(chat_request_of(greedy), FAMILY)


@large
def test_every_recorded_chat_request_fits_the_sdks_types_or_is_refused():
    taken, refused = 0, Counter()
    for record in read_recordings(("openai_chat",))[:: sized(6, 1)]:
        try:
            chat = parse_chat_request(json.dumps(record["request"]).encode())
        except Refusal:
            continue  # the gateway's own checks come first
        try:
            made = to_request({"model": "m", "max_tokens": 9, **chat.fields}, FAMILY)
        except Refusal as refusal:
            refused[refusal.code, refusal.param] += 1
        else:
            check_request(made)
            taken += 1
    assert taken > sized(200, 1_300)
    assert sum(refused.values()) < 20, refused
    assert all(code == "validation_failed" and field for code, field in refused)

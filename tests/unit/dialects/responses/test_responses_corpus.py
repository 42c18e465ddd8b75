"""Recorded answers and requests of the Responses API keep the meaning that OpenAI's SDK reads."""

import json

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter
from rig.corpus import needs_corpus, read_corpus
from rig.large import large, sized
from rig.native_responses_answers import (
    assembled,
    events_of,
    meaning_of_completion,
    meaning_of_response,
    response_of,
)
from rig.vendors.openai_responses import OPENAI_RESPONSES
from rig.vendors.rules import refusal

from addon.answers.context import AnswerContext
from addon.apis.chat.request import parse_chat_request
from addon.dialects.responses.answer import to_completion
from addon.dialects.responses.request import to_request
from addon.dialects.responses.stream import ResponsesStream
from policies.family import Family
from policies.refusal import Refusal

FAMILY = Family("tested", extra=frozenset({"reasoning_effort"})).over_responses
REQUEST = TypeAdapter(ResponseCreateParamsNonStreaming)
UNENDED = {"queued", "in_progress", "failed", "cancelled"}
# A stream without its end, or of two answers.
NO_STREAMS = {"error", "response.failed", "response.queued"}
# What these recordings' authors changed, so that their pieces are no longer the whole.
REWRITTEN = "delta_done_mismatch"
SAMPLE = sized(6, 1)
pytestmark = [needs_corpus, large]


def recordings():
    return read_corpus("openai_responses")[::SAMPLE]


def test_every_recorded_whole_answer_means_what_the_sdk_reads():
    count = 0
    for record in recordings():
        if record["stream"] or record["status"] != 200:
            continue
        answer = json.loads(record["response_text"])
        if answer.get("status") in UNENDED:
            with pytest.raises(ValueError):
                to_completion(answer, "slug", 1)
            continue
        made = to_completion(answer, "slug", 1)
        assert meaning_of_completion(made) == meaning_of_response(answer), record["id"]
        count += 1
    assert count > 400 // SAMPLE


def test_every_recorded_stream_means_what_its_end_says():
    count = 0
    for record in recordings():
        if not record["stream"] or record["status"] != 200 or REWRITTEN in record["tags"]:
            continue
        events = events_of(record["response_text"])
        if not NO_STREAMS.isdisjoint(event["type"] for event in events):
            continue
        stream = ResponsesStream(AnswerContext("slug", FAMILY, created_s=1, answer_id="chatcmpl-0"))
        chunks = []
        for event in events:
            chunks += [] if stream.is_closed else stream.read(event)
        assert stream.is_closed, record["id"]
        made = assembled(chunks + stream.finish())
        expected = meaning_of_response(response_of(events))
        got = meaning_of_completion(made) | {"tier": expected["tier"]}
        if record["fidelity"] == "normalized":  # The recorder numbered the ids.
            got["id"] = expected["id"]
        assert got == expected, record["id"]
        if expected["tier"]:
            assert stream.priced.service_tier == expected["tier"], record["id"]
        count += 1
    assert count > 200 // SAMPLE


def test_every_recorded_chat_request_is_taken_or_refused_by_name():
    taken, refused = 0, []
    for record in read_corpus("openai_chat")[::SAMPLE]:
        try:
            chat = parse_chat_request(json.dumps(record["request"]).encode())
        except Refusal:
            continue  # the gateway's own checks come first
        try:
            made = to_request({"model": "m", "max_tokens": 9, **chat.fields}, FAMILY)
        except Refusal as refusal_:
            refused.append((refusal_.code, refusal_.param))
            continue
        taken += 1
        json.dumps(made)
        assert made["store"] is False and "messages" not in made
        found = refusal(OPENAI_RESPONSES, "/v1/responses", json.dumps({**made, "model": "gpt-4.1"}).encode())
        if found and not _is_of_the_conversation(found[1]["error"]):
            raise AssertionError((record["id"], found))
    assert taken > 1_300 // SAMPLE
    assert len(refused) < 40, refused
    assert all(code == "validation_failed" and field for code, field in refused)


CONVERSATIONS = (
    "No tool output found",
    "No tool call found",
    "Invalid schema",
    "must contain the word",
    "text.format.name",
    "Tool choice must",
    "does not match pattern",
    "string too long",
)


def _is_of_the_conversation(error):
    """Return whether OpenAI refuses the client's own conversation, in both of its APIs."""
    return any(words in error["message"] for words in CONVERSATIONS)

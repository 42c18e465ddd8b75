"""The strict vendor of the Responses API: it takes what was recorded with 200, and words errors as recorded."""

import json
import re

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from rig.corpus import needs_corpus, read_corpus
from rig.native_responses import (
    custom_call,
    events,
    failed,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
)
from rig.vendors.openai_responses import OPENAI_RESPONSES
from rig.vendors.rules import refusal

EVENT = TypeAdapter(ResponseStreamEvent)
ANSWERS = [
    response(reasoning("Hm.", "Well."), message("Grüße")),
    response(reasoning(), function_call("f", {"a": 1}), function_call("g", call_id="call_2")),
    response(message("I look."), custom_call("patch", "*** Begin")),
    response(message(refusal="No.")),
    incomplete(reasoning("Hm."), message("Gr")),
]
GRAMMAR = re.compile(
    r"created in_progress (output_item.added"
    r"( content_part.added( output_text.delta)* output_text.done content_part.done"
    r"| content_part.added( refusal.delta)* refusal.done content_part.done"
    r"| reasoning_summary_part.added( reasoning_summary_text.delta)* reasoning_summary_text.done"
    r" reasoning_summary_part.done"
    r"| function_call_arguments.delta( function_call_arguments.delta)* function_call_arguments.done"
    r"| custom_tool_call_input.delta( custom_tool_call_input.delta)* custom_tool_call_input.done)*"
    r" output_item.done )*(completed|incomplete|error failed)"
)
STORED = {"previous_response_id", "conversation", "prompt", "background"}
TAKEN_ONCE = ("<elided", '"function": {', "item_reference", '"max_output_tokens": 8')
"""What these lines refuse to be safe: tools in the shape of chat, and a cap that an older API took."""


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stream_is_one_of_the_api(answer):
    assert Response.model_validate(answer, strict=True).output
    made = events(answer)
    for event in made:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in made] == list(range(len(made)))
    assert GRAMMAR.fullmatch(" ".join(event["type"].removeprefix("response.") for event in made))
    assert made[-1]["response"] == answer


def test_a_failure_is_an_error_and_then_the_answer():
    assert [event["type"] for event in events(failed())][-2:] == ["error", "response.failed"]


def recorded(*, ok):
    for record in read_corpus("openai_responses"):
        asked = record["request"]
        if record["provider"] == "openai" and isinstance(asked, dict) and (record["status"] == 200) is ok:
            yield record, asked


@needs_corpus
def test_it_takes_what_openai_took():
    count = 0
    for record, asked in recorded(ok=True):
        text = json.dumps(asked)
        if STORED & asked.keys() or any(one in text for one in TAKEN_ONCE):
            continue
        found = refusal(OPENAI_RESPONSES, "/v1/responses", json.dumps(asked).encode())
        assert found is None, (record["id"], found)
        count += 1
    assert count > 200


@needs_corpus
@pytest.mark.parametrize(
    ("code", "param"),
    [
        ("integer_below_min_value", "max_output_tokens"),
        ("invalid_value", "input[1]"),
        ("invalid_value", "input[0].content[1].type"),
        ("previous_response_not_found", "previous_response_id"),
        ("invalid_function_parameters", "tools[0].parameters"),
    ],
)
def test_it_words_errors_as_openai_does(code, param):
    count = 0
    for record, asked in recorded(ok=False):
        error = json.loads(record["response_text"]).get("error") or {}
        if (error.get("code"), error.get("param")) == (code, param):
            found = refusal(OPENAI_RESPONSES, "/v1/responses", json.dumps(asked).encode())
            assert found is not None, record["id"]
            worded = found[1]["error"]
            assert (worded["code"], worded["param"]) == (code, param)
            count += 1
    assert count

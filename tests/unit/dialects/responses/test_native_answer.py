"""Whole answers of the Responses API on the native way."""

import json
from typing import Any

import pytest
from rig.native_responses import failed, function_call, incomplete, message, reasoning, response

from addon.answers.context import AnswerContext
from addon.answers.whole import Answer
from addon.dialects.responses.native_answer import item_chars, read_native
from policies.family import Family

CONTEXT = AnswerContext("house/slug", Family("plain"), {"gpt-vendor": "house/slug"})


def read(answer: dict[str, Any]) -> Answer:
    return read_native(json.dumps(answer).encode(), CONTEXT)


def test_all_bytes_stay_but_for_the_model():
    said = response(reasoning("Hm"), message("The model is gpt-vendor-2026-01-01."), function_call("f", {}))
    found = read(said)
    assert found.failure is None
    assert found.body == json.dumps({**said, "model": "house/slug"}).encode()
    assert found.finish_reason == "completed"
    assert found.text_chars == len("Hm" + "sealed" + "The model is gpt-vendor-2026-01-01." + "{}")


def test_an_incomplete_answer_says_why():
    assert read(incomplete(message("Hel"))).finish_reason == "max_output_tokens"
    assert read(incomplete(message("Hel"), reason="content_filter")).finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failed(text="The model failed."), "The model failed."),
        (response(status="cancelled"), "without a readable explanation"),
        (response(status="in_progress"), "it has not ended"),
        ({"object": "response"}, "it is not a response"),
        ({"choices": [{"message": {"content": "hi"}}]}, "it is not a response"),
        ({"error": {"message": "Overloaded", "code": "server_error"}}, "Overloaded"),
    ],
)
def test_what_is_no_answer_is_a_failure(answer: dict[str, Any], words: str):
    found = read(answer)
    assert found.failure is not None
    assert words in found.failure.message
    assert found.body == b""


@pytest.mark.parametrize("usage", [None, "many", {"input_tokens": "x"}, {}])
def test_counts_that_are_none_are_unknown(usage: Any):
    assert read(response(message("hi"), usage=usage)).usage is None


def test_a_model_that_lacks_is_inserted():
    said = response(message("hi"))
    del said["model"]
    assert json.loads(read(said).body)["model"] == "house/slug"


@pytest.mark.parametrize(
    ("item", "chars"),
    [
        (None, 0),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "no"}, None, {"text": 1}]}, 2),
        ({"type": "reasoning", "summary": [{"text": "ab"}], "content": None, "encrypted_content": "xyz"}, 5),
        ({"type": "local_shell_call", "action": {"a": 1}}, len('{"a": 1}')),
        ({"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]}, 3),
        ({"type": "image_generation_call", "result": "AAAA"}, 0),
    ],
)
def test_only_what_the_model_wrote_is_counted(item: Any, chars: int):
    assert item_chars(item) == chars

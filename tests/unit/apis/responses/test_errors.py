"""Errors of the Responses API: one object, or the last two events of a stream."""

import json

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from rig.response_events import ReadEvent, read_events
from rig.response_writing import SLUG, context

from addon.apis.responses.errors import advise, error_body, error_event
from addon.apis.writer import WriterContext
from addon.text.errors import ErrorAnswer

EVENT = TypeAdapter[object](ResponseStreamEvent)
FAILED = ErrorAnswer(502, "api_error", "upstream_error", "It broke.")


def events_of(error: ErrorAnswer, given: WriterContext | None, events_sent: int) -> list[ReadEvent]:
    events = read_events(error_event(error, "id-1", given, events_sent))
    for event in events:
        EVENT.validate_json(json.dumps(event), strict=True)
    return events


def test_the_body_is_the_object_of_the_contract() -> None:
    assert json.loads(error_body(FAILED, "id-1")) == {
        "error": {"message": "It broke.", "type": "api_error", "param": None, "code": "upstream_error"}
    }


def test_a_stream_ends_with_both_events() -> None:
    error, failed = events_of(FAILED, context(temperature=0.5), 7)
    assert (error["sequence_number"], failed["sequence_number"]) == (7, 8)
    said = {"code": "upstream_error", "message": "It broke.", "param": None}
    assert error["error"] == said | {"type": "api_error"}
    assert said.items() <= error.items()
    response = failed["response"]
    assert (failed["type"], response["status"], response["model"]) == ("response.failed", "failed", SLUG)
    assert response["error"] == {"code": "server_error", "message": "It broke."}
    assert (response["temperature"], response["output"], response["usage"]) == (0.5, [], None)


def test_a_stream_without_events_begins_first() -> None:
    events = events_of(FAILED, None, 0)
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == ["created", "in_progress", "error", "failed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limit_exceeded"), (402, "invalid_prompt"), (503, "server_error")]
)
def test_a_failed_response_has_a_code_of_openai(status: int, code: str) -> None:
    error = ErrorAnswer(status, "api_error", "some_code", "Why")
    assert events_of(error, context(), 1)[-1]["response"]["error"]["code"] == code


@pytest.mark.parametrize(
    ("wait_s", "should_retry", "advised"),
    [
        (None, None, (None, None)),
        (None, False, (None, False)),
        (60, True, (60, True)),
        (61, None, (None, False)),
        (2_000_000, True, (None, False)),
    ],
)
def test_no_client_is_told_to_wait_for_long(
    wait_s: int | None, should_retry: bool | None, advised: tuple[int | None, bool | None]
) -> None:
    error = advise(ErrorAnswer(402, "api_error", "payment_required", "Used up.", None, wait_s, should_retry))
    assert (error.retry_after_s, error.should_retry) == advised

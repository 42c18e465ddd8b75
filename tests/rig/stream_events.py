"""The events of a streamed answer that was read as a whole."""

import json
from typing import Any

import httpx


def events_of(answer: httpx.Response) -> list[Any]:
    """Check the framing of a stream. Return its payloads, with ``[DONE]`` as text."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "\r" not in answer.text
    *events, rest = answer.text.split("\n\n")
    assert rest == ""
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    payloads = [event.removeprefix("data: ") for event in events]
    return [payload if payload == "[DONE]" else json.loads(payload) for payload in payloads]

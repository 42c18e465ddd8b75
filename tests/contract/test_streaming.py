"""Contract, "Streaming chunk" and the streamed answer of POST /v1/chat/completions, event by event."""

from typing import Any

import httpx
import pytest
from conftest import Chat
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.scripts import DONE, USAGE, Script, chunk, chunked, completion, event, until_close, whole
from rig.stream_events import events_of
from rig.upstream import Upstream

SLUG = "tester-large"


def framed(*chunks: dict[str, Any]) -> list[Any]:
    """Return the chunks as the gateway sends them: only the model is replaced."""
    return [*(made | {"model": SLUG} for made in chunks), "[DONE]"]


def test_a_stream_is_data_lines_that_end_with_done(chat: Chat, upstream: Upstream) -> None:
    answer = chat(model=SLUG, stream=True)
    assert events_of(answer) == framed(chunk("hel"), chunk("lo"), chunk(finish="stop", usage=USAGE))
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.headers["x-request-id"]
    assert "x-gateway-fallback" not in answer.headers
    assert "content-length" not in answer.headers


ASKED = {"include_usage": True}


def test_a_client_that_asked_for_usage_gets_it_in_a_last_chunk_without_a_choice(
    chat: Chat, upstream: Upstream
) -> None:
    answer = chat(model=SLUG, stream=True, stream_options=ASKED)
    expected = [chunk("hel"), chunk("lo"), chunk(finish="stop"), chunk(usage=USAGE)]
    assert events_of(answer) == framed(*expected)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("options", [1, [], "on", {"include_usage": "yes"}, {"include_usage": 1}])
def test_stream_options_are_validated(chat: Chat, upstream: Upstream, options: object, stream: bool) -> None:
    answer = chat(stream=stream, stream_options=options)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"].split(".")[0]) == ("validation_failed", "stream_options")
    assert upstream.requests == []


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"include_usage": False}])
def test_usage_without_a_request_for_it_comes_with_a_choice(
    chat: Chat, upstream: Upstream, options: object
) -> None:
    *chunks, _ = events_of(chat(stream=True, stream_options=options))
    assert all(made["choices"] for made in chunks)
    assert [made.get("usage") for made in chunks] == [None, None, USAGE]


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
CHUNKS: dict[str, list[dict[str, Any]]] = {
    "a role first": [chunk(role="assistant", content=""), chunk("hi"), chunk(finish="stop")],
    "tool call fragments": [
        chunk(role="assistant", content=None, tool_calls=[CALL]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"city":'}}]),
        chunk(tool_calls=[CALL | {"index": 1, "id": "call_2"}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '"Oslo"}'}}]),
        chunk(finish="tool_calls"),
    ],
    "reasoning": [chunk(reasoning_content="Let me think."), chunk("hi"), chunk(finish="stop")],
    "length": [chunk("hi"), chunk(finish="length")],
    "finish_reason with content": [chunk("hi", finish="stop")],
    "usage with choices": [chunk("hi"), chunk(finish="stop", usage=USAGE)],
    "usage in every chunk": [
        chunk("h", usage=USAGE),
        chunk("i", usage=USAGE),
        chunk(finish="stop", usage=USAGE),
    ],
    "usage null until the end": [chunk("hi") | {"usage": None}, chunk(finish="stop"), chunk(usage=USAGE)],
    "no usage at all": [chunk("hi"), chunk(finish="stop")],
    "a first chunk without choices": [
        {
            "id": "",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "",
            "choices": [],
            "prompt_filter_results": [],
        },
        chunk("hi"),
        chunk(finish="stop"),
    ],
    "unknown keys": [
        chunk("hi") | {"obfuscation": "xyz", "service_tier": None, "p": "ab"},
        chunk(finish="stop"),
    ],
    "logprobs": [
        chunk("hi")
        | {
            "choices": [
                {"index": 0, "delta": {"content": "hi"}, "logprobs": {"content": [{"logprob": -1e-05}]}}
            ]
        },
        chunk(finish="stop"),
    ],
    "two choices": [
        chunk("a"),
        chunk("b") | {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": None}]},
        chunk(finish="stop"),
    ],
    "a model that changes": [
        chunk("a", model="one"),
        chunk("b", model="two"),
        chunk(finish="stop", model=""),
    ],
    "the word model inside": [
        chunk('{"model": "vendor"}'),
        chunk(finish="stop") | {"x": {"model": "vendor"}},
    ],
}


SENT = {
    "finish_reason with content": [chunk("hi"), chunk(finish="stop")],
    "usage in every chunk": [
        chunk("h") | {"usage": None},
        chunk("i") | {"usage": None},
        chunk(finish="stop", usage=USAGE),
    ],
    "usage null until the end": [chunk("hi") | {"usage": None}, chunk(finish="stop", usage=USAGE)],
    "a first chunk without choices": [chunk("hi") | {"prompt_filter_results": []}, chunk(finish="stop")],
}
"""The events that the client gets for each order of usage, end and events without a choice."""


@pytest.mark.parametrize("name", CHUNKS)
def test_each_chunk_has_the_slug_and_is_otherwise_unchanged(
    chat: Chat, upstream: Upstream, name: str
) -> None:
    upstream.behave(chunked(*(event(made) for made in CHUNKS[name]), DONE))
    expected = SENT.get(name, CHUNKS[name])
    assert events_of(chat(model=SLUG, stream=True, n=2)) == framed(*expected)


def test_only_the_bytes_of_the_model_change(chat: Chat, upstream: Upstream) -> None:
    sent = (
        b'data: {"id":"1",  "model" : "vendor","created":1e0,"object":"chat.completion.chunk" ,'
        b'"choices":[{"index":0,"delta":{"content":"\\u00e9\xc3\xa9"}}]}\n\n'
        b'data: {"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":1.250e-05,"big":12345678901234567890123},'
        b'"id":"1","object":"chat.completion.chunk","created":1,"model":"vendor",'
        b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    upstream.behave(chunked(sent))
    answer = chat(model=SLUG, stream=True)
    assert answer.content == sent.replace(b'"vendor"', b'"tester-large"')


@pytest.mark.parametrize("usage", [USAGE, USAGE | {"prompt_tokens_details": {"cached_tokens": 4}}, {}])
def test_the_usage_of_a_stream_is_the_providers(
    chat: Chat, upstream: Upstream, usage: dict[str, Any]
) -> None:
    upstream.behave(chunked(event(chunk("hi")), event(chunk(finish="stop")), event(chunk(usage=usage)), DONE))
    *_, last, done = events_of(chat(stream=True))
    assert (last["usage"], done) == (usage, "[DONE]")


WITHOUT_DONE: dict[str, Script] = {
    "chunks end": chunked(event(chunk("hi")), event(chunk(finish="stop"))),
    "the connection closes": until_close(event(chunk("hi")), event(chunk(finish="stop"))),
    "the last newline is missing": chunked(event(chunk("hi")), event(chunk(finish="stop")).rstrip(b"\n")),
    "done without a last newline": chunked(event(chunk("hi")), event(chunk(finish="stop")), b"data: [DONE]"),
    "done twice": chunked(event(chunk("hi")), event(chunk(finish="stop")), DONE, DONE),
    "something after done": chunked(event(chunk("hi")), event(chunk(finish="stop")), DONE, event(chunk("x"))),
}


@pytest.mark.parametrize("name", WITHOUT_DONE)
def test_every_successful_stream_ends_with_exactly_one_done(
    chat: Chat, upstream: Upstream, name: str
) -> None:
    upstream.behave(WITHOUT_DONE[name])
    answer = chat(model=SLUG, stream=True)
    events = events_of(answer)
    assert events == [chunk("hi") | {"model": SLUG}, chunk(finish="stop") | {"model": SLUG}, "[DONE]"]
    assert answer.text.endswith("\n\n")


def _error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of a stream: its last event, or the body if no stream began."""
    bearer = events_of(answer)[-1] if answer.status_code == 200 else answer.json()
    assert isinstance(bearer, dict), bearer
    error: dict[str, Any] = bearer["error"]
    return error


IN_STREAM_ERRORS: dict[str, bytes] = {
    "an error object": event({"error": {"message": "overloaded", "code": 503}}),
    "an error as text": event({"error": "overloaded"}),
    "an error event": b"event: error\n" + event({"error": {"message": "overloaded"}}),
    "an error with choices": event(chunk("") | {"error": {"message": "overloaded", "code": 502}}),
}


@pytest.mark.parametrize("after", [0, 1], ids=["at once", "after a chunk"])
@pytest.mark.parametrize("name", IN_STREAM_ERRORS)
def test_an_error_in_a_stream_is_normalized_and_ends_it_without_done(
    chat: Chat, gateway: Gateway, upstream: Upstream, name: str, after: int
) -> None:
    before = [event(chunk("hi"))] * after
    upstream.behave(chunked(*before, IN_STREAM_ERRORS[name], DONE))
    answer = chat(stream=True)
    error = _error_of(answer)
    assert set(error) == {"message", "type", "param", "code"}
    assert "overloaded" in error["message"]
    assert (error["type"], error["code"]) == ("api_error", "upstream_error")
    assert "[DONE]" not in answer.text
    assert answer.text.count('"error"') == 1
    assert gateway.wait_for_row(answer.headers["x-request-id"])["error_code"] == "upstream_error"


@pytest.mark.parametrize("after", [0, 1], ids=["at once", "after a chunk"])
def test_an_error_in_a_stream_shows_no_key_and_no_upstream_model_id(
    chat: Chat, upstream: Upstream, after: int
) -> None:
    said = {"error": {"message": f"{PROVIDER_KEY} may not use vendor/large-2026"}}
    upstream.behave(chunked(*[event(chunk("hi"))] * after, event(said)))
    answer = chat(model=SLUG, stream=True)
    assert SLUG in _error_of(answer)["message"]
    assert PROVIDER_KEY not in answer.text
    assert "vendor/large" not in answer.text


NOT_STREAMS: dict[str, Script] = {
    "an error as JSON": whole({"code": "x", "error": "overloaded"}),
    "HTML": whole(b"<html>overloaded</html>", content_type="text/html"),
    "nothing at all": whole(b"", content_type="text/event-stream"),
    "an empty JSON object": whole({}),
}


@pytest.mark.parametrize("name", NOT_STREAMS)
def test_a_200_that_is_no_stream_is_an_upstream_error(chat: Chat, upstream: Upstream, name: str) -> None:
    upstream.behave(NOT_STREAMS[name])
    answer = chat(stream=True)
    error = _error_of(answer)
    assert (error["type"], error["code"]) == ("api_error", "upstream_error")
    assert "[DONE]" not in answer.text
    assert "<" not in error["message"]


@pytest.mark.parametrize(
    "kind", ["text/event-stream", "text/event-stream;charset=UTF-8", "application/octet-stream", None]
)
def test_a_stream_is_recognized_without_its_content_type(
    chat: Chat, upstream: Upstream, kind: str | None
) -> None:
    upstream.behave(chunked(event(chunk("hi")), event(chunk(finish="stop")), DONE, content_type=kind))
    assert events_of(chat(stream=True))[-1] == "[DONE]"


def test_a_stream_row_has_the_usage_and_the_finish_reason(
    chat: Chat, gateway: Gateway, upstream: Upstream
) -> None:
    usage = USAGE | {"completion_tokens_details": {"reasoning_tokens": 1}}
    upstream.behave(chunked(event(chunk("hi")), event(chunk(finish="length", usage=usage)), DONE))
    row = gateway.wait_for_row(chat(stream=True).headers["x-request-id"])
    counts = [row[f"{name}_tokens"] for name in ("prompt", "completion", "total", "cached", "reasoning")]
    assert counts == [9, 2, 11, None, 1]
    assert (row["stream"], row["status"], row["finish_reason"], row["usage_source"]) == (
        1,
        200,
        "length",
        "provider",
    )


def test_a_whole_completion_in_place_of_a_stream_is_streamed(chat: Chat, upstream: Upstream) -> None:
    upstream.behave(whole(completion()))
    made, done = events_of(chat(model=SLUG, stream=True))
    assert (made["object"], made["model"], done) == ("chat.completion.chunk", SLUG, "[DONE]")
    (choice,) = completion()["choices"]
    (streamed,) = made["choices"]
    assert (streamed["delta"], streamed["finish_reason"]) == (choice["message"], choice["finish_reason"])
    assert made["usage"] == completion()["usage"]

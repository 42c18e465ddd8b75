"""The head of an answer decides how the answer is read, and is noted in its attempt."""

import gzip
import json
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rig.call_stages import ANSWER, call_at, make_dependencies
from rig.configuration import Configuration, model, provider, workspace

from addon.calls.answer_reader import open_reader
from addon.calls.call_state import Call
from addon.settings.settings import Settings, load_settings
from addon.text.http_heads import Headers, ResponseHead
from policies.call_stages import Stage

KEY = f"tg_{'reader':0<40}"
SECRET = "fake-secret-of-the-provider-0123456789"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "vendor/model-2026",
    "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": None}],
}
EVENT = f"data: {json.dumps(CHUNK)}\n\n".encode()
WHOLE = json.dumps(ANSWER).encode()
ERROR = json.dumps({"error": {"message": "slow down", "type": "requests"}}).encode()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": model()},
        workspaces={"acme": workspace(("ci", KEY, True))},
        sections={"upstream": {"max_response_bytes": 2_000}},
    ).write(tmp_path_factory.mktemp("answer-reader"))
    return load_settings(written, {"TEST_PROVIDER_KEY": SECRET})


@pytest.fixture
async def dispatched(settings: Settings, tmp_path: Path):
    """A function that returns a call whose attempt is dispatched."""
    deps = make_dependencies(settings, tmp_path / "tollgate.db")
    calls: list[Call] = []

    async def make(**fields: Any) -> Call:
        calls.append(await call_at(Stage.DISPATCHED, deps, KEY, **fields))
        return calls[-1]

    yield make
    for call in calls:
        await deps.in_flight.abandon(call)
    await deps.in_flight.close()
    await deps.pool.close()
    await deps.store.close()


def head(status: int = 200, **fields: str) -> ResponseHead:
    return ResponseHead(status, Headers((name.replace("_", "-"), value) for name, value in fields.items()))


async def test_the_attempt_has_what_the_head_says(dispatched: Any) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(429, retry_after="7"), NOW)
    assert call.attempt.reader is reader
    assert (call.attempt.status, call.attempt.retry_after) == (429, "7")
    assert call.attempt.advice.after_s == 7


@pytest.mark.parametrize("encoding", [{}, {"content_encoding": "identity"}, {"content_encoding": "Identity"}])
async def test_a_success_of_a_whole_call_is_read_as_one_answer(
    dispatched: Any, encoding: dict[str, str]
) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(**encoding), NOW)
    assert reader.feed(WHOLE) == b""
    assert json.loads(reader.finish())["model"] == "m"
    assert (reader.failure, reader.finish_reason) == (None, "stop")


async def test_a_success_of_a_streamed_call_is_read_as_events(dispatched: Any) -> None:
    call = await dispatched(stream=True)
    reader = open_reader(call, call.attempt, head(), NOW)
    event = reader.feed(EVENT)
    assert event.startswith(b"data: {")
    assert json.loads(event.removeprefix(b"data: "))["model"] == "m"


@pytest.mark.parametrize(("choices", "index"), [(1, 0), (2, 1)])
async def test_the_index_of_the_only_choice_that_was_asked_for_is_zero(
    dispatched: Any, choices: int, index: int
) -> None:
    call = await dispatched(stream=True, n=choices)
    event = EVENT.replace(b'"index": 0', b'"index": 1')
    relayed = open_reader(call, call.attempt, head(), NOW).feed(event)
    assert [one["index"] for one in json.loads(relayed.removeprefix(b"data: "))["choices"]] == [index]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [199, 300, 404, 429, 500])
async def test_any_other_status_is_read_as_an_error(dispatched: Any, stream: bool, status: int) -> None:
    call = await dispatched(stream=stream)
    reader = open_reader(call, call.attempt, head(status), NOW)
    assert (reader.feed(ERROR), reader.finish()) == (b"", b"")
    assert reader.failure
    assert reader.failure.status == (status if status >= 400 else 502)


@pytest.mark.parametrize("status", [199, 300])
async def test_an_answer_with_any_other_status_is_none(dispatched: Any, status: int) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(status), NOW)
    assert (reader.feed(WHOLE), reader.finish()) == (b"", b"")
    assert reader.failure


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress)]
)
async def test_a_compressed_answer_is_inflated_though_it_was_not_asked_for(
    dispatched: Any, encoding: str, compress: Any
) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(content_encoding=encoding), NOW)
    assert reader.feed(compress(WHOLE)) == b""
    assert json.loads(reader.finish())["model"] == "m"


async def test_an_answer_in_an_unknown_encoding_is_an_error_before_its_first_byte(dispatched: Any) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(content_encoding="br"), NOW)
    assert reader.failure
    assert "compressed" in reader.failure.message


async def test_an_error_in_an_unknown_encoding_keeps_its_status(dispatched: Any) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(429, content_encoding="br"), NOW)
    assert reader.failure
    assert reader.failure.status == 429


async def test_a_whole_answer_has_the_bound_of_the_settings(dispatched: Any) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(), NOW)
    reader.feed(b" " * 2_001)
    assert reader.failure
    assert "too large" in reader.failure.message


async def test_the_key_of_the_attempt_is_in_no_answer(dispatched: Any) -> None:
    call = await dispatched()
    reader = open_reader(call, call.attempt, head(), NOW)
    reader.feed(json.dumps(ANSWER | {"note": f"called with {SECRET}"}).encode())
    assert SECRET.encode() not in reader.finish()

"""A guarded reader never shows the key of its call."""

import json
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import pytest
from rig.python_calls import count_calls
from rig.scripts import USAGE, chunk, event

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.error import ErrorAnswerReader
from addon.answers.guarded_reader import GuardedReader
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.dialects import DIALECTS, openai
from addon.telemetry.log_format import JsonFormatter
from policies.family import Family

SOURCE = AnswerContext("slug", Family("plain"))


KEY = "Zq7Rk2XwP9tLmB4vNs8"


EVENT = (
    'data: {"id":"%s","object":"chat.completion.chunk","created":1,'
    '"choices":[{"index":0,"delta":{"content":"%s"}}],"model":"slug"}\n\n: %s\n\n'
)


def relayed(secret: str, text: str, cut: int) -> str:
    reader = GuardedReader(StreamedAnswerReader(ChatChunks(SOURCE), SOURCE), (secret,))
    raw = (EVENT % (text, text, text)).encode()
    return (reader.feed(raw[:cut]) + reader.feed(raw[cut:])).decode()


def test_no_cut_of_an_answer_shows_the_key_of_its_call() -> None:
    masked = EVENT % ("***", "***", "***")
    assert {relayed(KEY, KEY, cut) for cut in range(len(EVENT) + 40)} == {masked}


@pytest.mark.parametrize("word", ["ollama", "EMPTY", "not-needed", "sk-no-key-required", "key-1"])
def test_a_placeholder_key_is_not_masked(word: str) -> None:
    assert relayed(word, word, 50) == EVENT % (word, word, word)


def raising_reader(step: str, error: Exception) -> AnswerReader:
    """Return a reader whose method ``step`` raises."""

    def fail(*_given: object) -> NoReturn:
        raise error

    inner = ErrorAnswerReader(500, SOURCE) if step == "error_so_far" else openai.whole(SOURCE, 10**6)
    setattr(inner, step, fail)
    return inner


@pytest.mark.parametrize("error", [KeyError, TypeError, IndexError, RecursionError, AssertionError])
@pytest.mark.parametrize("step", ["feed", "finish", "flush_pending", "error_so_far"])
def test_what_a_reader_raises_is_an_unreadable_answer(
    step: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    reader = GuardedReader(raising_reader(step, error(KEY)), (KEY,))
    steps: list[Callable[[], object]] = [
        partial(reader.feed, b"x"),
        reader.flush_pending,
        reader.error_so_far,
        reader.finish,
    ]
    for do in [*steps, *steps]:
        do()
    assert reader.failure is not None
    assert (reader.failure.status, reader.failure.code) == (502, "upstream_error")
    (record,) = caplog.records
    assert record.exc_info
    line = JsonFormatter().format(record)
    assert error.__name__ in line
    assert KEY not in line


MAX_WHOLE_CALLS = 30
MAX_CHUNK_CALLS = 8
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "up",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hello", "refusal": None},
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}


def test_a_plain_whole_answer_takes_few_functions() -> None:
    body, made = json.dumps(ANSWER).encode(), []

    def read() -> None:
        reader = GuardedReader(DIALECTS["openai"].whole(SOURCE, 10**6), (KEY,))
        made.append((reader.feed(body), reader.has_pending, reader.is_done, reader.finish(), reader.failure))

    read()
    assert count_calls(read) <= MAX_WHOLE_CALLS
    assert json.loads(made[-1][3]) == ANSWER | {"model": "slug"}


def test_a_chunk_like_the_last_one_takes_few_functions() -> None:
    reader = GuardedReader(DIALECTS["openai"].stream(SOURCE), (KEY,))
    for text in ("one", "two", "three"):
        reader.feed(event(chunk(text)))
    relayed = []

    def read() -> None:
        relayed.append(reader.feed(event_of_four))
        assert not (reader.has_pending or reader.is_done or reader.failure)

    event_of_four = event(chunk("four"))
    assert count_calls(read) <= MAX_CHUNK_CALLS
    assert b'"four"' in relayed[0]

"""Error answers are read alike however the network cut them, and no answer shows the key that it was asked with."""

import pytest

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.error import ErrorAnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.wrappers import GuardedReader
from addon.text.provider_error import MAX_READ_BYTES
from policies.family import Family

SOURCE = AnswerContext("slug", Family("plain"))

SENTENCE = "The prompt is too long."


def error_body(length: int) -> bytes:
    """An error of ``length`` bytes."""
    body = b'{"error": {"message": "%s"}, "padding": ""}' % SENTENCE.encode()
    return body[:-2] + b"x" * (length - len(body)) + body[-2:]


def message(body: bytes, first_piece: int) -> str:
    relay = ErrorAnswerReader(400, SOURCE)
    assert relay.feed(body[:first_piece]) + relay.feed(body[first_piece:]) + relay.finish() == b""
    assert relay.failure is not None
    return relay.failure.message


CUTS = pytest.mark.parametrize("first_piece", [0, 1, MAX_READ_BYTES - 1, MAX_READ_BYTES])


@CUTS
def test_an_error_body_of_the_largest_size_is_read(first_piece: int) -> None:
    assert message(error_body(MAX_READ_BYTES), first_piece) == SENTENCE


@CUTS
def test_a_larger_error_body_is_not_read(first_piece: int) -> None:
    assert "without a readable explanation" in message(error_body(MAX_READ_BYTES + 1), first_piece)


def test_the_kept_part_of_an_error_body_is_bounded() -> None:
    relay = ErrorAnswerReader(400, SOURCE)
    for _ in range(10):
        relay.feed(b"x" * MAX_READ_BYTES)
    assert len(relay.body) <= 2 * MAX_READ_BYTES


KEY = "Zq7Rk2XwP9tLmB4vNs8"
EVENT = (
    'data: {"id":"%s","object":"chat.completion.chunk","created":1,'
    '"choices":[{"index":0,"delta":{"content":"%s"}}],"model":"slug"}\n\n: %s\n\n'
)


def relayed(secret: str, text: str, cut: int) -> str:
    relay = GuardedReader(StreamedAnswerReader(ChatChunks(SOURCE), SOURCE), (secret,))
    raw = (EVENT % (text, text, text)).encode()
    return (relay.feed(raw[:cut]) + relay.feed(raw[cut:])).decode()


def test_no_cut_of_an_answer_shows_the_key_of_its_call() -> None:
    masked = EVENT % ("***", "***", "***")
    assert {relayed(KEY, KEY, cut) for cut in range(len(EVENT) + 40)} == {masked}


@pytest.mark.parametrize("word", ["ollama", "EMPTY", "not-needed", "sk-no-key-required", "key-1"])
def test_a_placeholder_key_is_not_masked(word: str) -> None:
    assert relayed(word, word, 50) == EVENT % (word, word, word)

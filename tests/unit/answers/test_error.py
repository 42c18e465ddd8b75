"""An error answer gives the same error for every way of cutting it into pieces, and its size is bounded."""

import pytest

from addon.answers.context import AnswerContext
from addon.answers.error import ErrorAnswerReader
from addon.text.provider_error import MAX_READ_BYTES
from policies.family import Family

SOURCE = AnswerContext("slug", Family("plain"))


SENTENCE = "The prompt is too long."


def error_body(length: int) -> bytes:
    """Return an error of ``length`` bytes."""
    body = b'{"error": {"message": "%s"}, "padding": ""}' % SENTENCE.encode()
    return body[:-2] + b"x" * (length - len(body)) + body[-2:]


def message(body: bytes, first_piece: int) -> str:
    reader = ErrorAnswerReader(400, SOURCE)
    assert reader.feed(body[:first_piece]) + reader.feed(body[first_piece:]) + reader.finish() == b""
    assert reader.failure is not None
    return reader.failure.message


CUTS = pytest.mark.parametrize("first_piece", [0, 1, MAX_READ_BYTES - 1, MAX_READ_BYTES])


@CUTS
def test_an_error_body_of_the_largest_size_is_read(first_piece: int) -> None:
    assert message(error_body(MAX_READ_BYTES), first_piece) == SENTENCE


@CUTS
def test_a_larger_error_body_is_not_read(first_piece: int) -> None:
    assert "without a readable explanation" in message(error_body(MAX_READ_BYTES + 1), first_piece)


def test_the_kept_part_of_an_error_body_is_bounded() -> None:
    reader = ErrorAnswerReader(400, SOURCE)
    for _ in range(10):
        reader.feed(b"x" * MAX_READ_BYTES)
    assert len(reader.body) <= 2 * MAX_READ_BYTES

"""What an error answer of an upstream is read as does not depend on how the network cut it."""

import pytest

from addon.relay import ErrorRelay
from addon.source import Source
from addon.upstream_message import MAX_READ_BYTES
from policies.facts import Family

SOURCE = Source("slug", Family("plain"))

SENTENCE = "The prompt is too long."


def error_body(length: int) -> bytes:
    """An error of ``length`` bytes."""
    body = b'{"error": {"message": "%s"}, "padding": ""}' % SENTENCE.encode()
    return body[:-2] + b"x" * (length - len(body)) + body[-2:]


def message(body: bytes, first_piece: int) -> str:
    relay = ErrorRelay(400, SOURCE)
    assert relay.feed(body[:first_piece]) + relay.feed(body[first_piece:]) + relay.finish() == b""
    assert relay.failure is not None
    return relay.failure.message


CUTS = pytest.mark.parametrize("first_piece", [0, 1, MAX_READ_BYTES - 1, MAX_READ_BYTES])


@CUTS
def test_an_error_body_of_the_largest_size_is_read(first_piece: int) -> None:
    assert message(error_body(MAX_READ_BYTES), first_piece) == SENTENCE


@CUTS
def test_an_error_body_of_one_byte_more_is_not(first_piece: int) -> None:
    assert "without a readable explanation" in message(error_body(MAX_READ_BYTES + 1), first_piece)


def test_no_more_is_kept_of_an_error_body_than_shows_that_it_is_too_long() -> None:
    relay = ErrorRelay(400, SOURCE)
    for _ in range(10):
        relay.feed(b"x" * MAX_READ_BYTES)
    assert len(relay.body) <= 2 * MAX_READ_BYTES

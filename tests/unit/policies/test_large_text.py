"""Long texts: the beginning is a string, and the rest is decoded only when it is read."""

from collections.abc import Iterator

import pytest

from policies.large_text import LargeText, TextCounts, TextRest, find_large_texts, first_chars, whole_text

MARK = "\ue000"
PIECES = ("a long", " text", " of three pieces")
WHOLE = "This is " + "".join(PIECES)


def large(read: list[str]) -> LargeText:
    """Return a long text that notes in ``read`` which pieces were decoded."""

    def pieces() -> Iterator[str]:
        for piece in PIECES:
            read.append(piece)
            yield piece

    counts = TextCounts(letters=len("".join(PIECES)), chars=len("".join(PIECES)))
    return LargeText.of("This is ", MARK, TextRest(counts, pieces))


def test_as_a_string_it_is_its_beginning_and_the_mark() -> None:
    read: list[str] = []
    assert large(read) == f"This is {MARK}"
    assert read == []


@pytest.mark.parametrize(
    ("chars", "decoded"), [(0, 0), (8, 0), (9, 1), (14, 1), (15, 2), (19, 2), (20, 3), (99, 3)]
)
def test_only_the_pieces_that_are_needed_are_decoded(chars: int, decoded: int) -> None:
    read: list[str] = []
    assert first_chars(large(read), chars) == WHOLE[:chars]
    assert read == list(PIECES[:decoded])


def test_the_whole_text_can_be_read_again() -> None:
    read: list[str] = []
    text = large(read)
    assert whole_text(text) == whole_text(text) == WHOLE
    assert whole_text("short") == "short"


def test_long_texts_are_found_at_any_depth() -> None:
    text = large([])
    value = {"messages": [{"content": text}, {"content": [{"text": "short"}, {"text": text}]}], "n": 1}
    assert [id(found) for found in find_large_texts(value)] == [id(text)] * 2


def test_counts_add_up() -> None:
    assert TextCounts(1, 2, 3, 4).plus(TextCounts(10, 20, 30, 40)) == TextCounts(11, 22, 33, 44)

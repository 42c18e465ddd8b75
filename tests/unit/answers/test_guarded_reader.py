"""A guarded reader never shows the key of its call."""

import pytest

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.guarded_reader import GuardedReader
from addon.answers.stream import StreamedAnswerReader
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

"""The embeddings API: its request as the rest of a call sees it."""

import json
from typing import Any

import pytest

from addon.apis.embeddings.api import parse
from addon.text.http_heads import Headers
from policies.estimate import estimate_native_tokens
from policies.family import Estimator, Family

BARE = Estimator(base_tokens=0)


def request(**body: Any) -> Any:
    return parse(json.dumps({"model": "m", **body}).encode(), Headers())


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("sql", ["sql"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], []),
        ([[1], [2]], []),
    ],
)
def test_texts_are_messages_that_no_rule_reads(given: Any, seen: list[str]) -> None:
    made = request(input=given, user="u", metadata={"team": "a"}, dimensions=None)
    assert made.fields == {"messages": [{"role": "input", "content": text} for text in seen]}
    assert (made.model, made.end_user, made.metadata, made.stream) == ("m", "u", {"team": "a"}, False)
    assert made.native.body == {"model": "m", "input": given, "user": "u", "metadata": {"team": "a"}}


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        # Each id of a token is one token.
        ([1, 22, 333], 3),
        ([[1, 2], [3]], 3),
        # 12 letters and blanks at 4 a token, and what a family adds to each message.
        (["four letters"], 3 + BARE.tokens_per_message),
        (["four letters"] * 2, 2 * (3 + BARE.tokens_per_message)),
        ("four letters", 3),
    ],
)
def test_the_estimate_counts_texts_and_tokens(given: Any, tokens: int) -> None:
    assert estimate_native_tokens({"model": "m", "input": given}, BARE) == tokens
    assert request(input=given).prompt_tokens(Family("f", estimator=BARE)) == tokens

"""The answer with embeddings: the slug as its model, and every other byte as it came."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from addon.answers.context import AnswerContext
from addon.dialects.openai_embeddings import read_embeddings
from policies.family import Family
from policies.usage import Usage

CONTEXT = AnswerContext("our-slug", Family("plain"))
VECTORS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4) | st.text(max_size=8)
OTHERS = st.dictionaries(
    st.text(max_size=6).filter(lambda name: name not in ("data", "usage", "error")),
    st.integers() | st.text(max_size=6),
)


@given(st.lists(VECTORS, min_size=1, max_size=3), OTHERS)
def test_all_members_but_the_model_keep_their_values(vectors: list[Any], others: dict[str, Any]) -> None:
    sent = {**others, "data": [{"index": at, "embedding": one} for at, one in enumerate(vectors)]}
    answer = read_embeddings(json.dumps(sent).encode(), CONTEXT)
    assert answer.failure is None
    assert json.loads(answer.body) == {**sent, "model": "our-slug"}
    assert list(json.loads(answer.body))[: len(sent)] == list(sent)
    assert answer.usage == Usage(completion_tokens=0)


@given(
    st.binary(max_size=40)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_what_holds_no_embedding_is_a_failure(body: bytes) -> None:
    answer = read_embeddings(body, CONTEXT)
    assert (answer.body, answer.failure is None) == (b"", False)


def test_the_counts_are_the_providers() -> None:
    body = b'{"data":[{"embedding":"AAAA"}],"usage":{"prompt_tokens":5,"total_tokens":"5"},"model":{"odd":1}}'
    answer = read_embeddings(body, CONTEXT)
    assert answer.usage == Usage(prompt_tokens=5, completion_tokens=0, total_tokens=5)
    assert answer.body == body.replace(b'{"odd":1}', b'"our-slug"')

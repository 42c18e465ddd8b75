"""Whatever JSON is at any place of an answer, its client gets an answer of the contract, or an upstream error."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.answer_samples import SAMPLES, Path, Sample
from rig.answer_shape import assert_completion, assert_stream
from rig.corpus import needs_corpus, read_recorded_file
from rig.large import sampled
from rig.replay import Run
from rig.sent import shipped_families

from addon.answers.context import AnswerContext
from addon.answers.error import ErrorAnswerReader
from addon.answers.reader import AnswerReader
from addon.dialects import DIALECTS
from addon.text.masking import recordable

SLUG = "house/slug"
MAX_RECORDED_CHARS = 20_000
KEY = "Zq7Rk2XwP9tLmB4vNs8"
TEXTS = (
    *("null", "5", "1e999", "NaN", "-Infinity", '""', '"x"', '"\\ud800"', "[]", "{}", "[null]"),
    *('[{"a": [1e999]}]', "[" * 90 + "]" * 90),
)
VALUES = [text.encode() for text in TEXTS]


def reader_of(sample: Sample, *, include_usage: bool = False) -> AnswerReader:
    context = AnswerContext(
        SLUG, shipped_families()[sample.family], secrets=(KEY,), created_s=1, include_usage=include_usage
    )
    dialect = DIALECTS[sample.dialect]
    return dialect.stream(context) if sample.streamed else dialect.whole(context, 1 << 20)


def check(sample: Sample, pieces: list[bytes], *, include_usage: bool = False) -> None:
    """Read an answer without the guard around its reader, so a fault of the reader fails the test."""
    reader = reader_of(sample, include_usage=include_usage)
    shown = b"".join([*map(reader.feed, pieces), reader.finish()])
    if reader.failure:
        assert reader.failure.type == "api_error" or reader.failure.status < 500
        assert reader.failure.code != "internal_error"
    if sample.streamed:
        assert_stream(shown, SLUG, is_whole=reader.failure is None, include_usage=include_usage)
    elif reader.failure is None:
        assert_completion(shown, SLUG)
    else:
        assert shown == b""
    (recordable(reader.finish_reason, (KEY,)) or "").encode()
    assert reader.relayed_text_chars >= 0
    assert reader.usage is None or all(type(count) in (int, type(None)) for count in _counts(reader.usage))
    assert reader.usage is None or isinstance(reader.usage.service_tier, str | None)


def _counts(usage: Any) -> list[Any]:
    return [getattr(usage, name) for name in usage.__struct_fields__ if name != "service_tier"]


@pytest.mark.parametrize("name", SAMPLES)
def test_an_unchanged_sample_is_an_answer(name: str) -> None:
    check(SAMPLES[name], SAMPLES[name].encode())
    reader = reader_of(SAMPLES[name])
    shown = b"".join([*map(reader.feed, SAMPLES[name].encode()), reader.finish()])
    assert reader.failure is None
    assert b"hello" in shown
    assert b"why" in shown


@sampled(every=2)
@pytest.mark.parametrize("name", SAMPLES)
def test_each_value_at_each_place_is_answered(name: str) -> None:
    sample, failures = SAMPLES[name], []
    for place in sample.places():
        for number, pieces in enumerate(sample.variants(place, VALUES)):
            try:
                check(sample, pieces)
            except Exception as failure:  # noqa: BLE001  (it is raised below, with all others)
                failure.add_note(f"{[*VALUES, 'nothing'][number]!r} at {place}")
                failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {name}", failures)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["text", "assistant", "tool_use", "thinking", "function", KEY, "\ud800", ""])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "type", "index", "id", "name", "function", "content", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
PLACES: list[tuple[str, tuple[int, Path]]] = [
    (name, place) for name, sample in SAMPLES.items() for place in sample.places()
]


@given(at=st.sampled_from(PLACES), value=JSON, cut=st.integers(1, 60), include_usage=st.booleans())
def test_any_value_at_any_place_is_answered(
    at: tuple[str, tuple[int, Path]], value: Any, cut: int, include_usage: bool
) -> None:
    name, place = at
    whole = b"".join(next(SAMPLES[name].variants(place, [json.dumps(value).encode()])))
    check(
        SAMPLES[name],
        [whole[start : start + cut] for start in range(0, len(whole), cut)],
        include_usage=include_usage,
    )


FILES = (
    *("openai.openai_chat", "mistral.openai_chat", "perplexity.openai_chat"),
    *("anthropic.anthropic_messages", "google.gemini_generate", "bedrock.bedrock_converse"),
)


@needs_corpus
@pytest.mark.parametrize("file", FILES)
def test_any_value_at_some_places_of_recorded_answers_is_answered(file: str) -> None:
    chosen, failures = random.Random(file), []
    runs = [Run(record) for record in read_recorded_file(f"{file}.jsonl")]
    answers = [run for run in runs if run.kind != "error" and len(run.text) < MAX_RECORDED_CHARS]
    for run in chosen.sample(answers, min(len(answers), 15)):
        sample = Sample(run.dialect, run.family, run.stream, tuple(run.payloads))
        for place in chosen.sample(list(sample.places()), 2):
            for value, pieces in zip([*VALUES, b""], sample.variants(place, VALUES), strict=False):
                try:
                    check(sample, pieces)
                except Exception as failure:  # noqa: BLE001  (it is raised below, with all others)
                    failure.add_note(f"{value!r} at {place} of {run.id}")
                    failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {file}", failures)


@given(
    error=st.dictionaries(st.sampled_from(["error", "message", "detail", "code", "errors"]), JSON, max_size=4)
)
def test_any_value_in_an_error_is_answered(error: dict[str, Any]) -> None:
    reader = ErrorAnswerReader(529, AnswerContext(SLUG, shipped_families()["vllm"], secrets=(KEY,)))
    assert reader.feed(json.dumps(error).encode()) == reader.finish() == b""
    assert reader.failure is not None
    assert reader.failure.code == "upstream_error"
    json.loads(reader.failure.body())

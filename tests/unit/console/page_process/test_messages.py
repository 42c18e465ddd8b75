"""Messages between the gateway and its process of pages: what is packed is what arrives."""

from datetime import UTC
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from addon.console.page_process.messages import ANSWER, HEAD, QUESTION, Answer, Question
from addon.console.sources import Live
from addon.telemetry.admin import Readiness
from addon.telemetry.metric_families import Sample

TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates, too, as JSON of a program may have them
MOMENTS = st.datetimes(timezones=st.just(UTC))
LIVES = st.builds(
    Live,
    readiness=st.builds(Readiness, st.booleans(), st.dictionaries(TEXTS, TEXTS, max_size=2)),
    gauges=st.dictionaries(
        TEXTS,
        st.lists(st.builds(Sample, st.dictionaries(TEXTS, TEXTS, max_size=2), st.floats(0, 1e12))),
        max_size=2,
    ),
    file_fault=st.none() | TEXTS,
    settings_age_s=st.floats(0, 1e9),
    files=st.dictionaries(TEXTS.map(Path), st.none() | MOMENTS, max_size=2),
)
QUESTIONS = st.builds(
    Question,
    number=st.integers(0),
    path=TEXTS,
    arguments=st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2),
    form=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    form_token=TEXTS,
    is_logged_in=st.booleans(),
    edit_obstacle=st.none() | TEXTS,
    asked_at=MOMENTS,
    live=LIVES,
)
ANSWERS = st.builds(
    Answer,
    number=st.integers(0),
    status=st.integers(200, 599),
    content_type=TEXTS,
    body=st.binary(max_size=50),
    message=st.none() | TEXTS,
    fault=st.none() | TEXTS,
)


def unpack(message: bytes) -> tuple[bytes, bytes, bytes]:
    kind, size, body_size = HEAD.unpack(message[: HEAD.size])
    content, body = message[HEAD.size :][:size], message[HEAD.size + size :]
    assert len(body) == body_size
    return kind, content, body


@given(QUESTIONS)
def test_a_question_arrives_as_it_was_asked(question: Question) -> None:
    kind, content, body = unpack(question.pack())
    assert (kind, body) == (QUESTION, b"")
    assert Question.parse(content) == question


@given(ANSWERS)
def test_an_answer_arrives_as_it_was_made(answer: Answer) -> None:
    kind, content, body = unpack(answer.pack())
    assert kind == ANSWER
    assert Answer.parse(content, body) == answer

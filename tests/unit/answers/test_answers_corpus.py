"""The readers read recorded answers of real providers: every byte counts, and any cut gives the same result.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from rig.configuration import ROOT
from rig.corpus import DIALECTS as APIS
from rig.corpus import FOLDER, needs_corpus, read_recorded_file, recorded_files
from rig.large import large, sized
from rig.readers import ReadChoice, client, difference
from rig.readers.events import event_texts
from rig.readers.frames import difference_of_frames
from rig.readers.plain import is_plain
from rig.replay import Run, cut_at, random_pieces
from rig.usage_table import expected

from addon.answers.assembled import AssembledAnswerReader
from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.whole import BILLING_NOTE
from addon.dialects import DIALECTS
from addon.settings.settings import load_settings
from policies.family import Family
from policies.usage import Usage

SLUG = "tollgate-slug/under-test"
MAX_BYTES = 1 << 26
CREATED_S = 1_760_000_000
DONE = b"data: [DONE]\n\n"


SAMPLE = sized(6, 1)
"""One recording of so many, the first of each file among them."""
pytestmark = large
each_file = pytest.mark.parametrize(
    "name", recorded_files(*APIS) if FOLDER else [pytest.param("", marks=needs_corpus, id="no-recordings")]
)
"""A test for each file, not for each recording: 2,500 tests take longer to collect than to run."""


def check_each(name: str, check: Callable[[Run], None], *, stream: bool) -> None:
    """Check every recorded success of a file. Raise all that fail, each with the id of its recording."""
    found = [Run(record) for record in read_recorded_file(name)]
    wanted = [run for run in found if run.stream is stream and run.status // 100 == 2][::SAMPLE]
    failures = []
    for run in wanted:
        try:
            check(run)
        except Exception as failure:  # noqa: BLE001  (it is raised below, with all others)
            failure.add_note(f"recording {run.id}")
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(wanted)} recordings of {name}", failures)


def in_standard_form(run: Run) -> bool:
    """Return whether only the model may change."""
    return run.dialect == "openai" and is_plain(run.payloads, stream=run.stream, think_tags=run.think_tags)


@cache
def families() -> dict[str, Family]:
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.write_text(f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "."\n', encoding="utf-8")
        return dict(load_settings(conf, {}).families)


def source(run: Run) -> AnswerContext:
    return AnswerContext(SLUG, families()[run.family], created_s=CREATED_S, choices=run.choices)


def relayed(run: Run, pieces: list[bytes]) -> tuple[bytes, AnswerReader]:
    dialect = DIALECTS[run.dialect]
    reader = dialect.stream(source(run)) if run.stream else dialect.whole(source(run), MAX_BYTES)
    return b"".join([*map(reader.feed, pieces), reader.finish()]), reader


def facts(reader: AnswerReader) -> tuple[Any, ...]:
    return reader.usage, reader.finish_reason, reader.relayed_text_chars, reader.failure, reader.is_done


def exact(text: bytes) -> Any:
    """Return JSON with objects as lists of pairs and numbers as text, so that every digit counts."""
    return json.loads(text.decode(), parse_int=str, parse_float=str, object_pairs_hook=list)


def assert_counted(run: Run, reader: AnswerReader) -> None:
    """Assert that the usage is the one that the recording reports, as docs/usage.md says."""
    meant, usage = expected(run), reader.usage
    if meant is None:
        # A stream may name its service tier and count nothing.
        assert usage is None or usage == Usage(service_tier=usage.service_tier)
        return
    assert usage is not None
    assert {name: getattr(usage, f"{name}_tokens") for name in meant.counts} == meant.counts


@each_file
def test_any_cut_of_a_recorded_stream_gives_the_same_result(name: str) -> None:
    check_each(name, assert_any_cut_gives_the_same, stream=True)


def assert_any_cut_gives_the_same(run: Run) -> None:
    body = run.text.encode()
    whole, reader = relayed(run, [body])
    recorded = cut_at(body, list(accumulate(run.record.get("chunk_lens") or [])))
    bytewise = [body[at : at + 1] for at in range(len(body))]
    for pieces in (random_pieces(body, run.id, count=400), recorded, bytewise):
        out, other = relayed(run, pieces)
        assert out == whole
        assert facts(other) == facts(reader)


@each_file
def test_a_recorded_stream_ends_well_unless_it_is_an_error_or_cut_short(name: str) -> None:
    check_each(name, assert_stream_ends_as_recorded, stream=True)


def assert_stream_ends_as_recorded(run: Run) -> None:
    body = run.text.encode()
    out, reader = relayed(run, [body])
    finished = "[DONE]" in run.text or any(choice.finish_reason for choice in recorded_choices(run))
    assert (reader.failure is None) == (run.kind == "stream" and finished), reader.failure
    assert reader.is_done == (reader.failure is None)
    if reader.failure is not None:
        return
    assert out.rstrip().endswith(DONE.rstrip())
    assert_counted(run, reader)
    if in_standard_form(run):
        assert_same_but_frames(run, out)


def recorded_choices(run: Run) -> list[ReadChoice]:
    return list(run.expected_answer().choices.values()) if run.kind == "stream" else []


def assert_same_but_frames(run: Run, out: bytes) -> None:
    """Assert that the frames are the contract's, with every digit of the provider's."""
    *frames, done, rest = out.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    chunks = [frame for frame in frames if not frame.startswith(b":")]
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in chunks)
    recorded = list(map(digits, event_texts(run.text)))
    assert difference_of_frames(recorded, [digits(chunk[6:]) for chunk in chunks], asked=False) is None


def digits(text: str | bytes) -> Any:
    return json.loads(text, parse_int=str, parse_float=str)


@each_file
def test_a_recorded_answer_is_read_as_a_whole(name: str) -> None:
    check_each(name, assert_read_as_a_whole, stream=False)


def assert_read_as_a_whole(run: Run) -> None:
    body = run.text.encode()
    out, reader = relayed(run, [body])
    assert (reader.failure is None) == (run.kind == "whole"), reader.failure
    if reader.failure is not None:
        assert out == b""
        return
    assert json.loads(out)["model"] == SLUG
    assert_counted(run, reader)
    if in_standard_form(run):
        assert_only_the_model_changed(body, out)


def assert_only_the_model_changed(body: bytes, out: bytes) -> None:
    before = [(key, SLUG if key == "model" else value) for key, value in exact(body)]
    after = [tuple(pair) for pair in exact(out)]
    if b'"model"' not in body:
        before.insert(0, ("model", SLUG))
    if BILLING_NOTE.encode() in out:
        assert_only_the_note_was_added(json.loads(body), json.loads(out))
        before, after = ([pair for pair in pairs if pair[0] != "choices"] for pairs in (before, after))
    assert after == before


def assert_only_the_note_was_added(before: Any, after: Any) -> None:
    assert before["usage"]["completion_tokens"] > 0
    for old, new in zip(before["choices"], after["choices"], strict=True):
        message = old["message"]
        assert not any(message.get(key) for key in ("content", "reasoning_content", "tool_calls"))
        assert new == {**old, "message": {**message, "reasoning_content": BILLING_NOTE}}


@each_file
def test_a_recorded_stream_makes_the_whole_answer_that_it_adds_up_to(name: str) -> None:
    check_each(name, assert_adds_up, stream=True)


def assert_adds_up(run: Run) -> None:
    body, context = run.text.encode(), source(run)
    relayed_stream, streamed = relayed(run, [body])
    reader = AssembledAnswerReader(DIALECTS[run.dialect].stream, context, MAX_BYTES)
    shown = b"".join(map(reader.feed, random_pieces(body, run.id, count=40))) + reader.finish()
    assert reader.failure == streamed.failure
    if reader.failure is not None:
        assert (shown, reader.usage) == (b"", None)
        return
    assert facts(reader) == facts(streamed)
    made = client.read_whole(ChatCompletion.construct(**json.loads(shown)))
    for choice in made.choices.values():
        choice.reasoning = "" if choice.reasoning == BILLING_NOTE else choice.reasoning
    assert difference(made, client.read_stream(client.chunks_in(relayed_stream))) is None

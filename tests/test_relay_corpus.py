"""Recorded answers of real providers through the readers alone: every byte counts, and no way of cutting matters.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
import re
from functools import cache
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rig.configuration import ROOT
from rig.corpus import DIALECTS as APIS
from rig.corpus import FOLDER, needs_corpus, read_corpus
from rig.readers import Told
from rig.readers.plain import is_plain
from rig.replay import Run, cut_at, random_pieces
from rig.usage_table import expected

from addon.answer import BILLING_NOTE
from addon.dialects import DIALECTS
from addon.relay import Relay
from addon.settings import load_settings
from addon.source import Source
from policies.facts import Family

SLUG = "tollgate-slug/under-test"
SLUG_JSON = json.dumps(SLUG).encode()
MAX_BYTES = 1 << 26
CREATED_S = 1_760_000_000
STRING = re.compile(rb'"[^"]*"')
MISSING_BLANK_LINE = re.compile(rb"data:[^\r\n]*(?:\r\n|\n|\r)data:")
DONE = b"data: [DONE]\n\n"


def runs(*, stream: bool) -> list[Any]:
    """Every recorded success as a parameter."""
    if not FOLDER:
        return [pytest.param({}, marks=needs_corpus, id="no-recordings")]
    found = [Run(record) for record in read_corpus(*APIS)]
    wanted = [run for run in found if run.stream is stream and run.status // 100 == 2]
    return [pytest.param(run, id=run.id) for run in wanted]


def in_standard_form(run: Run) -> bool:
    """Whether only the model may change."""
    return run.dialect == "openai" and is_plain(run.payloads, stream=run.stream, think_tags=run.think_tags)


@cache
def families() -> dict[str, Family]:
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.write_text(f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "."\n', encoding="utf-8")
        return dict(load_settings(conf, {}).families)


def source(run: Run) -> Source:
    return Source(SLUG, families()[run.family], created_s=CREATED_S, choices=run.choices)


def relayed(run: Run, pieces: list[bytes]) -> tuple[bytes, Relay]:
    dialect = DIALECTS[run.dialect]
    relay = dialect.stream(source(run)) if run.stream else dialect.whole(source(run), MAX_BYTES)
    return b"".join([*map(relay.feed, pieces), relay.finish()]), relay


def facts(relay: Relay) -> tuple[Any, ...]:
    return relay.usage, relay.finish_reason, relay.relayed_text_chars, relay.failure, relay.done


def exact(text: bytes) -> Any:
    """JSON with objects as lists of pairs and numbers as they are written, so that every digit counts."""
    return json.loads(text.decode(), parse_int=str, parse_float=str, object_pairs_hook=list)


def assert_counted(run: Run, relay: Relay) -> None:
    """What was read of the usage is what docs/usage.md says that the recording reports."""
    meant, usage = expected(run), relay.usage
    if meant is None:
        assert usage is None
        return
    assert usage is not None
    assert {name: getattr(usage, f"{name}_tokens") for name in meant.counts} == meant.counts


@pytest.mark.parametrize("run", runs(stream=True))
def test_a_recorded_stream_gives_the_same_however_it_is_cut(run: Run) -> None:
    body = run.text.encode()
    whole, relay = relayed(run, [body])
    recorded = cut_at(body, list(accumulate(run.record.get("chunk_lens") or [])))
    bytewise = [body[at : at + 1] for at in range(len(body))]
    for pieces in (random_pieces(body, run.id, count=400), recorded, bytewise):
        out, other = relayed(run, pieces)
        assert out == whole
        assert facts(other) == facts(relay)


@pytest.mark.parametrize("run", runs(stream=True))
def test_a_recorded_stream_ends_well_unless_it_is_an_error_or_was_cut(run: Run) -> None:
    body = run.text.encode()
    out, relay = relayed(run, [body])
    finished = "[DONE]" in run.text or any(told.finish_reason for told in choices_told(run))
    assert (relay.failure is None) == (run.kind == "stream" and finished), relay.failure
    assert relay.done == (relay.failure is None)
    if relay.failure is not None:
        return
    assert out.rstrip().endswith(DONE.rstrip())
    assert_counted(run, relay)
    if in_standard_form(run):
        assert_same_but_model(body, out)


def choices_told(run: Run) -> list[Told]:
    return list(run.told().choices.values()) if run.kind == "stream" else []


def assert_same_but_model(body: bytes, out: bytes) -> None:
    """Every byte stands where it stood, but for the models; [DONE] may have been added."""
    if MISSING_BLANK_LINE.search(body):
        body, out = (b"\n".join(filter(None, stream.splitlines())) for stream in (body, out))
    assert relayed_beyond(body, out).strip() in (b"", DONE.strip())


def relayed_beyond(before: bytes, after: bytes) -> bytes:
    """Return what ``after`` has beyond ``before``; all else of it must stand there, but for the model."""
    if b'"model"' not in before:
        after = after.replace(b'"model":%b,' % SLUG_JSON, b"")
    at = 0
    *heads, tail = after.split(SLUG_JSON)
    for head in heads:
        assert before.startswith(head, at)
        value = STRING.match(before, at + len(head))
        assert value
        at = value.end()
    rest = before[at:]
    assert tail.startswith(rest) or rest.startswith(tail)
    return tail[len(rest) :]


@pytest.mark.parametrize("run", runs(stream=False))
def test_a_recorded_answer_is_read_whole_or_not_at_all(run: Run) -> None:
    body = run.text.encode()
    out, relay = relayed(run, [body])
    assert (relay.failure is None) == (run.kind == "whole"), relay.failure
    if relay.failure is not None:
        assert out == b""
        return
    assert json.loads(out)["model"] == SLUG
    assert_counted(run, relay)
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

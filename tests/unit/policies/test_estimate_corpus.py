"""Estimates of recorded calls: nearly all prompts at or above the providers' counts, answers right on average.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
``PYTHONPATH=. python tests/unit/policies/test_estimate_corpus.py`` prints the tables.
"""

import hashlib
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rig.configuration import ROOT
from rig.corpus import FOLDER, needs_corpus
from rig.recorded_families import DIRECT, direct_family
from rig.recorded_prompts import (
    APIS,
    Record,
    chat_fields,
    completion_tokens,
    prompt_tokens,
    shown_chars,
)

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import rewrite_answer
from addon.settings.settings import load_settings
from policies.estimate import estimate_completion_tokens, estimate_prompt_tokens
from policies.family import Estimator, Family

DEFAULT = Estimator()
SOURCE = AnswerContext("slug", Family("plain"))
LEAST_SHARE = 0.97
MOST_OVER_TOKENS, MOST_OVER_RATIO = 150, 1.6
MEDIA = frozenset({"image_url", "input_audio", "file", "document", "image"})

VENDORS = tuple(dict.fromkeys(vendor for vendor, *_ in DIRECT))

EXCEPTIONS = {
    "anthropic-msg-82f44c66149523b2": "search_result blocks with citations, which the chat API does not have",
    "anthropic-msg-f7a7d3251c214297": "search_result blocks with citations, which the chat API does not have",
    "google-gem-1f28c512b1a8a945": "cachedContent: most of the prompt is stored at the provider",
    "google-gem-98f128d6eee82063": "the recording cut 3,148 characters of a thought signature, which is billed",
    "bedrock-bedrock_invoke_anthropic-f1c84fad544e5271": "a placeholder replaces its system prompt of 18,000 tokens",
    "groq-chat-27afc62ee325de19": "compound-beta searches the web on its own",
}


@dataclass(frozen=True)
class Case:
    """One recorded prompt: its count, and its estimates with the coefficients of its family and with the defaults."""

    id: str
    vendor: str
    family: str
    counted: int
    estimated: int
    by_default: int
    half: int
    """0 or 1, by the SHA-256 of its messages. The shipped coefficients were fitted on both halves."""


def unfit(record: Record, fields: dict[str, object]) -> bool:
    """Return whether the prompt can't be estimated from the text of the request."""
    parts = [
        part
        for message in fields["messages"]
        if isinstance(message.get("content"), list)
        for part in message["content"]
    ]
    return (
        any(part.get("type") in MEDIA for part in parts)
        or any(tool.get("type") != "function" for tool in fields.get("tools") or ())
        or any(name in fields for name in ("functions", "documents"))
        or record["id"] in EXCEPTIONS
    )


@cache
def recordings() -> list[Record]:
    """Return every answer of status 200 to a recorded request."""
    files = sorted(file for file in Path(FOLDER).glob("*.jsonl") if file.name.split(".")[1] in APIS)
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert found, f"no recordings in {FOLDER}"
    return [record for record in found if record["status"] == 200 and record["request"]]


@cache
def families() -> dict[str, Family]:
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.with_name("none").mkdir()
        conf.write_text(
            f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "none"\n', encoding="utf-8"
        )
        return dict(load_settings(conf, {}).families)


@cache
def cases() -> list[Case]:
    """Return every recording with a known and counted prompt. Those of resellers have no family."""
    return [case for record in recordings() if (case := case_of(record))]


def case_of(record: Record) -> Case | None:
    if not record["request"].get("messages") and not record["request"].get("contents"):
        return None
    fields = chat_fields(record)
    counted = prompt_tokens(record)
    if not counted or unfit(record, fields):
        return None
    vendor, family = direct_family(record) or (record["provider"], "")
    estimator = families()[family].estimator if family else DEFAULT
    digest = hashlib.sha256(json.dumps(fields["messages"], sort_keys=True).encode()).digest()
    return Case(
        id=record["id"],
        vendor=vendor,
        family=family,
        counted=counted,
        estimated=estimate_prompt_tokens(fields, estimator),
        by_default=estimate_prompt_tokens(fields, DEFAULT),
        half=digest[3] % 2,
    )


def share(found: Iterable[Case], estimate: Callable[[Case], int] = lambda case: case.estimated) -> float:
    """Return how many of ``found`` are estimated at or above their counts."""
    return statistics.mean(estimate(case) >= case.counted for case in found)


def median_over(found: Iterable[Case]) -> tuple[float, float]:
    """Return the median over-estimate, in tokens and as a ratio."""
    pairs = [(case.estimated, case.counted) for case in found]
    return statistics.median(e - c for e, c in pairs), statistics.median(e / c for e, c in pairs)


def of_vendor(vendor: str) -> list[Case]:
    return [case for case in cases() if case.vendor == vendor]


def direct() -> list[Case]:
    return [case for case in cases() if case.family]


@needs_corpus
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendors_prompts_are_nearly_always_estimated_at_or_above_what_it_counted(vendor: str) -> None:
    found = of_vendor(vendor)
    short = [(case.id, case.counted, case.estimated) for case in found if case.estimated < case.counted]
    assert len(found) >= 10
    assert share(found) >= LEAST_SHARE, short


@needs_corpus
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendors_prompts_are_not_estimated_wastefully(vendor: str) -> None:
    tokens, ratio = median_over(of_vendor(vendor))
    assert tokens <= MOST_OVER_TOKENS or ratio <= MOST_OVER_RATIO


@needs_corpus
def test_neither_are_the_prompts_of_all_vendors_and_of_each_half() -> None:
    for found in (direct(), *([case for case in direct() if case.half == half] for half in (0, 1))):
        tokens, ratio = median_over(found)
        assert len(found) >= 300
        assert share(found) >= LEAST_SHARE
        assert tokens <= MOST_OVER_TOKENS or ratio <= MOST_OVER_RATIO


@needs_corpus
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_family_without_coefficients_is_estimated_safely(vendor: str) -> None:
    assert share(of_vendor(vendor), lambda case: case.by_default) >= LEAST_SHARE


@needs_corpus
def test_every_exception_is_a_recording_that_would_count_without_it() -> None:
    assert EXCEPTIONS.keys() <= {record["id"] for record in recordings() if prompt_tokens(record)}


@dataclass(frozen=True)
class Answered:
    """One recorded answer of some length: its count, and the estimate of its text."""

    family: str
    counted: int
    estimated: int


@cache
def answers() -> list[Answered]:
    """Return every answer of a direct vendor with 200 characters or more."""
    found = []
    for record in recordings():
        known = direct_family(record)
        counted = completion_tokens(record) if known else None
        chars = relayed_chars(record) if counted else None
        if known and counted and chars and chars >= 200:
            estimator = families()[known[1]].estimator
            found.append(Answered(known[1], counted, estimate_completion_tokens(chars, estimator)))
    return found


def relayed_chars(record: Record) -> int | None:
    """Return what the gateway knows of an answer that it relayed."""
    if record["api"] != "openai_chat":
        return shown_chars(record)
    body = record["response_text"].encode()
    if not record["stream"]:
        return rewrite_answer(body, SOURCE).text_chars
    relay = StreamedAnswerReader(ChatChunks(SOURCE), SOURCE)
    relay.feed(body)
    relay.finish()
    return relay.relayed_text_chars


@needs_corpus
def test_answers_are_estimated_right_on_average() -> None:
    by_family = defaultdict(list)
    for answer in answers():
        by_family[answer.family].append(answer.estimated / answer.counted)
    ratios = [ratio for found in by_family.values() for ratio in found]
    assert len(ratios) >= 100
    assert 0.9 <= statistics.median(ratios) <= 1.1
    measured = {family: statistics.median(found) for family, found in by_family.items() if len(found) >= 8}
    assert len(measured) >= 5
    assert {family: ratio for family, ratio in measured.items() if not 0.8 <= ratio <= 1.25} == {}


def row(name: str, found: list[Case]) -> str:
    tokens, ratio = median_over(found)
    by_default = share(found, lambda case: case.by_default)
    return f"{name:24}{len(found):5} {share(found):6.1%} {tokens:7.0f} {ratio:6.2f} {by_default:8.1%}"


def main() -> None:
    """Print the tables."""
    print(f"{'vendor':24}{'n':>5} {'>=':>6} {'over':>7} {'x':>6} {'default':>8}")
    for vendor in VENDORS:
        print(row(vendor, of_vendor(vendor)))
    print(row("all of these", direct()))
    others = sorted({case.vendor for case in cases() if not case.family})
    for vendor in others:
        print(row(vendor, of_vendor(vendor)))
    for case in cases():
        if case.estimated < case.counted:
            print(
                f"below: {case.id} {case.family or case.vendor} counted {case.counted} estimated {case.estimated}"
            )
    for family in sorted({answer.family for answer in answers()}):
        ratios = [answer.estimated / answer.counted for answer in answers() if answer.family == family]
        print(f"answers: {family:20} n {len(ratios):3} median {statistics.median(ratios):.2f}")
    print(
        f"answers: all {statistics.median(a.estimated / a.counted for a in answers()):.2f} of {len(answers())}"
    )


if __name__ == "__main__":
    main()

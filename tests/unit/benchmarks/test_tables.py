"""The tables of the benchmark, and the figures that compare two targets."""

import math

import pytest

from benchmarks import tables
from benchmarks.comparison import ratio
from benchmarks.light import answers_of
from benchmarks.processes import Sample
from benchmarks.workers import Case, cost_table

ROWS = [("one", 1.234, None, "≥ 3"), ("eleven", 11.0, 0.5, "")]
HEADERS = ("name", "ms", "share", "aim")
FORMATS = ("", ".2f", ".1f", "")


def test_numbers_have_the_format_of_their_column_and_missing_ones_are_empty():
    lines = tables.table(ROWS, HEADERS, FORMATS).splitlines()

    assert [line.split() for line in lines[2:]] == [["one", "1.23", "≥", "3"], ["eleven", "11.00", "0.5"]]


def test_markdown_on_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "_style", "simple")
    tables.use_markdown()

    first, rule, *rows = tables.table(ROWS, HEADERS, FORMATS).splitlines()

    assert [cell.strip() for cell in first.split("|")] == ["", *HEADERS, ""]
    assert set(rule) <= set("|-:")
    assert [cell.strip() for cell in rows[1].split("|")] == ["", "eleven", "11.00", "0.5", "", ""]


def test_a_ratio_to_nothing_is_no_number():
    assert ratio(1.0, 4.0) == 0.25
    assert math.isnan(ratio(1.0, 0.0))
    assert math.isnan(ratio(1.0, -0.1))


def test_two_workers_are_compared_with_one_on_the_same_store():
    def sample(elapsed_s: float, cpu_s: float) -> Sample:
        return Sample(answers_of(f"{elapsed_s} 0\n" + "1.0\n" * 100), cpu_s)

    samples = {
        Case("sqlite", 1, 32): [sample(1.0, 0.10)],
        Case("sqlite", 2, 64): [sample(0.5, 0.11)],
        Case("redis", 1, 32): [sample(1.0, 0.20)],
        Case("redis", 2, 32): [sample(0.8, 0.22)],
    }
    lines = cost_table(samples, dict.fromkeys(samples, 0.01)).splitlines()[2:]

    assert [line.split() for line in lines] == [
        ["sqlite", "1", "32", "1000", "1.00", "100", "1.00", "1.00", "0"],
        ["sqlite", "2", "64", "1100", "1.10", "200", "2.00", "1.00", "0"],
        ["redis", "1", "32", "2000", "1.00", "100", "100", "1.00", "1.00", "0"],
        ["redis", "2", "32", "2200", "1.10", "100", "125", "1.25", "1.00", "0"],
    ]

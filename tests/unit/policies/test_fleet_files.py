"""Differences of files are reported after a minute, once each, and their end once."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet_files import (
    MAX_KNOWN,
    PERSIST_S,
    Difference,
    Reported,
    Since,
    find_differences,
    find_lasting,
    find_news,
    follow,
)

ONE, OTHER = {"models.toml": "1", "acme.toml": "1"}, {"models.toml": "2", "acme.toml": "1"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, set()),
        ({"a": ONE}, set()),
        ({"a": ONE, "b": ONE}, set()),
        ({"a": ONE, "b": OTHER}, {("b", "models.toml")}),
        ({"b": ONE, "a": OTHER}, {("b", "models.toml")}),
        ({"a": OTHER, "b": ONE, "c": ONE}, {("a", "models.toml")}),
        ({"a": ONE, "b": ONE, "c": {"acme.toml": "1"}}, {("c", "models.toml")}),
        ({"a": ONE, "b": {}, "c": {}}, {("a", "models.toml"), ("a", "acme.toml")}),
    ],
)
def test_a_machine_differs_where_it_is_not_as_most(
    files: dict[str, dict[str, str]], expected: set[tuple[str, str]]
) -> None:
    assert find_differences(files) == expected


A, B = Difference("gw-1", "a.toml"), Difference("gw-1", "b.toml")


@pytest.mark.parametrize(
    ("looks", "now_s", "expected"),
    [
        ([(0, {A})], PERSIST_S - 0.1, []),
        ([(0, {A})], PERSIST_S, [A]),
        ([(0, {A}), (50, {A, B})], PERSIST_S, [A]),
        ([(0, {A}), (50, {B, A})], PERSIST_S + 50, [A, B]),
        ([(0, {A}), (50, set()), (55, {A})], PERSIST_S, []),
        ([(0, {A}), (50, set()), (55, {A})], PERSIST_S + 55, [A]),
    ],
)
def test_a_difference_lasts_after_a_minute_without_a_break(
    looks: list[tuple[float, set[Difference]]], now_s: float, expected: list[Difference]
) -> None:
    since: Since = {}
    for at_s, found in looks:
        since = follow(since, found, at_s)
    assert find_lasting(since, now_s) == expected


@pytest.mark.parametrize(
    ("known", "found", "lasting", "expected"),
    [
        (None, "", "", ((), None)),
        (None, "a", "", ((), None)),
        (None, "a", "a", ("a", "a")),
        ("a", "a", "a", ("", "a")),
        ("a", "ab", "a", ("", "a")),
        ("a", "ab", "ab", ("b", "ab")),
        ("ab", "b", "b", ("", "b")),
        ("a", "b", "", ("", "")),
        ("a", "", "", ((), None)),
    ],
)
def test_what_is_reported(
    known: str | None, found: str, lasting: str, expected: tuple[Collection[str], str | None]
) -> None:
    before = None if known is None else Reported("then", list(known))
    new, after = find_news(before, list(found), list(lasting), "now")
    assert (list(new), after and list(after.files)) == (
        list(expected[0]),
        None if expected[1] is None else list(expected[1]),
    )
    assert after is None or after.since == ("now" if known is None else "then")


@given(st.lists(st.tuples(st.sets(st.integers(0, 150)), st.sets(st.integers(0, 150))), max_size=12))
def test_each_file_is_news_once_until_it_agrees(looks: list[tuple[set[int], set[int]]]) -> None:
    known, open_files = None, set[str]()
    for found, long in looks:
        differing = {str(one) for one in found}
        open_files &= differing
        new, known = find_news(known, differing, {str(one) for one in long & found}, "now")
        assert open_files.isdisjoint(new)
        open_files |= set(new)
        assert known is None or len(known.files) <= MAX_KNOWN
        assert known is not None or not open_files or not differing

"""Every regular expression of the project takes linear time on every text."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from rig.expressions import Expression, find_expressions
from rig.large import large_only
from rig.slow_expressions import faults_of, hostile_openings, hostile_units

from addon.console.pages import PAGES
from addon.dialects.anthropic.native_template import _rest
from addon.text.masking import _escaped_pattern

CHARS = 2_000
QUICK_S = 0.02
"""A shorter time on the longest text can't be quadratic: that would be some hundred milliseconds."""

# Functions that build an expression from their arguments, and one such expression each, as it is used.
MADE = {
    # The tables of genai-prices against an operator's own URL: neither is hostile.
    "addon.commands.published_prices.find_model_info": None,
    # ``_matching``: its calls are among the expressions.
    "addon.settings.value_types.check": None,
    # ``PATHS``.
    "addon.console.pages.matches": None,
    "addon.dialects.anthropic.native_template._rest": Expression("_rest", _rest(b'","index":0'), False),
    "addon.edits.hidden_values._marker": Expression(
        "_marker", re.compile(r"\(unchanged-* ([0-9]{1,6})\)"), True
    ),
    "addon.text.errors._renamed": Expression(
        "_renamed", re.compile(r"(?<![\w.@-])(?:gpt\-4|a)(?!\w|[-./:@]\w)"), True
    ),
    "addon.text.masking._escaped_pattern": Expression("_escaped_pattern", _escaped_pattern("sk-a/b"), True),
    "addon.sandbox.reply._mentioned": Expression("_mentioned", re.compile(r"(?<![\w-])name(?![\w-])"), True),
    # The sets have the shape, and few of the characters.
    "policies.keywords._word": Expression(
        "_word", re.compile(r"(?:[^\W\u0e00-\u0eff]++|[\u0300-\u036f]++)++"), True
    ),
    "policies.messages._new_ids": Expression("_new_ids", re.compile(r"(?s:.{0,64})"), False),
}

PATHS = [Expression(f"the path of {page.name}", re.compile(page.path), False) for page in PAGES]


def all_expressions() -> list[Expression]:
    return [*find_expressions()[0], *filter(None, MADE.values()), *PATHS]


def test_the_expressions_are_found() -> None:
    expressions, dynamic = find_expressions()
    places = {expression.place for expression in expressions}
    assert {
        "addon.answers.sse._DATA_LINE",
        "addon.text.masking._PATTERNS",
        "policies.money._AMOUNT",
    } <= places
    assert any(place.startswith("addon.text.errors:") for place in places), "an inline re.sub"
    assert MADE.keys() == dynamic


def test_no_expression_has_a_slow_form() -> None:
    faults = [
        (str(expression), found)
        for expression in all_expressions()
        if (found := faults_of(expression.pattern, searches=expression.searches))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("pattern", "searches"),
    [
        (r"\s*x", True),
        (r"a[a-z]*x", True),
        (r"\s*\s*x", False),
        (r"\d+\w*x", False),
        (r"a*(?:b?c?)a*x", False),
        (r"a*(?=a*x)", False),
        (r"\w+foo\w+x", False),
        (r"(?:a+)+x", False),
        (r"(?:a|ab?)*x", False),
        (r"(?:aa?)*x", False),
        (r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', True),
        (r"a{0,5000}a{0,5000}x", False),
        (r"a*(?:a|b)*x", False),
    ],
)
def test_the_lint_finds_slow_expressions(pattern: str, searches: bool) -> None:
    assert faults_of(re.compile(pattern), searches=searches)


@pytest.mark.parametrize(
    ("pattern", "searches"),
    [
        (r"\s*x", False),
        (r"(?<!\s)\s*x", True),
        (r"\bkey\w*!", True),
        (r"\Aa*x", True),
        (r"\s++x\s*y", False),
        (r"[0-9]+(\.[0-9]+)?", False),
        (r"(?:[^x]++|x\.)*+z", False),
        (r"a+", True),
        (r"\w++(?:/\w++)++x", False),
        (r'"model"\s*:\s*"', True),
    ],
)
def test_the_lint_accepts_fast_expressions(pattern: str, searches: bool) -> None:
    assert faults_of(re.compile(pattern), searches=searches) == []


def cpu_s(run: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        start = time.thread_time()
        run()
        spent.append(time.thread_time() - start)
    return min(spent)


def hostile_texts(pattern: re.Pattern[Any], chars: int) -> list[str]:
    return [
        opening + unit * (chars // len(unit)) + "\x01"
        for unit in hostile_units(pattern)
        for opening in hostile_openings(pattern)
    ]


def scan(expression: Expression, text: str) -> Callable[[], object]:
    pattern: Any = expression.pattern
    given: Any = text if isinstance(pattern.pattern, str) else text.encode()
    if expression.searches:
        return lambda: sum(1 for _ in pattern.finditer(given))
    return lambda: (pattern.match(given), pattern.fullmatch(given))


def slow_text(expression: Expression) -> tuple[str, list[float]] | None:
    """Return the beginning of a text on which an expression is not linear, with the times, or None."""
    texts = [hostile_texts(expression.pattern, CHARS * times) for times in (1, 2, 4)]
    for once, twice, four_times in zip(*texts, strict=True):
        if cpu_s(scan(expression, four_times), 1) < QUICK_S:
            continue
        spent_s = [cpu_s(scan(expression, text), 5) for text in (once, twice, four_times)]
        # Linear time gives 4, quadratic time 16. A text that no longer fits a cache may take a little longer.
        if spent_s[2] > max(10 * spent_s[0], QUICK_S):
            return once[:40], spent_s
    return None


@large_only
def test_hostile_texts_take_linear_time() -> None:
    slow = [
        (str(expression), found)
        for expression in all_expressions()
        if (found := slow_text(expression)) is not None
    ]
    assert slow == []


def test_a_quadratic_expression_is_found() -> None:
    assert slow_text(Expression("a run of white space", re.compile(r"\s*\[details\]"), searches=True))

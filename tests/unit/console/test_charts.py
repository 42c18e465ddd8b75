"""Charts: well-formed, escaped, bounded, and with sums that agree."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import inf, nan
from xml.etree.ElementTree import Element, fromstring

import pytest

from addon.console.charts.bar import draw_bar
from addon.console.charts.stacked_bars import Series, StackedBars, draw_stacked_bars
from addon.console.charts.svg import element
from addon.console.charts.ticks import find_ticks, find_time_ticks
from addon.console.display import count

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOSTILE = "<script>alert(1)</script>\u202e\x00\ud800\"'&\n" + "u" * 256


def draw(*series: Series, bars: int = 24, step: timedelta = HOUR) -> StackedBars:
    begins = [NOON + place * step for place in range(bars)]
    return draw_stacked_bars("spend", HOSTILE, begins, NOON + bars * step, series, count)


def heights(tree: Element, css_class: str) -> list[float]:
    return [
        float(str(one.get("height")))
        for one in tree.iter("rect")
        if css_class in str(one.get("class")).split()
    ]


@pytest.mark.parametrize(
    "amounts",
    [
        [],
        [0],
        [1],
        [0.001],
        [nan, inf, -inf, -5, 3],
        [10**16] * 24,
        [0] * 23 + [10**16],
        [1, 10**16],
        list(range(24)),
    ],
)
def test_any_amounts_make_a_picture_inside_its_frame(amounts: Sequence[float]) -> None:
    tree = fromstring(draw(Series(HOSTILE, amounts), Series("b", amounts)).svg)
    for one in tree.iter("rect"):
        assert float(str(one.get("y"))) >= 0
        assert float(str(one.get("y"))) + float(str(one.get("height"))) <= 200
        assert 0 <= float(str(one.get("x")).removesuffix("%")) <= 100
    assert "nan" not in str(tree.attrib).lower()
    assert tree.get("role") == "img"
    ids = {one.get("id") for one in tree.iter() if one.get("id")}
    assert set(str(tree.get("aria-labelledby")).split()) == ids == {"spend-title", "spend-desc"}


def test_the_legend_the_description_and_the_bars_have_the_same_sums() -> None:
    chart = draw(Series("small", [1, 2]), Series("large", [30, 40], "/calls?model=large"))
    assert [(entry.name, entry.total, entry.url) for entry in chart.legend] == [
        ("small", "3", ""),
        ("large", "70", "/calls?model=large"),
    ]
    tree = fromstring(chart.svg)
    description = tree.findtext("desc")
    assert description is not None
    assert description.startswith("Total 73 in 24 bars from 2026-11-22 12:00 UTC. The highest, 42, begins at")
    assert [round(low / high, 3) for low, high in zip(heights(tree, "s2"), heights(tree, "s1"), strict=True)]
    titles = [one.findtext("title") for one in tree.iter("rect")]
    assert titles[0] == "large: 30 · 2026-11-22 12:00 UTC"
    assert heights(tree, "s1")[1] / heights(tree, "s2")[1] == pytest.approx(20, rel=0.01)


def test_many_series_and_bars_are_added_up() -> None:
    series = [Series(f"m{place}", [place] * 1_000) for place in range(50)]
    chart = draw(*series, bars=1_000, step=HOUR)
    tree = fromstring(chart.svg)
    assert len(chart.legend) == 8
    assert chart.legend[0].name == "43 others"
    assert chart.legend[0].total == count(sum(range(43)) * 1_000)
    assert sum(one.tag == "rect" for one in tree.iter()) <= 60 * 8


def test_a_rest_is_on_top_in_its_own_colour() -> None:
    chart = draw(Series("other", [100], is_rest=True), Series("a", [1]))
    assert [(entry.name, entry.css_class) for entry in chart.legend] == [("other", "rest"), ("a", "s1")]


def test_no_amounts_say_so() -> None:
    chart = draw(Series("a", [0, 0]))
    assert "Nothing in this time" in "".join(fromstring(chart.svg).itertext())
    assert chart.legend == []
    assert fromstring(draw_stacked_bars("x", "x", [], NOON, [], count).svg).tag == "svg"


def test_names_of_others_are_escaped_and_short() -> None:
    chart = draw(Series(HOSTILE, [1]))
    tree = fromstring(chart.svg)
    assert tree.find(".//script") is None
    assert "\u202e" not in chart.svg
    assert len(chart.legend[0].name) == 60
    assert fromstring(element("text", HOSTILE, class_=HOSTILE)).get("class")


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 1]),
        (nan, [0, 1]),
        (1, [0, 0.25, 0.5, 0.75, 1]),
        (7, [0, 2, 4, 6, 8]),
        (100, [0, 25, 50, 75, 100]),
        (10**16, [0, 2.5 * 10**15, 5 * 10**15, 7.5 * 10**15, 10**16]),
    ],
)
def test_ticks_are_round(highest: float, ticks: Sequence[float]) -> None:
    assert list(find_ticks(highest)) == ticks


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (timedelta(minutes=4), ["12:00", "12:01", "12:02", "12:03", "12:04"]),
        (timedelta(hours=1), [f"12:{minute:02d}" for minute in range(0, 60, 5)] + ["13:00"]),
        (timedelta(hours=12), [f"{hour}:00" for hour in range(12, 24)] + ["Nov 23"]),
        (timedelta(days=3), ["12:00", "18:00", "Nov 23", "06:00", "12:00", "18:00", "Nov 24"]),
        (timedelta(days=5), ["12:00", "Nov 23", "12:00", "Nov 24", "12:00", "Nov 25"]),
        (timedelta(days=9), ["Nov 23", "Nov 24", "Nov 25", "Nov 26", "Nov 27"]),
        (timedelta(days=80), ["Nov 23", "Nov 30", "Dec 7", "Dec 14", "Dec 21"]),
    ],
)  # fmt: skip
def test_times_have_round_ticks(length: timedelta, labels: Sequence[str]) -> None:
    assert [label for _, label in find_time_ticks(NOON, NOON + length)][: len(labels)] == labels


@pytest.mark.parametrize("length", [timedelta(), timedelta(seconds=1), timedelta(days=3650)])
@pytest.mark.parametrize("end", [NOON, datetime.max.replace(tzinfo=UTC)])
def test_ticks_of_any_time_are_few(length: timedelta, end: datetime) -> None:
    assert len(find_time_ticks(end - length, end)) <= 13


def test_ticks_of_all_time_are_few() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert 1 <= len(find_time_ticks(first, last)) <= 13


@pytest.mark.parametrize(
    ("used", "cap", "held", "css_class", "widths"),
    [
        (0, 10, 0, "bar calm", [100, 0]),
        (3, 10, 2, "bar calm", [100, 30, 20]),
        (8, 10, 0, "bar near", [100, 80]),
        (8, 10, 5, "bar near", [100, 80, 20]),
        (12, 10, 0, "bar full", [100, 100, 3]),
        (1, 0, 0, "bar full", [100, 100, 3]),
        (-1, 10, 0, "bar calm", [100, 0]),
        (nan, inf, nan, "bar calm", [100, 0]),
    ],
)
def test_a_bar_is_as_long_as_its_part(
    used: float, cap: float, held: float, css_class: str, widths: Sequence[float]
) -> None:
    tree = fromstring(draw_bar(used, cap, HOSTILE, held))
    assert tree.get("class") == css_class
    assert [float(str(one.get("width"))) for one in tree.iter("rect")] == widths

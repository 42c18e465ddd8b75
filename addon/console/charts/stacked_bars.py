"""``draw_stacked_bars``: amounts over time, stacked by a name. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil, isfinite
from typing import Final

from addon.console import display
from addon.console.charts.svg import Svg, element, join
from addon.console.charts.ticks import NO_TICKS, find_ticks, find_time_ticks

MAX_BARS: Final = 60
"""More bars than these are added up, some neighbours to one."""

MAX_SERIES: Final = 7
"""Further series are added up to one."""

MAX_NAME_CHARS: Final = 60
"""How much of a name a chart shows."""

HEIGHT: Final = 200
_TOP: Final = 12
_BOTTOM: Final = 24
_PLOT: Final = HEIGHT - _TOP - _BOTTOM

_WORD_CHARS: Final = 7
"""Longer amounts need a wider axis."""

_WIDEST_PERCENT: Final = 8.0
_FILLED_PART: Final = 0.82


@dataclass(frozen=True, slots=True)
class Series:
    """One name with its amount in each bar.

    ``url`` is where its name in the legend leads to. ``is_rest``: it is the sum of names that have no series.
    """

    name: str
    amounts: Sequence[float]
    url: str = ""
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A name with its total, in the order of the stack from the top down. ``css_class`` is its colour."""

    name: str
    total: str
    css_class: str
    url: str


@dataclass(frozen=True, slots=True)
class StackedBars:
    """A chart and its legend."""

    svg: Svg
    legend: Sequence[LegendEntry]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A series as drawn, with its amounts for the bars as drawn."""

    name: str
    css_class: str
    amounts: Sequence[float]
    url: str = ""

    @property
    def total(self) -> float:
        return sum(self.amounts)


def draw_stacked_bars(
    name: str,
    title: str,
    begins: Sequence[datetime],
    end: datetime,
    series: Sequence[Series],
    describe: Callable[[int], str],
) -> StackedBars:
    """Return a chart with one bar from each of ``begins`` until the next, the last until ``end``.

    ``name`` makes its ids unique on the page. ``describe`` writes an amount, such as ``display.money``. Amounts that
    are no numbers, or below 0, count as 0. The largest series is at the bottom.
    """
    begins, series = _merge_bars(begins, series)
    layers = _make_layers(series, len(begins))
    sums = [sum(amounts) for amounts in zip(*(layer.amounts for layer in layers), strict=True)]
    ticks = find_ticks(max(sums, default=0))
    svg = element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", _describe(begins, sums, layers, describe), id=f"{name}-desc"),
        *_draw_amount_axis(ticks, describe),
        *_draw_time_axis(begins, end),
        *_draw_bars(begins, end, layers, ticks[-1], describe),
        *([] if any(sums) else [_no_bars()]),
        class_="plot wide" if _has_long_words(ticks, describe) else "plot",
        width="100%",
        height=HEIGHT,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    return StackedBars(svg, _make_legend(layers, describe))


def _make_legend(layers: Sequence[_Layer], describe: Callable[[int], str]) -> Sequence[LegendEntry]:
    return [
        LegendEntry(layer.name, describe(round(layer.total)), layer.css_class, layer.url)
        for layer in reversed(layers)
        if layer.total
    ]


def _merge_bars(
    begins: Sequence[datetime], series: Sequence[Series]
) -> tuple[Sequence[datetime], Sequence[Series]]:
    """Return at most ``MAX_BARS`` bars: each is the sum of as many neighbours as it takes."""
    size = max(1, ceil(len(begins) / MAX_BARS))
    merged = [
        Series(
            one.name,
            [
                sum(map(_clean, one.amounts[place : place + size]))
                for place in range(0, len(one.amounts), size)
            ],
            one.url,
            one.is_rest,
        )
        for one in series
    ]
    return begins[::size], merged


def _make_layers(series: Sequence[Series], bars: int) -> Sequence[_Layer]:
    """Return the layers from the bottom up: the largest series first, and the rest last."""
    padded = [replace(one, amounts=[*one.amounts, *[0] * bars][:bars]) for one in series]
    ordered = sorted(padded, key=lambda one: (one.is_rest, -sum(one.amounts)))
    named = [one for one in ordered if not one.is_rest][:MAX_SERIES]
    rest = ordered[len(named) :]
    layers = [
        _Layer(display.text(one.name, MAX_NAME_CHARS), f"s{place}", one.amounts, one.url)
        for place, one in enumerate(named, 1)
    ]
    if rest:
        sums = [sum(amounts) for amounts in zip(*(one.amounts for one in rest), strict=True)]
        words = (
            display.text(rest[0].name, MAX_NAME_CHARS)
            if len(rest) == 1
            else "others"
            if rest[-1].is_rest
            else f"{len(rest)} others"
        )
        layers.append(_Layer(words, "rest", sums))
    return layers


def _draw_bars(
    begins: Sequence[datetime],
    end: datetime,
    layers: Sequence[_Layer],
    highest: float,
    describe: Callable[[int], str],
) -> list[Svg]:
    """Return one element a bar, with a rectangle for each amount that is not 0."""
    bars = []
    for place, begin in enumerate(begins):
        until = begins[place + 1] if place + 1 < len(begins) else end
        left, right = _percent_of(begin, begins[0], end), _percent_of(until, begins[0], end)
        width = min((right - left) * _FILLED_PART, _WIDEST_PERCENT)
        span = {"x": f"{(left + right - width) / 2:.3f}%", "width": f"{width:.3f}%"}
        if segments := _draw_segments(begin, place, layers, highest, describe, span):
            bars.append(element("g", join(segments)))
    return bars


def _draw_segments(
    begin: datetime,
    place: int,
    layers: Sequence[_Layer],
    highest: float,
    describe: Callable[[int], str],
    span: Mapping[str, str],
) -> list[Svg]:
    """Return the rectangles of one bar, from the bottom up. ``span`` says where the bar is, and how wide."""
    segments, bottom = [], float(_TOP + _PLOT)
    for layer in layers:
        if amount := layer.amounts[place]:
            height = amount / highest * _PLOT
            bottom -= height
            words = f"{layer.name}: {describe(round(amount))} · {begin:%Y-%m-%d %H:%M} UTC"
            title = element("title", words)
            css_class = f"segment {layer.css_class}"
            segments.append(element("rect", title, class_=css_class, y=bottom, height=height, **span))
    return segments


def _has_long_words(ticks: Sequence[float], describe: Callable[[int], str]) -> bool:
    return ticks != NO_TICKS and any(len(describe(round(tick))) > _WORD_CHARS for tick in ticks)


def _draw_amount_axis(ticks: Sequence[float], describe: Callable[[int], str]) -> list[Svg]:
    parts = []
    for tick in ticks:
        y = _TOP + _PLOT * (1 - tick / ticks[-1])
        parts.append(element("line", class_="axis" if tick else "axis base", x2="100%", y1=y, y2=y))
        if tick == round(tick) and (ticks != NO_TICKS or not tick):
            parts.append(
                element("text", describe(round(tick)), class_="amount", x=-8, y=y + 4, text_anchor="end")
            )
    return parts


def _draw_time_axis(begins: Sequence[datetime], end: datetime) -> list[Svg]:
    if not begins:
        return []
    return [
        element(
            "text",
            label,
            class_="time minor" if place % 2 else "time",
            x=f"{_percent_of(moment, begins[0], end):.3f}%",
            y=HEIGHT - 6,
            text_anchor="middle",
        )
        for place, (moment, label) in enumerate(find_time_ticks(begins[0], end))
    ]


def _no_bars() -> Svg:
    return element(
        "text", "Nothing in this time", class_="none", x="50%", y=_TOP + _PLOT / 2, text_anchor="middle"
    )


def _describe(
    begins: Sequence[datetime],
    sums: Sequence[float],
    layers: Sequence[_Layer],
    describe: Callable[[int], str],
) -> str:
    """Return the chart in a sentence or two, for people who don't see it."""
    if not any(sums):
        return "Nothing in this time."
    highest = max(range(len(sums)), key=sums.__getitem__)
    parts = ", ".join(
        f"{layer.name} {describe(round(layer.total))}" for layer in reversed(layers) if layer.total
    )
    return (
        f"Total {describe(round(sum(sums)))} in {len(begins)} bars from {begins[0]:%Y-%m-%d %H:%M} UTC."
        f" The highest, {describe(round(sums[highest]))}, begins at {begins[highest]:%Y-%m-%d %H:%M}."
        f" From the top: {parts}."
    )


def _percent_of(moment: datetime, begin: datetime, end: datetime) -> float:
    length = (end - begin).total_seconds()
    return (moment - begin).total_seconds() / length * 100 if length > 0 else 0


def _clean(amount: float) -> float:
    return amount if isfinite(amount) and amount > 0 else 0

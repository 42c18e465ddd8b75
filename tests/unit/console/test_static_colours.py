"""The colours of the style sheet have enough contrast (WCAG 2.2, AA) in both schemes, and series differ for all."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import dist

import pytest
from rig.configuration import ROOT

CSS = (ROOT / "addon/console/static/console.css").read_text(encoding="utf-8")

TEXTS = [
    *((text, ground) for text in ("text", "muted") for ground in ("page", "surface", "raised")),
    *(("accent", ground) for ground in ("page", "surface", "raised", "accent-tint")),
    *(("text", f"{mark}-tint") for mark in ("accent", "ok", "warn", "bad")),
    *((mark, ground) for mark in ("ok", "warn", "bad") for ground in ("surface", f"{mark}-tint")),
    ("on-accent", "accent"),
]
SHAPES = [(f"series-{name}", "surface") for name in (*range(1, 8), "rest")] + [("field", "surface")]

SERIES = [f"series-{name}" for name in (*range(1, 8), "rest")]
"""The colours of a stacked bar, from the bottom up."""

VISIONS = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""How people see linear RGB. Source: Machado, Oliveira and Fernandes, 2009, severity 1."""

XYZ = (
    (0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047),
    (0.2126, 0.7152, 0.0722),
    (0.0193 / 1.08883, 0.1192 / 1.08883, 0.9505 / 1.08883),
)
"""Linear RGB as CIE XYZ, next to that of white (D65)."""


def read_scheme(scheme: str) -> Mapping[str, str]:
    """Return the colours of a scheme. Dark ones replace the light ones."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
    blocks = [light] if scheme == "light" else [light, dark]
    return read_colours("\n".join(blocks))


def read_high_contrast(scheme: str) -> Mapping[str, str]:
    """Return the colours of a scheme for people who want more contrast."""
    light, dark = re.findall(r"prefers-contrast: more\)[^{]*\{\s+:root \{(.*?)\}", CSS, re.DOTALL)
    blocks = [light] if scheme == "light" else [light, dark]
    return {**read_scheme(scheme), **read_colours("\n".join(blocks))}


def read_colours(text: str) -> Mapping[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", text))


def linear_rgb(colour: str) -> list[float]:
    """Return the amounts of red, green and blue light. Source: WCAG 2.2, "relative luminance"."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def weigh(weights: Sequence[float], light: Sequence[float]) -> float:
    return sum(weight * part for weight, part in zip(weights, light, strict=True))


def luminance(colour: str) -> float:
    """Return the relative luminance. Source: WCAG 2.2, "relative luminance"."""
    return weigh((0.2126, 0.7152, 0.0722), linear_rgb(colour))


def seen(colour: str, vision: str) -> tuple[float, float, float]:
    """Return a colour in CIELAB, as people with this vision see it."""
    light = [min(max(weigh(row, linear_rgb(colour)), 0), 1) for row in VISIONS[vision]]
    x, y, z = (
        part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in (weigh(row, light) for row in XYZ)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "ground", "least"), [
    *((*pair, 4.5) for pair in TEXTS),
    *((*pair, 3.0) for pair in SHAPES),
])  # fmt: skip
def test_colours_have_contrast(scheme: str, front: str, ground: str, least: float) -> None:
    colours = read_scheme(scheme)
    assert contrast(colours[front], colours[ground]) >= least


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "ground"), TEXTS)
def test_colours_have_more_contrast_where_that_is_wanted(scheme: str, front: str, ground: str) -> None:
    colours = read_high_contrast(scheme)
    assert contrast(colours[front], colours[ground]) >= 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_series_differ_for_each_vision(scheme: str, vision: str) -> None:
    colours = read_scheme(scheme)
    distances = {
        (one, other): dist(seen(colours[one], vision), seen(colours[other], vision))
        for one, other in combinations(SERIES, 2)
    }
    assert min(distances.values()) >= 11, min(distances, key=lambda pair: distances[pair])
    assert min(distances[pair] for pair in pairwise(SERIES)) >= 30


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neighbours_in_a_bar_differ_without_colour(scheme: str) -> None:
    colours = read_scheme(scheme)
    assert min(contrast(colours[one], colours[other]) for one, other in pairwise(SERIES)) >= 1.4


def test_both_schemes_have_the_same_colours() -> None:
    assert read_scheme("light").keys() == read_scheme("dark").keys()


def test_rules_use_only_these_colours() -> None:
    rules = CSS[CSS.index("/* The page. */") :]
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", rules)) <= {
        *read_scheme("light"),
        "mono",
        "shadow",
        "edge",
    }
    assert re.findall(r"#[0-9a-f]{3,8}\b(?!.*\{)", rules) == ["#ffffff"], "the page's ground in print"

"""The colours of the style sheet have enough contrast (WCAG 2.2, AA) in both schemes."""

import re
from collections.abc import Mapping

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


def read_scheme(scheme: str) -> Mapping[str, str]:
    """Return the colours of a scheme. Dark ones replace the light ones."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
    blocks = [light] if scheme == "light" else [light, dark]
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", "\n".join(blocks)))


def luminance(colour: str) -> float:
    """Return the relative luminance. Source: WCAG 2.2, "relative luminance"."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


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


def test_both_schemes_have_the_same_colours() -> None:
    assert read_scheme("light").keys() == read_scheme("dark").keys()


def test_rules_use_only_these_colours() -> None:
    rules = CSS[CSS.index("/* The page. */") :]
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", rules)) <= {*read_scheme("light"), "mono", "shadow"}
    assert re.findall(r"#[0-9a-f]{3,8}\b(?!.*\{)", rules) == ["#ffffff"], "the page's ground in print"

"""``draw_bar``: how much of a cap is used. Pure."""

from math import isfinite
from typing import Final

from addon.console.charts.svg import Svg, element

WIDTH: Final = 100
HEIGHT: Final = 8

NEAR_PART: Final = 0.8
"""From this part on the bar warns."""


def draw_bar(used: float, cap: float, label: str, held: float = 0) -> Svg:
    """Return a bar of ``used``, and of ``held`` after it, on a track of ``cap``. ``label`` says it in words.

    A bar that is full or nearly full has another class, and a mark at its end.
    """
    used_part, held_part = _part(used, cap), _part(held, cap)
    held_part = min(held_part, 1 - used_part)
    level = "full" if used_part >= 1 else "near" if used_part + held_part >= NEAR_PART else "calm"
    return element(
        "svg",
        element("title", label),
        element("rect", class_="track", width=WIDTH, height=HEIGHT),
        element("rect", class_="used", width=used_part * WIDTH, height=HEIGHT),
        *(
            [element("rect", class_="held", x=used_part * WIDTH, width=held_part * WIDTH, height=HEIGHT)]
            if held_part
            else []
        ),
        *([element("rect", class_="end", x=WIDTH - 3, width=3, height=HEIGHT)] if level == "full" else []),
        class_=f"bar {level}",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _part(amount: float, cap: float) -> float:
    """Return ``amount`` as a part of ``cap``, from 0 to 1. Without a cap nothing is left."""
    if not (isfinite(amount) and isfinite(cap)):
        return 0
    if cap <= 0:
        return 1
    return min(max(amount / cap, 0), 1)

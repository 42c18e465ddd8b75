"""``draw_sparkline``: how a figure went, in a line without axes. Pure."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

from addon.console.charts.svg import Svg, element

WIDTH: Final = 100
HEIGHT: Final = 24
MAX_POINTS: Final = 120


def draw_sparkline(amounts: Sequence[float | None], label: str) -> Svg:
    """Return a line through ``amounts``. ``label`` says it in words. Amounts that are no numbers are left out."""
    amounts = amounts[-MAX_POINTS:]
    known = [amount for amount in amounts if amount is not None and isfinite(amount)]
    highest = max(known, default=0)
    step = WIDTH / max(len(amounts) - 1, 1)
    # One pixel above and below is for the width of the line.
    points = [
        (place * step, HEIGHT - 1 - max(amount, 0) / highest * (HEIGHT - 2) if highest > 0 else HEIGHT - 1)
        for place, amount in enumerate(amounts)
        if amount is not None and isfinite(amount)
    ]
    if len(points) == 1:
        points = [(0, points[0][1]), (WIDTH, points[0][1])]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}" if points else ""
    return element(
        "svg",
        element("title", label),
        *([element("polygon", class_="area", points=area)] if area else []),
        *([element("polyline", class_="line", points=line)] if line else []),
        class_="sparkline",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )

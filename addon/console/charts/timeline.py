"""``draw_timeline``: the first byte and the end of one call. Pure."""

from typing import Final

from addon.console.charts.svg import Svg, element

WIDTH: Final = 100
HEIGHT: Final = 8


def draw_timeline(first_byte_ms: int | None, duration_ms: int, label: str) -> Svg:
    """Return a bar from the request to the end: first the wait, then the answer. ``label`` says it in words."""
    waited = WIDTH if first_byte_ms is None else min(first_byte_ms / max(duration_ms, 1), 1) * WIDTH
    return element(
        "svg",
        element("title", label),
        element("rect", class_="held", width=waited, height=HEIGHT),
        element("rect", class_="used", x=waited, width=WIDTH - waited, height=HEIGHT),
        class_="bar timeline",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )

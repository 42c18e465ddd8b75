"""The parts that show figures: tiles, bars and charts."""

from collections.abc import Iterable
from dataclasses import dataclass

from addon.console.cells import Cell
from addon.console.charts.bar import draw_bar
from addon.console.charts.stacked_bars import StackedBars
from addon.console.charts.svg import Svg
from addon.console.display import Change, percent
from addon.console.parts.part import Part


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of a page. ``good`` says which direction of a change is good news, if one is."""

    label: str
    text: str
    exact: str = ""
    change: Change | None = None
    note: str = ""
    url: str = ""
    good: str = ""

    @property
    def news(self) -> str:
        """Return whether the change is good, bad or neither."""
        if self.change is None or not self.good or self.change.direction == "same":
            return "neutral"
        return "good" if self.change.direction == self.good else "bad"


def bar_cell(used: float, cap: float, label: str = "", held: float = 0) -> Cell:
    """Return a bar of how much of a cap is used, with the percent as text. ``label`` says it in words."""
    shown = percent(used / cap) if cap > 0 else "100%"
    return Cell(shown, label, "number", svg=draw_bar(used, cap, label or f"{shown} used", held))


class Tiles(Part):
    """Figures, each with its change from the time before."""

    def render(self, tiles: Iterable[Tile], label: str = "Figures") -> str:
        return self.show("tiles", tiles=list(tiles), label=label)


class Bar(Part):
    """How much of a cap is used. ``label`` says it in words."""

    def render(self, used: float, cap: float, label: str, held: float = 0) -> str:
        return draw_bar(used, cap, label, held)


class Chart(Part):
    """A chart with its heading and legend. ``table`` names the table on this page that has the same numbers."""

    def render(self, chart: StackedBars | Svg, caption: str, table: str = "", note: str = "") -> str:
        svg, legend = (chart.svg, chart.legend) if isinstance(chart, StackedBars) else (chart, ())
        return self.show("chart", svg=svg, legend=legend, caption=caption, table=table, note=note)

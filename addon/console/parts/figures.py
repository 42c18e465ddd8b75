"""The parts that show figures: tiles and charts."""

from collections.abc import Iterable
from dataclasses import dataclass

from addon.console.charts.stacked_bars import StackedBars
from addon.console.charts.svg import Svg
from addon.console.display import FigureChange
from addon.console.parts.part import Part


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of a page. ``good`` is the direction of a good change, if there is one."""

    label: str
    text: str
    exact: str = ""
    change: FigureChange | None = None
    note: str = ""
    url: str = ""
    good: str = ""

    @property
    def mark(self) -> str:
        """The CSS class of the change: good, bad or neutral."""
        if self.change is None or not self.good or self.change.direction == "same":
            return "neutral"
        return "good" if self.change.direction == self.good else "bad"


class Tiles(Part):
    """Figures, each with its change from the time before."""

    def render(self, tiles: Iterable[Tile], label: str = "Figures") -> str:
        return self.show("tiles", tiles=list(tiles), label=label)


class Chart(Part):
    """A chart with its heading and legend. ``table`` names the table on this page that has the same numbers."""

    def render(self, chart: StackedBars | Svg, caption: str, table: str = "", note: str = "") -> str:
        svg, legend = (chart.svg, chart.legend) if isinstance(chart, StackedBars) else (chart, ())
        return self.show("chart", svg=svg, legend=legend, caption=caption, table=table, note=note)

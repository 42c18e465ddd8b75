"""The cells of metrics that an ended call adds to, in one table."""

from collections.abc import Callable
from typing import NamedTuple

from addon.telemetry.metric_cells import Cells

TOKEN_KINDS = ("prompt", "cached", "cache_write", "completion", "reasoning")


class CallCells(NamedTuple):
    """The cells that a call adds to. ``tokens`` are in the order of ``TOKEN_KINDS``."""

    calls: Cells
    tokens: tuple[Cells, ...]
    wholesale: Cells
    retail: Cells
    seconds: Cells


class CallTable(dict[tuple[str, str, str, int | None, bool], CallCells]):
    """The cells of calls by model, provider, mode, status and whether they stream. The catalog bounds the table."""

    def __init__(self, make: Callable[[str, str, str, int | None, bool], CallCells]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, call: tuple[str, str, str, int | None, bool]) -> CallCells:
        cells = self[call] = self._make(*call)
        return cells

"""The numbers of metrics in a file: each series reads back, however many there are."""

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.telemetry.metric_cells import FIRST_BYTES, CellFile, CellMemory, Cells, Series, read_cells

SERIES = st.dictionaries(
    st.tuples(st.text(max_size=9), st.lists(st.text(max_size=9), max_size=3).map(tuple)),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=5),
    max_size=20,
)


def fill(memory: CellFile | CellMemory, series: dict[Series, list[float]]) -> dict[Series, Cells]:
    """Reserve every series, and set its numbers after all are reserved."""
    reserved = {one: memory.reserve(one, len(numbers)) for one, numbers in series.items()}
    assert all(not any(cells) for cells in reserved.values())
    for one, cells in reserved.items():
        for index, number in enumerate(series[one]):
            cells[index] = number
    return reserved


@given(series=SERIES)
def test_every_series_reads_back_from_its_file(
    tmp_path_factory: pytest.TempPathFactory, series: dict[Series, list[float]]
) -> None:
    file = tmp_path_factory.mktemp("cells") / "metrics_1.db"
    fill(CellFile(file), series)
    assert dict(read_cells(file)) == series


def test_a_file_grows_and_its_first_series_still_count(tmp_path: Path) -> None:
    file = tmp_path / "metrics_1.db"
    series: dict[Series, list[float]] = {("calls", (f"model-{at}",)): [1.0, 2.0] for at in range(5_000)}
    reserved = fill(CellFile(file), series)
    assert file.stat().st_size >= 2 * FIRST_BYTES
    reserved["calls", ("model-0",)][0] += 1
    found = dict(read_cells(file))
    assert found.pop(("calls", ("model-0",))) == [2.0, 2.0]
    assert all(numbers == [1.0, 2.0] for numbers in found.values())
    assert len(found) == 4_999


def test_a_file_that_can_not_grow_counts_on_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "metrics_1.db"
    series: dict[Series, list[float]] = {("calls", (f"model-{at}",)): [1.0] for at in range(5_000)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FIRST_BYTES, before[1]))
    try:
        reserved = fill(CellFile(file), series)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert all(list(cells) == [1.0] for cells in reserved.values())
    found = dict(read_cells(file))
    assert 1_000 < len(found) < 5_000
    assert found.items() <= series.items()


def test_a_new_file_takes_the_place_of_one_that_a_process_left(tmp_path: Path) -> None:
    file = tmp_path / "metrics_1.db"
    fill(CellFile(file), {("calls", ()): [7.0]})
    CellFile(file)
    assert list(read_cells(file)) == []


def test_cells_in_memory_count_on_their_own() -> None:
    series: dict[Series, list[float]] = {("calls", ()): [1.0], ("errors", ("a",)): [2.0, 3.0]}
    reserved = fill(CellMemory(), series)
    assert {one: list(cells) for one, cells in reserved.items()} == series

"""The order of the test files, and which process of the run has which: hooks of pytest that ``conftest.py`` takes over.

A process takes the next file when it is done with one. So the longest files come first, and files that wait together.
"""

import gc
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LONG = [
    TESTS / name
    for name in (
        "end_to_end/test_money_under_load.py",
        "end_to_end/test_workers.py",
        "end_to_end/test_worker_deaths.py",
        "end_to_end/test_corpus_replay.py",
        "end_to_end/test_crash.py",
        "browser",
        "end_to_end/canary",
        "end_to_end/test_run_sh.py",
        "end_to_end/test_fault_matrix.py",
        "unit/store/money/sqlite/test_file_processes.py",
        "unit/answers/test_answers_corpus.py",
        "unit/store/money/reports/test_totals.py",
        "unit/store/money/sums/test_rollups.py",
        "unit/store/test_protocol_model.py",
        "fleet/test_fleet.py",
        "unit/store/money/archives/test_archiving.py",
        "end_to_end/test_one_set_of_files.py",
        "end_to_end/test_alerts.py",
        "end_to_end/test_postgres_beside_calls.py",
        "unit/store/money/postgres/test_money.py",
        "unit/store/money/reports/test_names.py",
        "end_to_end/test_simulation.py",
        "unit/answers/normalize/test_normalize_corpus.py",
        "end_to_end/test_broken_files.py",
        "unit/store/money/reports/test_call_pages.py",
        "unit/store/money/sums/test_rollup_builder.py",
    )
]
"""The files and folders that take longest, the longest first."""

WAITING = [
    TESTS / name
    for name in (
        "end_to_end/test_serve_drain.py",
        "end_to_end/test_worker_template.py",
        "end_to_end/test_reload.py",
        "unit/store/test_protocol_pending_writes.py",
        "end_to_end/test_fallback_on_one_connection.py",
        "end_to_end/test_stopped_process.py",
        "unit/wire/test_http1_refusals.py",
        "unit/store/test_measured.py",
        "unit/store/test_protocol_refusals.py",
    )
]
"""Files that mostly wait for bounds of time to end. One process runs them all while the others keep the cores busy."""

TOGETHER = (TESTS / "browser", TESTS / "end_to_end" / "canary")
"""Folders whose files share a browser or a gateway. Each process that runs one of the files would need its own."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the objects of the collection from garbage collection: most of them live until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, so that the processes of the run end at about the same time."""
    first = [*WAITING, *LONG]
    assert not [path for path in first if not path.exists()], (
        "WAITING or LONG names a file that does not exist"
    )
    order = {path: place for place, path in enumerate(first)}
    items.sort(key=lambda item: order.get(item.path, order.get(item.path.parent, len(order))))


def groups_of(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the items that one process runs one after another: those of a file, of a folder of ``TOGETHER``, or of
    ``WAITING``."""
    group_of = cache(_group_of)  # Some thousand items have the same path.
    groups: dict[Path, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item.path), []).append(item)
    return list(groups.values())


def _group_of(path: Path) -> Path:
    return WAITING[0] if path in WAITING else next((one for one in TOGETHER if one in path.parents), path)

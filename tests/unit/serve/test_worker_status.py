"""A worker's status reads back as it was written, and each write is a sign of life."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.serve.worker_status import MAX_BYTES, WorkerStatus
from addon.telemetry.admin import Readiness


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@given(
    status=st.builds(Readiness, st.booleans(), st.dictionaries(st.text(), st.text())) | st.text(),
    number=st.integers(1, 3),
)
def test_a_status_reads_back(folder: Path, status: Readiness | str, number: int) -> None:
    WorkerStatus(folder, number).write(status)
    assert WorkerStatus(folder, number).read() == status


@given(
    text=st.binary()
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_any_other_text_is_no_status(folder: Path, text: bytes) -> None:
    (folder / "worker-9.json").write_bytes(text)
    assert WorkerStatus(folder, 9).read() is None


@pytest.mark.parametrize("text", ["[" * 100_000, '{"fault": "' + "x" * MAX_BYTES + '"}'])
def test_a_text_without_bounds_is_no_status(folder: Path, text: str) -> None:
    (folder / "worker-9.json").write_text(text)
    assert WorkerStatus(folder, 9).read() is None


def test_every_write_is_a_sign_of_life_and_only_news_replace_the_file(tmp_path: Path) -> None:
    status = WorkerStatus(tmp_path, 1)
    assert status.last_sign() is None
    assert status.read() is None
    status.write(Readiness(True, {"store": "ok"}))
    (file,) = tmp_path.iterdir()
    before, inode = status.last_sign(), file.stat().st_ino
    while status.last_sign() == before:  # The clock of a file system is coarse.
        status.write(Readiness(True, {"store": "ok"}))
    assert file.stat().st_ino == inode
    status.write(Readiness(True, {"store": "locked"}))
    assert status.read() == Readiness(True, {"store": "locked"})
    status.remove()
    assert (status.last_sign(), status.read()) == (None, None)


def test_a_status_that_can_not_be_written_is_a_sign_of_life_all_the_same(tmp_path: Path) -> None:
    status = WorkerStatus(tmp_path, 1)
    status.write(Readiness(True, {}))
    (tmp_path / "worker-1.new").mkdir()  # As a full disk would, this keeps the new text from being written.
    before = status.last_sign()
    while status.last_sign() == before:
        status.write(Readiness(False, {}))
    assert status.read() == Readiness(True, {})
    (tmp_path / "worker-1.new").rmdir()
    status.write(Readiness(False, {}))
    assert status.read() == Readiness(False, {})

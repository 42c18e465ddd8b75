"""A worker's status reads back as it was written, and a supervisor asks for it by number."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.serve.worker_status import MAX_BYTES, ReadinessQuestion, WorkerStatus
from addon.telemetry.admin import Readiness

READY = Readiness(True, {"store": "ok"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@given(
    readiness=st.builds(Readiness, st.booleans(), st.dictionaries(st.text(), st.text())),
    number=st.integers(1, 3),
    question=st.integers(0, 1_000),
)
def test_a_readiness_reads_back_as_the_answer_to_its_question_or_an_earlier_one(
    folder: Path, readiness: Readiness, number: int, question: int
) -> None:
    WorkerStatus(folder, number).write_readiness(readiness, question)
    status = WorkerStatus(folder, number)
    assert status.readiness() == status.readiness(question) == readiness
    assert status.readiness(question + 1) is None
    assert status.fault() is None


@given(fault=st.text())
def test_a_fault_reads_back_and_is_no_answer(folder: Path, fault: str) -> None:
    WorkerStatus(folder, 4).write_fault(fault)
    assert WorkerStatus(folder, 4).fault() == fault
    assert WorkerStatus(folder, 4).readiness() is None


@given(
    text=st.binary()
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_any_other_text_is_no_status(folder: Path, text: bytes) -> None:
    (folder / "worker-9.json").write_bytes(text)
    assert WorkerStatus(folder, 9).readiness() is None
    assert WorkerStatus(folder, 9).fault() is None


@pytest.mark.parametrize("text", ["[" * 100_000, '{"fault": "' + "x" * MAX_BYTES + '"}'])
def test_a_text_without_bounds_is_no_status(folder: Path, text: str) -> None:
    (folder / "worker-9.json").write_text(text)
    assert WorkerStatus(folder, 9).fault() is None


def test_every_touch_is_a_sign_of_life(tmp_path: Path) -> None:
    status = WorkerStatus(tmp_path, 1)
    status.touch()
    assert status.last_sign() is None
    status.write_readiness(READY, 0)
    before = status.last_sign()
    assert before is not None
    while status.last_sign() == before:  # The clock of a file system is coarse.
        status.touch()
    status.remove()
    assert (status.last_sign(), status.readiness()) == (None, None)


def test_an_answer_that_can_not_be_written_leaves_the_worker_alive(tmp_path: Path) -> None:
    status = WorkerStatus(tmp_path, 1)
    status.write_readiness(READY, 1)
    (tmp_path / "worker-1.new").mkdir()  # As a full disk would, this keeps the new text from being written.
    status.write_readiness(READY, 2)
    assert (status.readiness(1), status.readiness(2)) == (READY, None)
    before = status.last_sign()
    while status.last_sign() == before:
        status.touch()


def test_questions_are_counted_for_all_who_read_them(tmp_path: Path) -> None:
    asking, reading = ReadinessQuestion(tmp_path), ReadinessQuestion(tmp_path)
    asking.create()
    assert reading.number() == 0
    for number in (1, 2, 3):
        assert asking.ask() == number
        assert reading.number() == number

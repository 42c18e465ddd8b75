"""Heartbeats of one attempt, in simulated time: how many there are, and that a silence still ends."""

from pathlib import Path

import pytest
from rig.attempt_runs import (
    FIRST_BYTE_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    STREAMED,
    WHOLE,
    WHOLE_TIMEOUT_S,
    CallMaker,
    MakeCalls,
    write_settings,
)

from addon.calls.attempt_runner import HEARTBEAT

HEARTBEAT_S = 3


@pytest.fixture
def make(tmp_path: Path) -> MakeCalls:
    settings = write_settings(tmp_path / "settings", heartbeat_s=HEARTBEAT_S)
    return CallMaker(settings, tmp_path / "tollgate.db").make


def test_a_heartbeat_comes_after_each_silence_until_the_providers_time_is_over(make: MakeCalls) -> None:
    outcome = make("silent", STREAMED)
    [run], [answer] = outcome.result.runs, outcome.result.answers
    assert run.took_s == pytest.approx(FIRST_BYTE_TIMEOUT_S, abs=0.01)
    assert answer.body.count(HEARTBEAT) == FIRST_BYTE_TIMEOUT_S // HEARTBEAT_S
    assert answer.error_code == "upstream_error"


def test_heartbeats_between_two_pieces_count_from_the_first_of_them(make: MakeCalls) -> None:
    outcome = make("silent in the body", STREAMED)
    [run], [answer] = outcome.result.runs, outcome.result.answers
    assert IDLE_TIMEOUT_S < run.took_s < FIRST_BYTE_TIMEOUT_S
    _, *after_pieces = answer.body.rpartition(b'data: {"id"')[2].split(HEARTBEAT)
    assert len(after_pieces) == IDLE_TIMEOUT_S // HEARTBEAT_S


def test_a_stream_whose_pieces_come_in_time_has_no_heartbeats(tmp_path: Path) -> None:
    longest_pause_s = 7  # The simulated provider never pauses longer.
    settings = write_settings(tmp_path / "settings", heartbeat_s=longest_pause_s)
    outcome = CallMaker(settings, tmp_path / "tollgate.db").make("slow", STREAMED)
    [run], [answer] = outcome.result.runs, outcome.result.answers
    assert run.took_s > 2 * longest_pause_s
    assert (answer.status, answer.body.count(HEARTBEAT)) == (200, 0)


def test_a_whole_answer_has_no_heartbeats(make: MakeCalls) -> None:
    outcome = make("silent", WHOLE)
    [run], [answer] = outcome.result.runs, outcome.result.answers
    assert run.took_s == pytest.approx(WHOLE_TIMEOUT_S, abs=0.01)
    assert HEARTBEAT not in answer.body

"""Gateways that tests start have the fault of a run, and say which lines they run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mutation.faults import find_faults
from mutation.gateways import GatewayLines, plant_in_gateways
from rig import fork_server
from rig.configuration import ROOT, environment

RATE = "policies/token_bucket.py"
CODE = "from policies.token_bucket import slice_us; print(slice_us(500))"


@pytest.fixture
def program() -> Iterator[list[str]]:
    """What the fork server runs, which the test may change."""
    before = fork_server.PROGRAM.copy()
    yield fork_server.PROGRAM
    fork_server.PROGRAM[:] = before


def test_a_process_that_the_fork_server_starts_has_the_fault(
    program: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    faults = find_faults(RATE, (ROOT / RATE).read_text(encoding="utf-8"))
    plant_in_gateways(next(fault for fault in faults if fault.before == "WINDOW_US // GROUPS"))
    server = fork_server.ForkServer()
    monkeypatch.setattr(fork_server, "fork_server", lambda: server)
    done = fork_server.run_forked(["python", "-c", CODE], environment({}), tmp_path)
    assert (done.stderr, int(done.stdout) > 150_000) == ("", True)


def test_lines_of_several_processes_are_read_once(program: list[str]) -> None:
    with GatewayLines.recording() as lines:
        gateway = GatewayLines(program[-1])
        before = gateway.round()
        gateway.write("/a/call.py", 7)
        lines.write("/a/b c.py", 12)
        assert lines.take() == {("/a/call.py", 7), ("/a/b c.py", 12)}
        assert gateway.round() != before
        assert lines.take() == set()
        gateway.close()

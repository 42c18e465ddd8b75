"""A run tells faults that a test catches from those that none does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only

CHECKS = "assert token_bucket.slice_us(1) == 0 and token_bucket.slice_us(500) == 150_000"
ONLY_RUNS = "token_bucket.slice_us(500)"


@large_only
@pytest.mark.parametrize(
    ("statement", "outcome"), [(CHECKS, "caught"), (ONLY_RUNS, "survived")], ids=["checks", "only runs"]
)
def test_only_a_test_that_checks_catches_faults(statement: str, outcome: str, tmp_path: Path) -> None:
    test = tmp_path / "test_bucket.py"
    test.write_text(f"from policies import token_bucket\n\ndef test_it():\n    {statement}\n")
    command = [sys.executable, "-m", "mutation", "--tests", str(test), "policies/token_bucket.py"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BOUND_S)
    expected = f" {outcome}: policies/token_bucket.py:21 slice_us: WINDOW_US // GROUPS -> WINDOW_US * GROUPS"
    assert expected in done.stdout, done.stderr
    assert done.returncode == ("survived" in done.stdout)

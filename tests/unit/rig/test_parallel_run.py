"""A run of tests in forked processes, and at both sizes, as a pytest of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only, sampled

PLUGINS = 'pytest_plugins = ["rig.failure_lines", "rig.large", "rig.parallel_run"]'
TESTS = {
    "passing": "import os\ndef test_first(): print(os.getppid())\ndef test_second(): pass\n",
    "failing": "def test_wrong():\n    print('said before')\n    assert 1 == 2\n",
    "breaking": "import pytest\n@pytest.fixture\ndef it():\n    yield\n    1 / 0\ndef test_right(it): pass\n",
    "skipped": "import pytest\ndef test_no(): pytest.skip('no reason')\n",
}
SIZED = {
    "sized": """
import pytest
from rig.large import large, large_only, sampled, sized
def test_plain(): pass
@large
def test_size(): print("size", sized(2, 20))
@sampled(every=3)
@pytest.mark.parametrize("n", range(5))
def test_some(n): pass
@large_only
def test_whole(): pass
"""
}
DYING = {"dying": "import os\ndef test_last(): os.kill(os.getpid(), 9)\n"}


def test_every_outcome_is_shown_and_failures_are_named_at_once(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, TESTS)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "1 failed, 3 passed, 1 skipped, 1 error" in lines[-1]
    at_once = lines[: next(n for n, line in enumerate(lines) if "= ERRORS =" in line)]
    assert "FAILED test_failing.py::test_wrong - assert 1 == 2" in at_once
    assert "FAILED test_breaking.py::test_right - ZeroDivisionError: division by zero" in at_once
    assert "said before" in lines
    assert "SKIPPED [1] test_skipped.py:2: no reason" in lines


@large_only
def test_a_process_that_dies_fails_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, TESTS | DYING)
    assert done.returncode == 1
    assert "the process that ran test_dying.py::test_last has died" in done.stdout


@sampled(every=3)
@pytest.mark.parametrize(
    ("arguments", "line", "size"),
    [
        (["."], "4 passed, 4 deselected", "size 2"),
        (["test_sized.py"], "8 passed", "size 2"),
        ([".", "--large"], "7 passed, 1 deselected", "size 20"),
    ],
)
def test_what_is_large_runs_in_part_or_whole(
    tmp_path: Path, arguments: list[str], line: str, size: str
) -> None:
    done = run_pytest(tmp_path, SIZED, *arguments, "-rP")
    assert line in done.stdout.splitlines()[-1]
    assert size in done.stdout.splitlines()


def run_pytest(folder: Path, tests: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run these modules of tests in two processes."""
    (folder / "conftest.py").write_text(PLUGINS, encoding="utf-8")
    for name, code in tests.items():
        (folder / f"test_{name}.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "-c",
            ROOT / "pyproject.toml",
            f"--rootdir={folder}",
            *(arguments or ["."]),
        ],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

"""run.sh on a test project with empty lock files: the real script and a real environment, without packages."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT

PROGRAM = """
import os, sys
print(os.getpid(), *sys.argv[1:], flush=True)
if sys.argv[1:2] == ["wait"]:
    sys.stdin.read()
sys.exit(7)
"""


def environment(**changes: str) -> dict[str, str]:
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TOLLGATE_PYTHON": sys.executable}
    return plain | changes


def start(script: Path, *arguments: str, cwd: Path | None = None, **changes: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(script), *arguments],
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: Path, *arguments: str, cwd: Path | None = None, **changes: str) -> tuple[int, str, str]:
    """Run the script. Return the exit status, standard output and standard error."""
    process = start(script, *arguments, cwd=cwd, **changes)
    out, err = process.communicate(timeout=BOUND_S)
    return process.returncode, out, err


def make_project(folder: Path) -> Path:
    """Write a project with a program that prints its process id and its arguments. Return its run.sh."""
    (folder / "addon").mkdir(parents=True)
    (folder / "addon" / "cli.py").write_text(PROGRAM)
    for lock in ("requirements.lock", "requirements-test.lock"):
        (folder / lock).write_text("# no packages\n")
    return Path(shutil.copy2(ROOT / "run.sh", folder))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose environment was made by two first runs at the same time."""
    script = make_project(tmp_path_factory.mktemp("run") / "a folder with spaces")
    both = [start(script, "first"), start(script, "first")]
    outcomes = [(*process.communicate(timeout=BOUND_S), process.returncode) for process in both]
    assert all(out.endswith(" first\n") and status == 7 for out, _, status in outcomes), outcomes
    assert sum("installing requirements.lock" in err for _, err, _ in outcomes) == 1
    return script


def test_a_later_run_passes_on_output_and_exit_status(script: Path):
    status, out, err = run(script, "keys", "two words")
    assert (status, out.split(maxsplit=1)[1], err) == (7, "keys two words\n", "")


def test_without_arguments_it_serves_the_configuration_in_its_folder(script: Path, tmp_path: Path):
    (tmp_path / "addon").mkdir()
    (tmp_path / "addon" / "cli.py").write_text("raise SystemExit('the wrong program')")
    (tmp_path / "link").symlink_to(os.path.relpath(script, tmp_path))
    _, out, err = run(tmp_path / "link", cwd=tmp_path)
    assert (out.split(maxsplit=1)[1], err) == (f"serve --conf {script.parent.resolve()}/proxy.conf\n", "")


def test_without_arguments_it_serves_the_configuration_that_the_variable_names(script: Path):
    _, out, err = run(script, TOLLGATE_CONF="/srv/gateway/proxy.conf")
    assert (out.split(maxsplit=1)[1], err) == ("serve\n", "")
    _, out, err = run(script, TOLLGATE_CONF="")
    assert (out.split(maxsplit=1)[1], err) == (f"serve --conf {script.parent.resolve()}/proxy.conf\n", "")


def test_a_signal_reaches_the_program(script: Path):
    with start(script, "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} wait\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == -signal.SIGTERM


def test_a_changed_lock_file_makes_a_new_environment_with_a_working_python(tmp_path: Path):
    script = make_project(tmp_path / "project")
    half_made = script.parent / ".venv" / "left-over"
    half_made.parent.mkdir()
    half_made.touch()
    commands = {"python3.19": "exit 127", "python3.18": f'exec "{sys.executable}" "$@"'}
    for name, command in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    search = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOLLGATE_PYTHON": ""}
    status, _, err = run(script, **search)
    version = ".".join(map(str, sys.version_info[:3]))
    assert (status, f"(Python {version})" in err, half_made.exists()) == (7, True, False), err
    assert run(script, **search)[2] == ""
    (script.parent / "requirements.lock").write_text("# no packages, but another lock\n")
    assert "installing requirements.lock" in run(script, **search)[2]


def test_a_python_that_does_not_work_is_refused_in_one_sentence(tmp_path: Path):
    script = make_project(tmp_path / "project")
    status, out, err = run(script, TOLLGATE_PYTHON="/nonexistent/python")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tollgate: TOLLGATE_PYTHON=/nonexistent/python is no working Python 3.12 or newer")


def test_the_lock_files_pin_and_hash_every_package_and_name_no_host():
    for lock in ("requirements.lock", "requirements-test.lock"):
        text = (ROOT / lock).read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins
        assert all("==" in pin and pin.endswith(" \\") for pin in pins)
        assert not any(word in text for word in ("://", "--index", "--find-links", " @ "))

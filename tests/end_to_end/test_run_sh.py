"""run.sh on a test project with empty lock files: the real script and a real environment, without packages."""

import os
import pty
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only

PROGRAM = """
import os, sys
print(os.getpid(), *sys.argv[1:], flush=True)
if sys.argv[1:2] == ["wait"]:
    sys.stdin.read()
sys.exit(8 if sys.argv[1:2] == ["utf-8?"] and not sys.flags.utf8_mode else 7)
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


def read_only(*command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user who has no more rights than the modes of files give."""
    limits: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can't give up its rights here: there is no setpriv")
        rights = "-dac_override,-dac_read_search,-fowner"
        limits = ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}")
    return subprocess.run(
        [*limits, *command], env=environment(**changes), capture_output=True, text=True, timeout=BOUND_S
    )


@contextmanager
def without_write_access(folder: Path) -> Iterator[None]:
    """Take the right to write from all files of a folder."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*")) if not path.is_symlink()}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def run_on_a_terminal(script: Path, **changes: str) -> str:
    """Run the script with a terminal as its standard error. Return what the terminal received."""
    reading, terminal = pty.openpty()
    command = [str(script), "first"]
    with subprocess.Popen(command, env=environment(**changes), stdout=subprocess.DEVNULL, stderr=terminal):
        os.close(terminal)
        seen = b""
        with suppress(OSError):  # The end of a terminal is an error.
            while piece := os.read(reading, 4096):
                seen += piece
    os.close(reading)
    return seen.decode()


def make_wheel(folder: Path, name: str) -> str:
    """Write a package without code. Return the line of a lock file for it."""
    info = f"{name}-1.0.dist-info"
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{sha256(wheel.read_bytes()).hexdigest()}\n"


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
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of someone else: a module for each name that Python may import. Each writes its name to ``ran``."""
    folder = tmp_path_factory.mktemp("shared")
    for name in sys.stdlib_module_names | {"pip", "addon", "benchmarks", "pytest", "ruff", "mypy"}:
        code = f"open({str(folder / 'ran')!r}, 'a').write({name + chr(10)!r})\n"
        (folder / f"{name}.py").write_text(code)
    uv = folder / "uv"
    uv.write_text(f'#!/bin/sh\necho "$PWD" >>"{folder}/uv-ran-in"\n[ "$1" = --version ]\n')
    uv.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, hostile: Path) -> Path:
    """A project whose environment was made by two first runs at the same time."""
    script = make_project(tmp_path_factory.mktemp("run") / "a folder with spaces")
    both = [start(script, "first", cwd=hostile), start(script, "first", cwd=hostile)]
    outcomes = [(*process.communicate(timeout=BOUND_S), process.returncode) for process in both]
    assert all(out.endswith(" first\n") and status == 7 for out, _, status in outcomes), outcomes
    assert sum("installing requirements.lock" in err for _, err, _ in outcomes) == 1
    return script


@large_only
def test_no_module_of_the_current_folder_runs(script: Path, hostile: Path):
    for command in ("keys", "test", "bench", "lock"):
        run(script, command, cwd=hostile)
    assert not (hostile / "ran").exists(), (hostile / "ran").read_text()
    assert (script.parent / ".venv" / "requirements-test.stamp").exists()


@large_only
def test_uv_reads_no_settings_of_the_current_folder(hostile: Path, tmp_path: Path):
    script = make_project(tmp_path / "project")
    # This uv does nothing, so Python makes the environment.
    status, _, err = run(script, "first", cwd=hostile, PATH=f"{hostile}:/usr/bin:/bin")
    folders = (hostile / "uv-ran-in").read_text().splitlines()
    assert (status, set(folders)) == (7, {str(script.parent)}), err


def test_a_later_run_passes_on_output_and_exit_status(script: Path):
    status, out, err = run(script, "keys", "two words")
    assert (status, out.split(maxsplit=1)[1], err) == (7, "keys two words\n", "")


@large_only
def test_the_bare_name_of_a_folder_of_tests_is_what_is_large_in_it(script: Path):
    for name in ("pytest", "ruff", "mypy"):
        (script.parent / f"{name}.py").write_text("import sys; print(*sys.argv[1:])")
    (script.parent / "tests" / "vendors").mkdir(parents=True)
    for given, passed in (
        (("vendors", "-k", "one"), "tests/vendors --large -k one"),
        (("tests/vendors",), "tests/vendors"),
        (("others",), "others"),
    ):
        status, out, err = run(script, "test", *given)
        first, *_ = out.splitlines()
        assert (status, first.split(maxsplit=2)[2]) == (0, passed), err


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


def test_a_user_who_can_not_write_the_folder_runs_the_program(script: Path):
    before = sorted(script.parent.rglob("*"))
    with without_write_access(script.parent):
        ran = read_only(str(script), "keys", HOME="")
    assert (ran.returncode, ran.stdout.split(maxsplit=1)[1], ran.stderr) == (7, "keys\n", "")
    assert sorted(script.parent.rglob("*")) == before


def test_a_user_who_can_not_make_the_environment_learns_who_can(tmp_path: Path):
    script = make_project(tmp_path / "project")
    with without_write_access(script.parent):
        ran = read_only(str(script))
    owner = script.parent.owner()
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1), ran.stderr
    assert f".venv is not made yet, or not for this requirements.lock, and {owner} can't write" in ran.stderr
    assert f"Let {owner} run once: {script} --version" in ran.stderr
    assert not (script.parent / ".venv.lock").exists()


def test_the_program_writes_utf_8_in_every_locale(script: Path):
    assert run(script, "utf-8?", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")[0] == 7


def test_a_user_who_can_not_start_the_python_learns_where_it_is(tmp_path: Path):
    script = make_project(tmp_path / "project")
    python = script.parent / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("python3")
    python.with_name("python3").symlink_to(missing := tmp_path / "private" / "python3.13")
    (script.parent / ".venv" / "requirements.stamp").write_text("made\n")
    with without_write_access(script.parent):
        ran = read_only(str(script), TOLLGATE_PYTHON="")
    assert (ran.returncode, f"can't start {python}, which needs {missing}." in ran.stderr) == (1, True), (
        ran.stderr
    )


def test_a_signal_reaches_the_program(script: Path):
    with start(script, "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} wait\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == -signal.SIGTERM


@large_only
def test_a_new_environment_needs_a_working_python_and_shows_its_progress(tmp_path: Path):
    script = make_project(tmp_path / "project")
    half_made = script.parent / ".venv" / "left-over"
    half_made.parent.mkdir()
    half_made.touch()
    commands = {"python3.19": "exit 127", "python3.18": f'exec "{sys.executable}" "$@"'}
    for name, command in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    search = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOLLGATE_PYTHON": ""}
    lock = script.parent / "requirements.lock"
    packages = "".join(make_wheel(tmp_path, name) for name in ("first_one", "second_one"))
    search |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    lock.write_text(packages.replace("sha256:", "sha256:0"))
    failed = run_on_a_terminal(script, **search)
    assert not half_made.exists()
    assert "can't install the packages of requirements.lock (see above)" in failed.splitlines()[-1]

    lock.write_text(packages)
    seen = run_on_a_terminal(script, **search)
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"installing requirements.lock into .venv (Python {version}): up to 2 packages" in seen
    assert "  1 of 2: first_one" in seen
    assert "  2 of 2: second_one" in seen
    assert "installed requirements.lock in " in seen.splitlines()[-1]
    assert run(script, **search)[::2] == (7, "")

    lock.write_text("# other packages\n")
    with without_write_access(script.parent):
        assert "is not made yet, or not for this requirements.lock" in read_only(str(script), **search).stderr


def test_a_python_that_does_not_work_is_refused_in_one_sentence(tmp_path: Path):
    script = make_project(tmp_path / "project")
    status, out, err = run(script, TOLLGATE_PYTHON="/nonexistent/python")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tollgate: TOLLGATE_PYTHON=/nonexistent/python is no working Python 3.12 or newer")


def test_without_any_python_the_hint_names_uv_which_brings_one(tmp_path: Path):
    script = make_project(tmp_path / "project")
    # No system has this version, and the PATH has no Python at all.
    script.write_text(script.read_text().replace("for minor in 19 18 17 16 15 14 13 12;", "for minor in 99;"))
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "tr", "readlink", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    status, out, err = run(script, PATH=str(tools), TOLLGATE_PYTHON="")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tollgate: found no working Python 3.12 or newer. Install uv")
    assert "TOLLGATE_PYTHON" in err


def test_the_lock_files_pin_and_hash_every_package_and_name_no_host():
    for lock in ("requirements.lock", "requirements-test.lock"):
        text = (ROOT / lock).read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins
        assert all("==" in pin and pin.endswith(" \\") for pin in pins)
        assert not any(word in text for word in ("://", "--index", "--find-links", " @ "))

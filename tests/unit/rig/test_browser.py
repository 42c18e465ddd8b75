"""The script that finds or fetches a Chromium, with other programs on PATH."""

import shutil
import subprocess
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT

TOOLS = ("mkdir", "mktemp", "tail", "rm", "id", "flock", "cat", "chmod", "grep", "mv")


def install(script: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Run the script without HOME, as a service does."""
    return subprocess.run(
        [str(script)], env={"PATH": path}, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A project that has only the script."""
    folder = tmp_path / "a folder with spaces" / "tests"
    folder.mkdir(parents=True)
    return Path(shutil.copy2(ROOT / "tests" / "install_chromium.sh", folder))


def bare_path(folder: Path, *tools: str, **programs: str) -> str:
    """Return a PATH with a few plain tools and these programs (shell scripts), without apt and Chromium."""
    folder.mkdir()
    for tool in ("sh", "dirname", "sed", *tools):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    for name, text in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("chromium", "Chromium 156.0.8078.79 built on Debian GNU/Linux 12 (bookworm)"),
        ("google-chrome", "Google Chrome 131.0.6778.85 "),
    ],
)
def test_a_browser_on_path_is_used_and_nothing_is_fetched(
    script: Path, tmp_path: Path, name: str, says: str
) -> None:
    path = bare_path(tmp_path / "bin", **{name: f"echo '{says}'"})
    done = install(script, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}/{name}\n", "")
    assert not (script.parents[1] / ".chromium").exists()


@pytest.mark.parametrize("says", ["echo 'Chromium 90.0.4430.212 built on Debian'", "exit 127"])
def test_a_browser_that_is_too_old_or_broken_does_not_count(script: Path, tmp_path: Path, says: str) -> None:
    done = install(script, bare_path(tmp_path / "bin", chromium=says))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tollgate: no Chromium 130 or newer is on PATH, and there is no apt to fetch Debian's.\n"
    )


def test_when_apt_fails_its_last_line_is_shown_and_nothing_is_left(script: Path, tmp_path: Path) -> None:
    failing = "echo 'E: the network is unreachable' >&2; exit 100"
    done = install(script, bare_path(tmp_path / "bin", *TOOLS, apt_get=failing, dpkg="exit 1"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tollgate: no Chromium 130 or newer from apt: E: the network is unreachable\n"
    assert [left.name for left in (script.parents[1] / ".chromium").iterdir()] == ["lock"]

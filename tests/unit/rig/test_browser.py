"""The script that finds or fetches a Chromium, with other programs on PATH."""

from pathlib import Path

import pytest
from rig.bare_path import bare_path, copy_script, run_script

TOOLS = ("mkdir", "mktemp", "tail", "rm", "id", "flock", "cat", "chmod", "grep", "mv")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A project that has only the script."""
    return copy_script(tmp_path, "install_chromium.sh")


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
    done = run_script(script, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}/{name}\n", "")
    assert not (script.parents[1] / ".chromium").exists()


@pytest.mark.parametrize("says", ["echo 'Chromium 90.0.4430.212 built on Debian'", "exit 127"])
def test_a_browser_that_is_too_old_or_broken_does_not_count(script: Path, tmp_path: Path, says: str) -> None:
    done = run_script(script, bare_path(tmp_path / "bin", chromium=says))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tollgate: no Chromium 130 or newer is on PATH, and there is no apt to fetch Debian's.\n"
    )


def test_when_apt_fails_its_last_line_is_shown_and_nothing_is_left(script: Path, tmp_path: Path) -> None:
    failing = "echo 'E: the network is unreachable' >&2; exit 100"
    done = run_script(script, bare_path(tmp_path / "bin", *TOOLS, apt_get=failing, dpkg="exit 1"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tollgate: no Chromium 130 or newer from apt: E: the network is unreachable\n"
    assert [left.name for left in (script.parents[1] / ".chromium").iterdir()] == ["lock"]

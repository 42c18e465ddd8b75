"""The version of the code on the disk changes with each of its files, and with nothing else."""

import os
from pathlib import Path

from addon.settings.code_version import find_code_version


def test_only_files_of_the_program_count(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    seen = [find_code_version(tmp_path)]
    for name in ("addon/a.py", "addon/b/c.py", "policies/routing.py", "addon/d.html"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one")
        seen.append(find_code_version(tmp_path))
    os.utime(tmp_path / "addon/a.py", ns=(0, 0))
    seen.append(find_code_version(tmp_path))
    assert len(set(seen)) == len(seen)
    for name in ("addon/a.pyc", "tests.py", "addon/notes.txt", "policies/house.py"):
        (tmp_path / name).write_text("one")
    # The lock file of an editor.
    for folder in ("addon", "policies"):
        (tmp_path / folder / ".#a.py").symlink_to("user@host.1")
    assert find_code_version(tmp_path) == seen[-1]

"""An atomic write replaces the whole content, keeps the access rights, and leaves nothing else behind."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rig.configuration import ROOT

from addon.runtime.atomic_files import (
    ABANDONED_S,
    FileChangedError,
    remove_abandoned,
    replace_unchanged,
    write_atomically,
)


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new", "text é")
    assert (tmp_path / "new").read_text(encoding="utf-8") == "text é"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a much longer old content")
    file.chmod(0o640)
    write_atomically(file, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [file]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.mkdir()
    with pytest.raises(OSError):
        write_atomically(file, "new")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("is_new", [False, True])
def test_a_text_that_another_program_saves_during_the_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """The sync to the disk takes longest, so an editor that saves at any time saves then."""
    file, sync = tmp_path / "file", os.fsync
    before = None if is_new else b"old"
    if before:
        file.write_bytes(before)

    def sync_while_an_editor_saves(descriptor: int) -> None:
        file.write_bytes(b"saved by an editor")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_while_an_editor_saves)
    with pytest.raises(FileChangedError, match="was changed by another program at the same time"):
        replace_unchanged(file, "new", before)
    assert file.read_bytes() == b"saved by an editor"
    assert list(tmp_path.iterdir()) == [file]


def test_a_text_that_no_one_else_changed_is_replaced(tmp_path: Path) -> None:
    replace_unchanged(tmp_path / "file", "old", None)
    replace_unchanged(tmp_path / "file", "new", b"old")
    assert (tmp_path / "file").read_text() == "new"


def test_errors_name_the_file_or_its_folder_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        write_atomically(tmp_path / "none" / "file", "new")
    assert missing.value.filename == str(tmp_path / "none")

    def sync_to_a_full_disk(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync_to_a_full_disk)
    with pytest.raises(OSError, match="No space left on device") as full:
        write_atomically(tmp_path / "file", "new")
    assert full.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from addon.runtime import atomic_files
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
atomic_files.write_atomically(Path(sys.argv[1]), "a secret")
"""


def test_the_new_file_of_a_process_that_died_is_removed_later(tmp_path: Path) -> None:
    file = tmp_path / "acme.toml"
    file.write_text("old")
    others = [tmp_path / name for name in (".acme.toml.swp", ".new", "x.new", ".acme.toml.abcdefgh")]
    for other in others:
        other.write_text("of another program")
        os.utime(other, (0, 0))
    subprocess.run([sys.executable, "-c", _KILLED, file], cwd=ROOT, check=False)
    [left] = set(tmp_path.iterdir()) - {file, *others}
    assert (file.read_text(), left.read_text()) == ("old", "a secret")
    remove_abandoned(tmp_path)
    assert left.exists()
    earlier_s = time.time() - ABANDONED_S - 1
    os.utime(left, (earlier_s, earlier_s))
    remove_abandoned(tmp_path)
    assert set(tmp_path.iterdir()) == {file, *others}
    remove_abandoned(tmp_path / "nowhere")

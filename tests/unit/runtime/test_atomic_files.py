"""An atomic write replaces the whole content, keeps the access rights, and leaves nothing else behind."""

import errno
import os
from pathlib import Path

import pytest

from addon.runtime.atomic_files import FileChangedError, replace_unchanged, write_atomically


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

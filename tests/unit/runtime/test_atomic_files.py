"""An atomic write replaces the whole content, keeps the access rights, and leaves nothing else behind."""

from pathlib import Path

import pytest

from addon.runtime.atomic_files import write_atomically


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

"""The content of a file, its stamp, and its text and TOML."""

from pathlib import Path

import pytest

from addon.settings.errors import SettingsError
from addon.settings.file_content import MAX_FILE_BYTES, make_absolute, parse_toml, read_content, read_stamp


def test_content_is_read_with_its_stamp_and_mode(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"text")
    file.chmod(0o640)
    found = read_content(file)
    assert (found.content, found.mode & 0o777, found.stamp) == (b"text", 0o640, read_stamp(file))
    assert not found.is_missing
    assert "text" not in repr(found)


def test_a_missing_file_has_no_stamp(tmp_path: Path) -> None:
    found = read_content(tmp_path / "missing")
    assert (found.is_missing, found.stamp) == (True, None)


def test_a_file_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    assert isinstance(read_content(file).content, OSError)
    with file.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES)
    assert read_content(file).content == bytes(MAX_FILE_BYTES)


def test_a_change_of_the_mode_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"text")
    file.chmod(0o600)
    before = read_content(file)
    assert read_content(file).equals(before)
    file.chmod(0o644)
    assert not read_content(file).equals(before)
    file.unlink()
    assert not read_content(file).equals(before)
    assert read_content(file).equals(read_content(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = 1\nb c\n", "is not TOML: .*line 2"),
        (b"a = '\xff'", "is not UTF-8 at byte 5"),
        (b"\xef\xbb\xbfa = 1", "begins with a byte order mark; save it as UTF-8 without one"),
        (b"a = " + b"[" * 100_000, "is not TOML: nested too deeply"),
    ],
    ids=["syntax", "encoding", "mark", "depth"],
)
def test_content_that_is_not_toml_is_an_error(content: bytes, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        parse_toml(content, Path("a.toml"))


def test_an_absolute_path_has_no_parent_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert make_absolute(Path("a/../b")) == tmp_path / "b"

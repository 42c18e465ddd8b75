"""A folder beside the files in the ledger: what differs, and what someone else has changed since the last pull."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.edits.shared_files import (
    BASE_FILE,
    FileDifference,
    compare,
    find_changed_since,
    read_base,
    read_folder,
    write_base,
)
from addon.edits.workspace_files import EditError, hash_content

FILES = st.dictionaries(st.sampled_from(["acme", "beta", "gamma"]), st.sampled_from(["1", "2", ""]))


def test_only_workspace_files_of_the_folder_are_read(tmp_path: Path) -> None:
    for name in ("acme.toml", ".hidden.toml", "notes.txt", BASE_FILE):
        (tmp_path / name).write_text(name)
    (tmp_path / "more").mkdir()
    assert read_folder(tmp_path) == {"acme": "acme.toml"}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("two words.toml", b"", "can't name a workspace"),
        ("tg_0123456789abcdef0123456789abcdef.toml", b"", "looks like a credential"),
        ("acme.toml", b'name = "\xff"', "is not UTF-8 at byte 8"),
        ("acme.toml", b"name\0", "has a NUL character"),
    ],
)
def test_a_file_that_the_ledger_can_t_have_is_named(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EditError, match=reason):
        read_folder(tmp_path)


def test_a_folder_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(EditError, match="no such folder"):
        read_folder(tmp_path / "none")


def test_a_difference_says_what_a_push_would_do() -> None:
    found = compare({"same": "1", "other": "1", "gone": "1"}, {"same": "1", "other": "2", "new": "1"})
    assert [(one.workspace, one.kind) for one in found] == [
        ("gone", "removed"),
        ("new", "added"),
        ("other", "changed"),
    ]
    assert found[1] == FileDifference("new", None, "1")


def test_the_base_is_kept_with_the_folder(tmp_path: Path) -> None:
    assert read_base(tmp_path) is None
    write_base(tmp_path, {"acme": "1"})
    assert read_base(tmp_path) == {"acme": hash_content(b"1")}
    assert read_folder(tmp_path) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", "1"])
def test_a_base_that_can_t_be_read_is_no_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / BASE_FILE).write_text(content)
    with pytest.raises(EditError, match="can't be read; pull again"):
        read_base(tmp_path)


@given(FILES, FILES)
def test_a_push_makes_the_ledger_the_folder_and_a_later_change_is_noticed(
    in_ledger: dict[str, str], in_folder: dict[str, str]
) -> None:
    pushed = dict(in_ledger)
    for one in compare(in_ledger, in_folder):
        if one.in_folder is None:
            del pushed[one.workspace]
        else:
            pushed[one.workspace] = one.in_folder
    assert pushed == in_folder
    base = {name: hash_content(text.encode()) for name, text in in_ledger.items()}
    assert find_changed_since(base, in_folder) == [one.workspace for one in compare(in_ledger, in_folder)]
    assert find_changed_since(None, in_ledger) == sorted(in_ledger)

"""``tollgate check`` warns of files that every user of the machine may read or write."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rig.settings_files import edit, write_files

from addon.settings.file_access import find_open_files
from addon.settings.settings import load_settings

PASSWORD, WORKSPACES = "secrets/password", "policies/workspaces"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Files whose password is in a file. The folders above let others in, which those of ``tmp_path`` do not."""
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        if not all(parent.stat().st_mode & 0o001 for parent in folder.parents):
            pytest.skip("others can't reach the folder of temporary files here")
        conf_file = write_files(folder)
        edit(conf_file, "[billing]", f'[admin]\nconsole_password = "file:{PASSWORD}"\n\n[billing]')
        (folder / "secrets").mkdir()
        (folder / PASSWORD).write_text("correct horse battery")
        for name in ("proxy.conf", PASSWORD, WORKSPACES):
            (folder / name).chmod(0o700)
        yield folder


def found(folder: Path) -> list[str]:
    warnings = find_open_files(load_settings(folder / "proxy.conf", {}))
    return [str(one).replace(f"{folder}/", "").partition(";")[0] for one in warnings]


# file, mode, whether others may enter its folder, the beginning of the warning
MODES = [
    ("proxy.conf", 0o600, True, None),
    ("proxy.conf", 0o660, True, None),
    ("proxy.conf", 0o604, True, "proxy.conf: every user of this machine may read it"),
    ("proxy.conf", 0o644, False, None),
    ("proxy.conf", 0o602, False, "proxy.conf: every user of this machine may write it"),
    ("proxy.conf", 0o646, False, "proxy.conf: every user of this machine may read and write it"),
    (WORKSPACES, 0o750, True, None),
    (WORKSPACES, 0o705, True, f"{WORKSPACES}: every user of this machine may read it"),
    (WORKSPACES, 0o705, False, None),
    (WORKSPACES, 0o701, True, None),
    (WORKSPACES, 0o777, False, f"{WORKSPACES}: every user of this machine may read and write it"),
    (PASSWORD, 0o640, True, None),
    (PASSWORD, 0o604, False, f"{PASSWORD}: admin.console_password: every user of this machine may read it"),
    (PASSWORD, 0o602, True, f"{PASSWORD}: admin.console_password: every user of this machine may write it"),
]


@pytest.mark.parametrize(("name", "mode", "is_open", "warning"), MODES)
def test_a_file_that_others_may_use_is_a_warning(
    folder: Path, name: str, mode: int, *, is_open: bool, warning: str | None
) -> None:
    (folder / "policies").chmod(0o711)
    folder.chmod(0o711 if is_open else 0o700)
    (folder / name).chmod(mode)
    assert found(folder) == [warning] * (warning is not None)


def test_a_file_behind_a_link_counts_and_a_missing_one_does_not(folder: Path) -> None:
    (folder / PASSWORD).rename(folder / "elsewhere")
    (folder / PASSWORD).symlink_to("../elsewhere")
    (folder / "elsewhere").chmod(0o644)
    assert len(found(folder)) == 1
    (folder / "elsewhere").unlink()
    assert found(folder) == []

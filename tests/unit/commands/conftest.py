"""Fixtures of the tests of commands."""

from pathlib import Path

import pytest
from rig.settings_files import write_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a proxy.conf and its files."""
    write_files(tmp_path)
    return tmp_path

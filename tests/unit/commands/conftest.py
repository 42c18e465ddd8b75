"""Fixtures of the tests of commands."""

from pathlib import Path

import pytest
from rig.settings_files import write_files
from rig.usage_report import CALLS, write_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a proxy.conf and its files."""
    write_files(tmp_path)
    return tmp_path


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A proxy.conf that names its ledger."""
    file = tmp_path / "proxy.conf"
    file.write_text('[paths]\ndatabase = "var/ledger.db"\n')
    return file


@pytest.fixture
def ledger(conf: Path) -> Path:
    """The ledger of ``conf``, with a few calls."""
    return write_rows(conf, CALLS)

"""Fixtures of the tests of settings."""

from pathlib import Path

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import write_files


@pytest.fixture
def live(tmp_path: Path) -> LiveSettings:
    write_files(tmp_path)
    return LiveSettings(tmp_path)

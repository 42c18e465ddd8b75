"""Calls to one provider on a simulated network."""

from pathlib import Path

import pytest
from rig.attempt_runs import CallMaker, MakeCalls, write_settings

from addon.settings.settings import Settings


@pytest.fixture(scope="module")
def attempt_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return write_settings(tmp_path_factory.mktemp("attempt-runner"))


@pytest.fixture
def make(attempt_settings: Settings, tmp_path: Path) -> MakeCalls:
    return CallMaker(attempt_settings, tmp_path / "tollgate.db").make

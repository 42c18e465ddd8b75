"""The fixture of tests that read the log."""

from collections.abc import Iterator

import pytest
from rig.log_lines import Lines, configured_log


@pytest.fixture
def lines() -> Iterator[Lines]:
    with configured_log() as stream:
        yield stream

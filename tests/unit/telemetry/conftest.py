"""The fixture of tests that read the log."""

import logging
from collections.abc import Iterator

import pytest
from rig.log_lines import Lines

from addon.telemetry.logs import configure_logging


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    names = ("tollgate", "mitmproxy", "asyncio", "tornado", "hpack")
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in names}
    stream = Lines()
    configure_logging(stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)

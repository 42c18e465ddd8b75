"""Log lines that a test reads back."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from addon.telemetry.logs import configure_logging


class Lines(io.StringIO):
    """A stream that reads back as JSON lines."""

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        (line,) = self.all
        return line


@contextmanager
def configured_log() -> Iterator[Lines]:
    """Send all logs to the lines that are yielded. Afterwards, logging is as before."""
    root = logging.getLogger()
    names = ("tollgate", "mitmproxy", "asyncio", "tornado", "hpack")
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in names}
    stream = Lines()
    configure_logging(stream)
    try:
        yield stream
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        for name, level in before[2].items():
            logging.getLogger(name).setLevel(level)

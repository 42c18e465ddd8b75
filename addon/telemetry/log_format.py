"""``JsonFormatter``: the JSON of one log line.

Messages of libraries and of exceptions are left out: the line has only the place in the code.
"""

import json
import logging
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from addon.telemetry.exception_text import format_exception
from addon.text.masking import mask_credentials

OURS = "tollgate"
WHOLE_BYTES = 4096
"""The largest write to a pipe that stays in one piece: PIPE_BUF on Linux. Source: pipe(7)."""
QUIET = ("mitmproxy", "asyncio", "tornado", "hpack")
WITHHELD = "withheld: it may quote what a client or a provider sent"

_CUT = " … "
_STDLIB = sysconfig.get_path("stdlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as ``{"time", "level", "logger", "message", ...}``. A traceback is the string ``exception``.

    A line takes at most ``WHOLE_BYTES`` with its line end. If it is longer, it has no lists, and its longest value
    loses its middle. With several processes, each line has the number of its process as ``worker``.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._fixed = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": WITHHELD if _is_of_library(record) else _message(record),
            **self._fixed,
        }
        if line["message"] is WITHHELD:
            line["source"] = f"{record.module}:{record.lineno}"
        if is_ours(record.name):
            extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
            line |= {name: value for name, value in extra.items() if name not in line}
        if record.exc_info and record.exc_info[1]:
            line["exception"] = format_exception(record.exc_info[1])
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return fit(_mask({name: _plain(value) for name, value in line.items()}))


def is_ours(name: str) -> bool:
    """Return whether this is the name of one of Tollgate's own loggers."""
    return name == OURS or name.startswith(f"{OURS}.")


def _is_of_library(record: logging.LogRecord) -> bool:
    """Return whether an installed library wrote the record. Policy modules of operators may log any text."""
    path = Path(record.pathname)
    is_installed = not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(_STDLIB)
    return not is_ours(record.name) and (is_installed or record.name.partition(".")[0] in QUIET)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # The stdlib would print the arguments on stderr without masking them.
        return f"{record.msg} (a log message whose arguments do not fit)"


def _plain(value: object) -> object:
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return [_mask({name: _plain(field) for name, field in one.items()}) for one in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _mask(line: dict[str, object]) -> dict[str, object]:
    # Nearly every line is clean, and masking all its text once is cheaper than masking each field.
    together = "\n".join([value for value in line.values() if isinstance(value, str)])
    if mask_credentials(together) == together:
        return line
    return {
        name: mask_credentials(value) if isinstance(value, str) else value for name, value in line.items()
    }


def fit(line: dict[str, object]) -> str:
    """Return the fields of a line as JSON of fewer than ``WHOLE_BYTES`` bytes."""
    text = json.dumps(line)
    if len(text) >= WHOLE_BYTES:  # The ledger has what is in a list.
        text = json.dumps(
            line := {name: None if isinstance(one, list) else one for name, one in line.items()}
        )
    # Each value is cut at most once. When it is too short, the next longest value is cut too.
    for _ in line:
        excess = len(text) + 1 - WHOLE_BYTES
        if excess <= 0:
            break
        texts = {name: value for name, value in line.items() if isinstance(value, str)}
        longest = max(texts, key=lambda name: len(json.dumps(texts[name])))
        line[longest] = _without_middle(texts[longest], excess + len(json.dumps(_CUT)))
        text = json.dumps(line)
    return text


def _without_middle(text: str, fewer: int) -> str:
    """Return ``text`` with ``fewer`` characters replaced by a mark. Each character is at least one byte of JSON."""
    side = max(len(text) - fewer, 0) // 2
    return text[:side] + _CUT + text[len(text) - side :]

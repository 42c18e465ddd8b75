"""Structured logs: one JSON object a line, one line a call, and no credential, body or header in any line.

Everything goes through stdlib logging: Tollgate's own loggers from INFO, all others from WARNING. Messages of libraries
and of exceptions are left out: the line has only the place in the code. Several processes may share one stderr. So only
whole lines are written, together at most as many bytes as a pipe takes in one piece, and no line is longer than that.
"""

import asyncio
import json
import logging
import os
import select
import sys
import sysconfig
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from addon.telemetry.exception_text import format_exception
from addon.text.errors import ErrorAnswer
from addon.text.masking import mask_credentials
from policies.exchange import Exchange

OURS = "tollgate"
FLUSH_S = 0.05
"""How long an ordinary line may wait for others."""
WHOLE_BYTES = 4096
"""The largest write to a pipe that stays in one piece: PIPE_BUF on Linux. Source: pipe(7)."""
_CUT = " … "
QUIET = ("mitmproxy", "asyncio", "tornado", "hpack")
WITHHELD = "withheld: it may quote what a client or a provider sent"

_STDLIB = sysconfig.get_path("stdlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})

_calls = logging.getLogger(f"{OURS}.call")
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as ``{"time", "level", "logger", "message", ...}``. A traceback is the string ``exception``.

    A line takes at most ``WHOLE_BYTES`` with its line end. If it is longer, its longest value loses its middle. With
    several processes, each line has the number of its process as ``worker``.
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
        return _fit(_mask({name: _plain(value) for name, value in line.items()}))


class _Handler(logging.Handler):
    """Passes whole lines to ``write``. A later ``configure_logging`` finds the handler to replace by this type.

    While an event loop runs, lines wait up to ``FLUSH_S`` to share one system call. A warning never waits.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write
        self._waiting = b""
        self._flush_due = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode() + b"\n"
        except Exception:  # noqa: BLE001  (as in the stdlib's handlers: a line that can't be formatted ends no call)
            self.handleError(record)
            return
        if len(self._waiting) + len(line) > WHOLE_BYTES:
            self.flush()
        self._waiting += line
        if record.levelno >= logging.WARNING:
            self.flush()
        elif not self._flush_due:
            self._flush_soon()

    def flush(self) -> None:
        """Write the waiting lines."""
        with self.lock or nullcontext():
            self._flush_due = False
            lines, self._waiting = self._waiting, b""
            if lines:
                self._write(lines)

    def _flush_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        self._flush_due = True
        loop.call_later(FLUSH_S, self.flush)

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        # Levels on loggers are not enough: an option of mitmproxy may open the root logger for everything.
        return record.levelno >= (logging.INFO if is_ours(record.name) else logging.WARNING)


def configure_logging(stream: IO[str] | None = None, worker: int | None = None) -> None:
    """Send all logs to ``stream`` (default: stderr), one JSON object a line. A second call replaces the first."""
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        earlier.flush()
        root.removeHandler(earlier)
    handler = _Handler(_writer(stream or sys.stderr))
    handler.setFormatter(JsonFormatter(worker))
    root.addHandler(handler)
    # No line shows these fields, so do not collect them for each record (logging HOWTO, "Optimization").
    for detail in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, detail, False)
    logging.getLogger(OURS).setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _writer(stream: IO[str]) -> Callable[[bytes], None]:
    """Return a function that writes to the file of ``stream`` without its buffer, or to a stream without a file."""
    try:
        file = stream.fileno()
    except OSError:
        return lambda lines: print(lines.decode(), end="", file=stream, flush=True)
    return partial(_write_all, file)


def _write_all(file: int, lines: bytes) -> None:
    # A closed stderr can't be reported anywhere, and calls must go on.
    with suppress(OSError):
        while lines:
            try:
                lines = lines[os.write(file, lines) :]
            except BlockingIOError:
                select.select([], [file], [])


def log_call(exchange: Exchange, now_s: float) -> None:
    """Log a call that was sent upstream, in one line. ``now_s`` is a time of the same clock as ``started_s``."""
    _log_line("call", exchange, now_s)


def log_refusal(exchange: Exchange, now_s: float) -> None:
    """Log a call that was not sent upstream, in one line: it was refused, or its client left first."""
    _log_line("refusal", exchange, now_s)


def log_attempt_failed(exchange: Exchange, failure: ErrorAnswer, then: str) -> None:
    """Log a failed attempt that the line of its call does not show. ``then`` says what follows it."""
    target = exchange.target
    fields = {
        "event": "attempt failed",
        "id": exchange.id,
        "slug": target.model.slug,
        "provider": target.model.provider.name,
        "mode": target.mode,
        "status": failure.status,
        "error_code": failure.code,
    }
    _calls.warning("an attempt failed, %s", then, extra=fields)


def log_no_connection(exchange: Exchange, why: str) -> None:
    """Log an attempt that got no connection. ``why`` is the message of the system or of TLS.

    Never pass a message of an established connection: it may quote the provider's answer, and so a key.
    """
    provider = exchange.target.model.provider.name
    fields = {"event": "no connection", "id": exchange.id, "provider": provider}
    _calls.warning("%s could not be reached: %s", provider, why, extra=fields)


def log_disbelieved(exchange: Exchange, count: str) -> None:
    """Log a count of a provider that no model can reach. The gateway estimates it or leaves it out."""
    provider = exchange.target.model.provider.name
    fields = {"event": "usage disbelieved", "id": exchange.id, "provider": provider, "count": count}
    _calls.warning("%s reports %s that can't be: not believed", provider, count, extra=fields)


def _log_line(event: str, exchange: Exchange, now_s: float) -> None:
    record = logging.LogRecord(_calls.name, logging.INFO, "", 0, event, None, None)
    record.__dict__.update(_fields(exchange, now_s), event=event)
    _calls.handle(record)


def _fields(exchange: Exchange, now_s: float) -> dict[str, Any]:
    """Return the fields of a call for the log. Never add a body, a header or a key."""
    target = exchange.target if exchange.route else None
    return {
        "id": exchange.id,
        "workspace": exchange.workspace.id if exchange.workspace else None,
        "key_id": exchange.key.id if exchange.key else None,
        "slug": target.model.slug if target else None,
        "provider": target.model.provider.name if target else None,
        "mode": target.mode if target else None,
        "decided_by": exchange.route.decided_by if exchange.route else None,
        "attempts": exchange.attempts,
        "fallback": exchange.was_served_by_fallback,
        "status": exchange.status,
        "error_code": exchange.error_code,
        "stream": exchange.stream,
        "finish_reason": exchange.finish_reason,
        "prompt_tokens": exchange.usage.prompt_tokens,
        "completion_tokens": exchange.usage.completion_tokens,
        "first_byte_ms": _ms(exchange.started_s, exchange.first_byte_s),
        "duration_ms": _ms(exchange.started_s, now_s),
    }


def _ms(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else round((end_s - start_s) * 1000, 3)


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
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _mask(line: dict[str, object]) -> dict[str, object]:
    # Nearly every line is clean, and masking all its text once is cheaper than masking each field.
    together = "\n".join([value for value in line.values() if isinstance(value, str)])
    if mask_credentials(together) == together:
        return line
    return {
        name: mask_credentials(value) if isinstance(value, str) else value for name, value in line.items()
    }


def _fit(line: dict[str, object]) -> str:
    text = json.dumps(line)
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

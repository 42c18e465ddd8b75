"""Structured logs: one JSON object a line, one line a call, and no credential, body or header in any of them.

Everything goes through stdlib logging: Tollgate's own loggers from INFO, everybody else's from WARNING. What a library
says is left out, and so are the words of exceptions: only the place in the code is told.
Several processes may share one stderr, so only whole lines are handed over, as many as a pipe takes in one piece; and
no line is longer than that.
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
"""What a pipe never mixes with the bytes of other processes: PIPE_BUF on Linux. Source: pipe(7)."""
_CUT = " … "
QUIET = ("mitmproxy", "asyncio", "tornado", "hpack")
WITHHELD = "withheld: it may quote what a client or a provider sent"

_STDLIB = sysconfig.get_path("stdlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})

_calls = logging.getLogger(f"{OURS}.call")
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as ``{"time", "level", "logger", "message", ...}``; a traceback is the string ``exception``.

    A line and its end take ``WHOLE_BYTES`` at most: where that is too little, the longest value loses its middle.
    Each line of a process that is one of several bears the number ``worker``.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self.own = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": WITHHELD if _is_of_library(record) else _message(record),
            **self.own,
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
        return _fitted(_masked({name: _plain(value) for name, value in line.items()}))


class _Handler(logging.Handler):
    """Hands whole lines to ``write``. Its type marks the handler that a later ``configure_logging`` replaces.

    While an event loop runs, ordinary lines share a system call with those of the next moment; a warning never waits.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write
        self._waiting = b""
        self._flush_due = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode() + b"\n"
        except Exception:  # noqa: BLE001  (as in the stdlib's handlers: a line that can't be made ends no call)
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
        """Hand over what waits."""
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
        # Levels on loggers are not enough: whoever starts mitmproxy may open the root logger for everything.
        return record.levelno >= (logging.INFO if is_ours(record.name) else logging.WARNING)


def configure_logging(stream: IO[str] | None = None, worker: int | None = None) -> None:
    """Send all logs to ``stream`` (stderr), one JSON object a line. A second call replaces the first."""
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        earlier.flush()
        root.removeHandler(earlier)
    handler = _Handler(_writer(stream or sys.stderr))
    handler.setFormatter(JsonFormatter(worker))
    root.addHandler(handler)
    # What no line of ours shows need not be found out for each (logging HOWTO, "Optimization").
    for detail in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, detail, False)
    logging.getLogger(OURS).setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _writer(stream: IO[str]) -> Callable[[bytes], None]:
    """Return what writes to the file below ``stream``, past its buffer, or to a stream that has none."""
    try:
        file = stream.fileno()
    except OSError:
        return lambda lines: print(lines.decode(), end="", file=stream, flush=True)
    return partial(_write_all, file)


def _write_all(file: int, lines: bytes) -> None:
    # Nobody is left to tell of a stderr that was closed, and the calls go on.
    with suppress(OSError):
        while lines:
            try:
                lines = lines[os.write(file, lines) :]
            except BlockingIOError:
                select.select([], [file], [])


def log_call(exchange: Exchange, now_s: float) -> None:
    """Write the one line of a call that was sent upstream; ``now_s`` is a reading of ``started_s``'s clock."""
    _log_line("call", exchange, now_s)


def log_refusal(exchange: Exchange, now_s: float) -> None:
    """Write the one line of a call that never went upstream: refused, or its client left first."""
    _log_line("refusal", exchange, now_s)


def log_attempt_failed(exchange: Exchange, failure: ErrorAnswer, then: str) -> None:
    """Write the line of an attempt of whose failure its call's line does not tell; ``then`` is what comes of it."""
    attempt = exchange.attempt
    fields = {
        "event": "attempt failed",
        "id": exchange.id,
        "slug": attempt.model.slug,
        "provider": attempt.model.provider.name,
        "mode": attempt.mode,
        "status": failure.status,
        "error_code": failure.code,
    }
    _calls.warning("an attempt failed, %s", then, extra=fields)


def log_no_connection(exchange: Exchange, why: str) -> None:
    """Write the line of an attempt that met nobody; ``why`` is the word of the system or of TLS.

    Never that of a connection which stood: it may quote what the provider said, and that a key.
    """
    provider = exchange.attempt.model.provider.name
    fields = {"event": "no connection", "id": exchange.id, "provider": provider}
    _calls.warning("%s could not be reached: %s", provider, why, extra=fields)


def log_disbelieved(exchange: Exchange, count: str) -> None:
    """Write the line of a count of a provider's that no model could have reached; it is estimated, or left out."""
    provider = exchange.attempt.model.provider.name
    fields = {"event": "usage disbelieved", "id": exchange.id, "provider": provider, "count": count}
    _calls.warning("%s reports %s that can't be: not believed", provider, count, extra=fields)


def _log_line(event: str, exchange: Exchange, now_s: float) -> None:
    record = logging.LogRecord(_calls.name, logging.INFO, "", 0, event, None, None)
    record.__dict__.update(_fields(exchange, now_s), event=event)
    _calls.handle(record)


def _fields(exchange: Exchange, now_s: float) -> dict[str, Any]:
    """What may be said of a call. A body, a header or a key has no place here."""
    attempt = exchange.attempt if exchange.route else None
    return {
        "id": exchange.id,
        "workspace": exchange.workspace.id if exchange.workspace else None,
        "key_id": exchange.key.id if exchange.key else None,
        "slug": attempt.model.slug if attempt else None,
        "provider": attempt.model.provider.name if attempt else None,
        "mode": attempt.mode if attempt else None,
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
    """Tell whether a logger of this name is one of Tollgate's own."""
    return name == OURS or name.startswith(f"{OURS}.")


def _is_of_library(record: logging.LogRecord) -> bool:
    """Tell whether an installed library wrote it; operators' policy modules may say what they want."""
    path = Path(record.pathname)
    is_installed = not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(_STDLIB)
    return not is_ours(record.name) and (is_installed or record.name.partition(".")[0] in QUIET)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # The stdlib would print the arguments on stderr, past the mask.
        return f"{record.msg} (a log message whose arguments do not fit)"


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _masked(line: dict[str, object]) -> dict[str, object]:
    # Nearly every line is clean, and one look at all its text together is cheaper than one at each field.
    together = "\n".join([value for value in line.values() if isinstance(value, str)])
    if mask_credentials(together) == together:
        return line
    return {
        name: mask_credentials(value) if isinstance(value, str) else value for name, value in line.items()
    }


def _fitted(line: dict[str, object]) -> str:
    text = json.dumps(line)
    # None is cut twice: what one value can't give the next longest one does.
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
    """Return ``text`` with ``fewer`` of its characters, each a byte or more of JSON, replaced by a mark."""
    side = max(len(text) - fewer, 0) // 2
    return text[:side] + _CUT + text[len(text) - side :]

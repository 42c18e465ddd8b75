"""Structured logs: one JSON object a line, one line a call, and no credential, body or header in any of them.

Everything goes through stdlib logging: Tollgate's own loggers from INFO, everybody else's from WARNING.
"""

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO, Any

from addon.exchange import Exchange
from addon.mask import mask_credentials

OURS = "tollgate"
FLUSH_S = 0.05
"""How long an ordinary line may wait for others."""
QUIET = ("mitmproxy", "asyncio", "tornado", "hpack")

_calls = logging.getLogger(f"{OURS}.call")
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as ``{"time", "level", "logger", "message", ...}``; a traceback is the string ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if is_ours(record.name):
            extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
            line |= {name: value for name, value in extra.items() if name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(_masked({name: _plain(value) for name, value in line.items()}))


class _Handler(logging.StreamHandler[IO[str]]):
    """Writes the lines. Its type marks the handler that a later ``configure_logging`` replaces.

    While an event loop runs, ordinary lines share a system call with those of the next moment; a warning never waits.
    """

    flush_due: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            self.flush_now()

    def flush(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush_now()
            return
        if self.flush_due is None:
            self.flush_due = loop.call_later(FLUSH_S, self.flush_now)

    def flush_now(self) -> None:
        """Hand over what was written."""
        if self.flush_due is not None:
            self.flush_due.cancel()
            self.flush_due = None
        super().flush()

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        # Levels on loggers are not enough: whoever starts mitmproxy may open the root logger for everything.
        return record.levelno >= (logging.INFO if is_ours(record.name) else logging.WARNING)


def configure_logging(stream: IO[str] | None = None) -> None:
    """Send all logs to ``stream`` (stderr), one JSON object a line. A second call replaces the first."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    handler = _Handler(stream or _buffered_stderr())
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    # What no line of ours shows need not be found out for each (logging HOWTO, "Optimization").
    for detail in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, detail, False)
    logging.getLogger(OURS).setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _buffered_stderr() -> IO[str]:
    """Python's own stderr writes each line by itself."""
    try:
        return open(sys.stderr.fileno(), "w", buffering=65_536, encoding="utf-8", closefd=False)
    except OSError:  # Somebody put a stream without a file in its place.
        return sys.stderr


def log_call(exchange: Exchange, now_s: float) -> None:
    """Write the one line of a call that was sent upstream; ``now_s`` is a reading of ``started_s``'s clock."""
    _log_line("call", exchange, now_s)


def log_refusal(exchange: Exchange, now_s: float) -> None:
    """Write the one line of a call that never went upstream: refused, or its client left first."""
    _log_line("refusal", exchange, now_s)


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

"""Structured logs: one JSON object a line, one line a call, and no credential, body or header in any line.

On a terminal a line is a text for people instead (``log_text``), made of the same fields.

Everything goes through stdlib logging, except the line of a call: Tollgate's own loggers from INFO, all others from
WARNING. Several processes may share one stderr. So only whole lines are written, together at most as many bytes as a
pipe takes in one piece, and no line is longer than that. A thread writes them (``log_queue``).
"""

import asyncio
import json
import logging
import os
import sys
from contextlib import nullcontext
from json.encoder import encode_basestring_ascii as _quote
from typing import IO, Final, Literal

from addon.telemetry.call_line import format_call_line
from addon.telemetry.log_format import OURS, QUIET, WHOLE_BYTES, JsonFormatter, fit, is_ours
from addon.telemetry.log_queue import LogQueue
from addon.telemetry.log_text import format_line
from addon.text.errors import ErrorAnswer
from addon.text.masking import mask_credentials
from policies.exchange import Exchange

type LogFormat = Literal["auto", "json", "text"]
"""``"auto"`` means text on a terminal, and JSON elsewhere."""

FORMAT_VARIABLE: Final = "TOLLGATE_LOG_FORMAT"
"""The environment variable by which ``serve`` gives the format to its workers and its process of pages."""
MAX_PATH_CHARS: Final = 256
"""The most that a line shows of the path of a request that nothing serves."""

_HEAD_FIELDS = frozenset({"time", "level", "logger", "message"})
_root, _ours, _calls = logging.getLogger(), logging.getLogger(OURS), logging.getLogger(f"{OURS}.call")


class _Stream:
    """A stream without a file, which is written at once."""

    dropped = 0

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def put(self, lines: bytes) -> None:
        print(lines.decode(), end="", file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing: no line waits."""


class _Handler(logging.Handler):
    """Passes whole lines on. A later ``configure_logging`` finds the handler to replace by this type.

    While an event loop runs, the lines of one turn share one system call. A warning does not wait for the others.
    """

    def __init__(self, stream: IO[str], worker: int | None, *, is_text: bool) -> None:
        super().__init__()
        self.is_text = is_text
        self.setFormatter(JsonFormatter(worker))
        self.worker_field = "" if worker is None else f', "worker": {worker}'
        self.queue = self._open(stream)
        self._waiting = b""
        self._flush_due = False

    def format(self, record: logging.LogRecord) -> str:
        return self.shape(super().format(record))

    def shape(self, line: str) -> str:
        """Return a line of JSON in the format of this handler."""
        return format_line(json.loads(line)) if self.is_text else line

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode() + b"\n"
        except Exception:  # noqa: BLE001  (as in the stdlib's handlers: a line that can't be formatted ends no call)
            self.handleError(record)
            return
        self.add(line, at_once=record.levelno >= logging.WARNING)

    def add(self, line: bytes, *, at_once: bool = False) -> None:
        """Write ``line``, or keep it until the loop's next turn."""
        with self.lock or nullcontext():
            if len(self._waiting) + len(line) > WHOLE_BYTES:
                self.flush()
            self._waiting += line
            if self._flush_due and not at_once:
                return
            try:
                loop = None if at_once else asyncio.get_running_loop()
            except RuntimeError:
                loop = None
            if loop is None:
                self.flush()
            else:
                self._flush_due = True
                loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the waiting lines."""
        with self.lock or nullcontext():
            self._flush_due = False
            lines, self._waiting = self._waiting, b""
            if lines:
                self.queue.put(lines)

    def close(self) -> None:
        """Write what waits, as ``LogQueue.close`` does. The end of the process calls this."""
        self.queue.close()
        super().close()

    def _open(self, stream: IO[str]) -> LogQueue | _Stream:
        try:
            return LogQueue(stream.fileno(), self._describe_dropped)
        except OSError:
            return _Stream(stream)

    def _describe_dropped(self, count: int) -> bytes:
        event = {"event": "log lines dropped", "lines": count}
        fields = {"name": OURS, "levelno": logging.WARNING, "levelname": "WARNING", **event}
        message = "%d log lines before this one could not be written, and are dropped"
        return (
            self.format(logging.makeLogRecord({"msg": message, "args": (count,), **fields})).encode() + b"\n"
        )

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        # Levels on loggers are not enough: an option of mitmproxy may open the root logger for everything.
        return record.levelno >= (logging.INFO if is_ours(record.name) else logging.WARNING)


def configure_logging(stream: IO[str] | None = None, worker: int | None = None) -> None:
    """Send all logs to ``stream`` (default: stderr), in the format of ``FORMAT_VARIABLE``.

    A second call replaces the first.
    """
    for earlier in [handler for handler in _root.handlers if isinstance(handler, _Handler)]:
        earlier.flush()
        earlier.close()
        _root.removeHandler(earlier)
    stream = stream or sys.stderr
    form = os.environ.get(FORMAT_VARIABLE, "auto")
    is_text = form == "text" or (form == "auto" and stream.isatty())
    _root.addHandler(_Handler(stream, worker, is_text=is_text))
    # No line shows these fields, so do not collect them for each record (logging HOWTO, "Optimization").
    for detail in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, detail, False)
    _ours.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def count_dropped_lines() -> int:
    """Return how many lines of this process could not be written."""
    return sum(handler.queue.dropped for handler in _root.handlers if isinstance(handler, _Handler))


def log_call(
    exchange: Exchange,
    now_s: float,
    event: Literal["call", "refusal"],
    request_line: tuple[str, str] | None = None,
) -> None:
    """Log a call that has ended, in one line. ``now_s`` is a time of the same clock as ``started_s``.

    ``request_line`` has the method and the path of a request that nothing serves.

    | event | the call |
    |---|---|
    | ``call`` | was sent upstream |
    | ``refusal`` | was not: it was refused, or its client left first |
    """
    match _root.handlers:
        # No other code handles or filters the lines of calls.
        case [_Handler() as handler] if not (
            _ours.handlers or _calls.handlers or _calls.filters or _calls.disabled
        ):
            first = handler.worker_field + (_format_request_line(*request_line) if request_line else "")
            line = format_call_line(exchange, now_s, event, first)
            line = line if len(line) < WHOLE_BYTES else fit(json.loads(line))
            if handler.is_text:
                line = handler.shape(line)
            handler.add(line.encode() + b"\n")
        case _:
            first = _format_request_line(*request_line) if request_line else ""
            _log_to_others(format_call_line(exchange, now_s, event, first), event)


def _format_request_line(method: str, path: str) -> str:
    shown = path if len(path) <= MAX_PATH_CHARS else f"{path[:MAX_PATH_CHARS]}…"
    return f', "method": {_quote(mask_credentials(method))}, "path": {_quote(mask_credentials(shown))}'


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
        "trace_id": exchange.trace.trace_id if exchange.trace else None,
        "span_id": exchange.span_id,
    }
    _calls.warning("an attempt failed, %s", then, extra=fields)


def log_no_connection(exchange: Exchange, why: str) -> None:
    """Log an attempt that got no connection. ``why`` is the message of the system or of TLS.

    Never pass a message of an established connection: it may quote the provider's answer, and so a key.
    """
    provider = exchange.target.model.provider.name
    fields = {"event": "no connection", "id": exchange.id, "provider": provider}
    _calls.warning("%s could not be reached: %s", provider, why, extra=fields)


def log_implausible_usage(exchange: Exchange, count: str) -> None:
    """Log a count of a provider that no model can reach. The gateway estimates it or leaves it out."""
    provider = exchange.target.model.provider.name
    fields = {"event": "usage disbelieved", "id": exchange.id, "provider": provider, "count": count}
    _calls.warning("%s reports %s that can't be: not believed", provider, count, extra=fields)


def log_unpriced_service_tier(exchange: Exchange, service_tier: str) -> None:
    """Log an answer of a service tier that has no price. Its call has the base prices."""
    model = exchange.target.model.slug
    fields = {"event": "service tier without a price", "id": exchange.id, "model": model}
    _calls.warning("%s was served at the tier %s: priced at its base", model, service_tier, extra=fields)


def _log_to_others(line: str, event: str) -> None:
    """Send the line of a call through logging, for instance when mitmdump hosts us."""
    record = logging.LogRecord(_calls.name, logging.INFO, "", 0, event, None, None)
    record.__dict__.update(
        (name, value) for name, value in json.loads(line).items() if name not in _HEAD_FIELDS
    )
    _calls.handle(record)

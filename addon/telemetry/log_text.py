"""One log line for people, made of the fields of its JSON. Pure.

``12:00:00 warning message`` in UTC; the line of a call has its status, caller, model, tokens and time.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from addon.text.unprintable import escape_unprintable

_CALLS: Final = ("call", "refusal")
_QUIET: Final = "info"


def format_line(line: Mapping[str, Any]) -> str:
    """Return the text of a line, without its end. A traceback follows on lines of its own."""
    level = [] if line["level"] == _QUIET else [line["level"]]
    worker = [f"[worker {line['worker']}]"] if "worker" in line else []
    said = _describe_call(line) if line.get("event") in _CALLS else _describe_other(line)
    text = " ".join([line["time"][11:19], *level, *worker, *said]).replace("\n", r"\n")
    traces = [str(line[name]) for name in ("exception", "stack") if line.get(name)]
    return escape_unprintable("\n".join([text, *traces]))


def _describe_other(line: Mapping[str, Any]) -> Iterator[str]:
    yield str(line["message"])
    for name in ("source", "id"):
        if line.get(name) is not None:
            yield f"({name} {line[name]})"


def _describe_call(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is known of a call, the status first and the id last."""
    yield str(line["status"])
    if "path" in line:
        yield f"{line['method']} {line['path']}"
    caller = "/".join(line[name] for name in ("workspace", "key_id") if line[name])
    model = line["slug"] and f"{line['slug']}{' (fallback)' if line['fallback'] else ''}"
    yield from (one for one in (caller, model, line["error_code"]) if one)
    if line["prompt_tokens"] is not None or line["completion_tokens"] is not None:
        yield f"{line['prompt_tokens'] or 0}+{line['completion_tokens'] or 0} tokens"
    yield f"{line['duration_ms'] / 1000:.2f} s"
    yield f"(id {line['id']})"

"""A sampler of the processor time of a module: it takes a sample of the stack at every tick.

``python stack_sampler.py FILE MODULE [ARGUMENT …]`` runs MODULE like ``python -m``. At every SIGUSR2 it writes the
samples since the last one to FILE, as a JSON object of area to count. It imports nothing of the project, so any
checkout can run under it.
"""

import json
import os
import runpy
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

TICK_S: Final = 0.001
"""The kernel uses its own tick if that is longer."""
_OWN: Final = {
    "wire": (
        *("addon.wire", "addon.upstream", "addon.serve", "addon.gateway.flows", "addon.text.http"),
        *("addon.runtime.deadline", "addon.runtime.keepalive", "addon.runtime.listening"),
    ),
    "JSON": ("addon.text.json", "addon.text.large_strings"),
    "policies": ("policies",),
    "store": ("addon.store",),
    "log": ("addon.telemetry",),
}
"""The modules and packages of this checkout."""
_OLDER: Final = {
    "wire": (
        *("addon.hop", "addon.hop_attempt", "addon.hop_stream", "addon.hop_wire", "addon.attempt_stream"),
        *("addon.request_stream", "addon.clients", "addon.connecting", "addon.connections", "addon.deadline"),
        *("addon.flows", "addon.telemetry.flows", "addon.keepalive", "addon.listening", "addon.server"),
        *("addon.supervisor", "addon.tls", "addon.worker", "addon.workers"),
    ),
    "JSON": (
        "addon.json_object",
        "addon.json_scan",
        "addon.json_text",
        "addon.large_strings",
        "addon.splice",
    ),
    "store": ("addon.measured_store",),
    "log": ("addon.log", "addon.log_limits", "addon.exception_text", "addon.metrics"),
}
"""Those of older checkouts, for ``--against``."""
_LIBRARIES: Final = {
    "wire": (
        *("mitmproxy", "asyncio", "selectors", "socket", "ssl", "OpenSSL", "h2", "hpack", "hyperframe"),
        *("h11", "httptools", "concurrent", "contextvars"),
    ),
    "JSON": ("json", "pydantic", "pydantic_core", "msgspec"),
    "store": ("sqlite3", "redis"),
    "log": ("logging", "prometheus_client"),
}
AREAS: Final = {
    area: (*members, *_OLDER.get(area, ()), *_LIBRARIES.get(area, ())) for area, members in _OWN.items()
}
"""The areas of a call, with their modules and packages. All other modules of the gateway are its logic."""
LOGIC: Final = "logic"
OTHER: Final = "other"
_INNER: Final = ("log", "store")
"""JSON that is made for one of these areas counts for that area."""


def area_of_module(name: str) -> str | None:
    """Return the area of a module, or None for helpers of the standard library and of other projects."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        for area, members in AREAS.items():
            if prefix in members or (length == 3 and _is_variant(prefix, members)):
                return area
    return LOGIC if parts[0] == "addon" else None


def _is_variant(prefix: str, members: tuple[str, ...]) -> bool:
    """Return whether a module of addon/text/ starts like a member: ``addon.text.http1_body``, ``addon.text.http``."""
    return any(member.count(".") == 2 and prefix.startswith(member) for member in members)


def area_of(stack: Iterator[str]) -> str:
    """Return the area of a sample. ``stack`` has the names of its modules, the innermost first."""
    makes_json = False
    for name in stack:
        area = area_of_module(name)
        if area == "JSON":
            makes_json = True
        elif area in _INNER or (area is not None and not makes_json):
            return area
        elif area is not None:
            break
    return "JSON" if makes_json else OTHER


def _stack(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back


def _sample_into(file: Path) -> None:
    counts: Counter[str] = Counter()

    def take(_signum: int, frame: FrameType | None) -> None:
        counts[area_of(_stack(frame))] += 1

    def write(_signum: int, _frame: FrameType | None) -> None:
        # A reader sees the whole file or none.
        whole = file.with_suffix(".new")
        whole.write_text(json.dumps(counts))
        os.replace(whole, file)
        counts.clear()

    signal.signal(signal.SIGUSR2, write)
    signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)


if __name__ == "__main__":
    _sample_into(Path(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

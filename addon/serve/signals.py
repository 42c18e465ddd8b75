"""SIGTERM and SIGINT mean one thing, however often they come: drain, then end."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Give an event of the running loop that they set. Whoever leaves this ends, and need not be told any more."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in _SIGNALS:
        loop.add_signal_handler(signum, stop.set)
    try:
        yield stop
    finally:
        for signum in _SIGNALS:
            loop.remove_signal_handler(signum)
            signal.signal(signum, signal.SIG_IGN)

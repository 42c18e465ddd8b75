"""SIGTERM and SIGINT, which both mean: drain, then end. Repeated signals change nothing."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Give an event that the signals set. After the context they are ignored, because the process ends then."""
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

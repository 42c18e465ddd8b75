"""SIGTERM, SIGINT and SIGHUP, which all mean: drain, then end. Repeated signals change nothing.

SIGHUP comes when a terminal closes. Where it is ignored (nohup), it stays ignored.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def find_signals() -> list[signal.Signals]:
    """Return the signals that end this process."""
    return [one for one in END_SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Give an event that the signals set. After the context they are ignored, because the process ends then."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = find_signals()
    for signum in signals:
        loop.add_signal_handler(signum, stop.set)
    try:
        yield stop
    finally:
        for signum in signals:
            loop.remove_signal_handler(signum)
            signal.signal(signum, signal.SIG_IGN)

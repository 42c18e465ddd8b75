"""One buffer for the reads of all sockets of an event loop. It bounds how much a socket reads at once."""

from collections.abc import Callable
from functools import partial
from itertools import repeat

READ_BYTES = 65_536

type GetBuffer = Callable[[int], memoryview]
"""The method ``get_buffer`` of an ``asyncio.BufferedProtocol``."""


def new_read_buffer() -> memoryview:
    """Return a buffer for the sockets of one event loop. They copy the bytes of a read out of it at once."""
    return memoryview(bytearray(READ_BYTES))


def get_buffer_of(buffer: memoryview) -> GetBuffer:
    """Return a ``get_buffer`` that always gives ``buffer``. It is a function in C, because each read calls it."""
    return partial(next, repeat(buffer))

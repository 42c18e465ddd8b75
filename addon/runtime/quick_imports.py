"""Imports without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Import modules in this context. The collector looks at none of their objects, not even later.

    Nearly all of these objects stay until the process ends. The search for garbage among them takes a seventh of the
    time of the imports.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

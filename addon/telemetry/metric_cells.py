"""The numbers behind the metrics of one process: plain floats, in memory or in a file that a supervisor reads.

A number in a file survives its process, even one that is killed. The file is a row of records, one for each series:

| bytes | are |
|---|---|
| 4 | the length of the name, a multiple of 8; 0 after the last record |
| 4 | how many numbers follow the name |
| the length | the name: the metric and the values of its labels, as a JSON array padded with spaces |
| 8 each | the numbers, as floats |
"""

import json
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

FIRST_BYTES = 64 * 1024
"""The first size of a file. A file that is full gets twice the room."""

_HEADER = struct.Struct("<II")
_NUMBER_BYTES = 8

type Series = tuple[str, tuple[str, ...]]
"""The name of a metric, and the values of its labels."""
type Cells = memoryview[float]
"""The numbers of one series. To count is ``cells[0] += 1``."""


class CellMemory:
    """Memory for numbers that live only in this process."""

    def reserve(self, series: Series, count: int) -> Cells:  # noqa: ARG002  (as CellFile)
        """Return ``count`` numbers that are 0."""
        return memoryview(bytearray(count * _NUMBER_BYTES)).cast("d")


class CellFile:
    """Numbers in a file of this process. Only this process writes it.

    On a full disk, new series are counted in memory, where no supervisor reads them.
    """

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._used = 0
        self._map = self._mapped(FIRST_BYTES)

    def reserve(self, series: Series, count: int) -> Cells:
        """Add the record of a new series, and return its ``count`` numbers, which are 0."""
        name = json.dumps(series, ensure_ascii=False).encode()
        name += b" " * (-len(name) % _NUMBER_BYTES)
        name_at = self._used + _HEADER.size
        cells_at = name_at + len(name)
        end = cells_at + count * _NUMBER_BYTES
        while end + _HEADER.size > len(self._map):
            try:
                # Cells in the earlier map stay valid: both maps are the same pages of the file.
                self._map = self._mapped(2 * len(self._map))
            except OSError:
                return CellMemory().reserve(series, count)
        self._map[name_at:cells_at] = name
        # The length comes last, so that a reader sees the whole record or none of it.
        _HEADER.pack_into(self._map, self._used, len(name), count)
        self._used = end
        return memoryview(self._map)[cells_at:end].cast("d")

    def _mapped(self, size: int) -> mmap.mmap:
        # With a hole in the file, a write on a full disk would end the process.
        os.posix_fallocate(self._file, 0, size)
        return mmap.mmap(self._file, size)


def read_cells(file: Path) -> Iterator[tuple[Series, list[float]]]:
    """Yield each series in a file with its numbers. Raises ValueError or struct.error for a broken file."""
    content = file.read_bytes()
    at = 0
    while at + _HEADER.size <= len(content):
        name_bytes, count = _HEADER.unpack_from(content, at)
        if not name_bytes:
            return
        cells_at = at + _HEADER.size + name_bytes
        name, labels = json.loads(content[at + _HEADER.size : cells_at])
        yield (name, tuple(labels)), list(struct.unpack_from(f"<{count}d", content, cells_at))
        at = cells_at + count * _NUMBER_BYTES

"""The files of ``tollgate ledger reconcile``: read within bounds, with errors that name file, place and cure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import click

from addon.commands.readers import read_regular_file
from addon.reconcile.export_line import Export, ExportError
from addon.reconcile.formats import read_export
from addon.reconcile.mapped_export import ColumnMapping, parse_mapping

MAX_FILES: Final = 100
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_MAPPING_BYTES: Final = 64 * 1024


@contextmanager
def report_export_errors(file: Path | str) -> Iterator[None]:
    """Turn an error of an export into one line that names the file."""
    try:
        yield
    except ExportError as error:
        raise click.ClickException(f"{file}: {error}") from None


def read_exports(files: Sequence[Path], mapping_file: Path | None) -> list[Export]:
    """Return the exports. Raises ``ClickException``, and ``OSError`` for a file that can't be read."""
    if len(files) > MAX_FILES:
        raise click.UsageError(f"at most {MAX_FILES} files at once")
    mapping = _read_mapping(mapping_file) if mapping_file else None
    seen: dict[str, Path] = {}
    exports = []
    for file in files:
        with report_export_errors(file):
            content = _read_bytes(file, MAX_FILE_BYTES)
            if (other := seen.setdefault(sha256(content).hexdigest(), file)) is not file:
                raise ExportError(f"is the same as {other}; name it once")
            exports.append(read_export(_decode(content), mapping))
    return exports


def _read_mapping(file: Path) -> ColumnMapping:
    with report_export_errors(file):
        return parse_mapping(_decode(_read_bytes(file, MAX_MAPPING_BYTES)))


def _read_bytes(file: Path, most: int) -> bytes:
    content = read_regular_file(file, most)
    if len(content) > most:
        raise ExportError(f"is larger than {most // 1024} KiB; export fewer days at once")
    return content


def _decode(content: bytes) -> str:
    if content.startswith(b"PK\x03\x04"):
        raise ExportError("is a ZIP archive or an Excel file; unpack it, or save the table as CSV")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ExportError("is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ExportError(f"line {line}: byte {error.start} is no UTF-8; save it as UTF-8") from None

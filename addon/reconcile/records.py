"""``Record``: a row of a CSV file or an object of a JSON file, with its place. Pure.

All values are texts, so one parser reads the CSV and the JSON of a vendor.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from addon.reconcile.export_line import ExportError
from addon.reconcile.values import NANOUSD_PER_USD, parse_amount, parse_count, parse_day

MAX_RECORDS: Final = 1_000_000
MAX_COLUMNS: Final = 500
PREAMBLE_ROWS: Final = 30
"""In how many of its first rows the header of a CSV file is looked for."""


@dataclass(frozen=True, slots=True)
class Record:
    """The values of one row or object by column, and its place in the file."""

    place: str
    values: Mapping[str, str]

    def text(self, *columns: str) -> str:
        """Return the value of the first of ``columns`` that is not empty, or an empty text."""
        return next((found for name in columns if (found := self.values.get(name, "").strip())), "")

    def count(self, *columns: str) -> int:
        """Return the count in the first of ``columns`` that is not empty. Raises ``ExportError``."""
        return self._parse(parse_count, columns)

    def amount(self, *columns: str, unit_nanousd: int = NANOUSD_PER_USD) -> int:
        """Return the amount in nano-USD in the first of ``columns`` that is not empty. Raises ``ExportError``."""
        return self._parse(lambda text: parse_amount(text, unit_nanousd), columns)

    def day(self, *columns: str) -> str:
        """Return the day of the first of ``columns`` that is not empty. Raises ``ExportError``."""
        return self._parse(parse_day, columns)

    def require_usd(self, column: str) -> None:
        """Raise ``ExportError`` for an amount in another currency."""
        if (currency := self.text(column).lower()) not in ("", "usd"):
            raise self.error(column, f'the currency is "{currency[:8]}"; only USD can be compared')

    def error(self, column: str, reason: str) -> ExportError:
        """Return the error of one value."""
        return ExportError(f"{self.place}, column {column}: {reason}")

    def _parse[T](self, parse: Callable[[str], T], columns: Sequence[str]) -> T:
        column = next((name for name in columns if self.values.get(name, "").strip()), columns[0])
        try:
            return parse(self.values.get(column, ""))
        except ValueError as error:
            raise self.error(column, str(error)) from None


def read_csv_rows(text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the number of their last line. Raises ``ExportError``."""
    lines = (f"{line}\n" for line in text.split("\n"))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for count, row in enumerate(reader):
            if count > MAX_RECORDS:
                raise ExportError(f"line {reader.line_num}: more than {MAX_RECORDS} rows; export fewer days")
            if len(row) > MAX_COLUMNS:
                raise ExportError(f"line {reader.line_num}: more than {MAX_COLUMNS} columns")
            yield reader.line_num, row
    except csv.Error as error:
        raise ExportError(f"line {reader.line_num}: no valid CSV: {error}; export the file again") from None


def records_of(header: Sequence[str], rows: Iterator[tuple[int, list[str]]]) -> Iterator[Record]:
    """Yield the rows below a header, without empty ones."""
    names = [name.strip() for name in header]
    for line, row in rows:
        if any(cell.strip() for cell in row):
            yield Record(f"line {line}", dict(zip(names, row, strict=False)))


def read_json(text: str) -> Any:
    """Return a JSON text with exact decimals. Raises ``ExportError``."""
    try:
        return json.loads(text, parse_float=_keep_exact, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ExportError(
            f"line {error.lineno}, column {error.colno}: no valid JSON: {error.msg}; save the answer again"
        ) from None
    except (ValueError, RecursionError):
        raise ExportError(
            "no valid JSON: a number or a depth that no vendor writes; save the answer again"
        ) from None


def make_record(place: str, item: Mapping[str, Any], **more: Any) -> Record:
    """Return the record of an object. What is nested once has the names of both, joined by ``_``."""
    values: dict[str, str] = {}
    for name, value in {**more, **item}.items():
        if isinstance(value, dict):
            values |= {f"{name}_{inner}": _text_of(one) for inner, one in value.items()}
        else:
            values[str(name)] = _text_of(value)
    return Record(place, values)


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | Decimal) else ""


def _keep_exact(text: str) -> Decimal:
    return Decimal(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)

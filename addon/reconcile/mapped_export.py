"""Exports of other vendors, by a mapping of their columns. Pure. Source: docs/closing-a-month.md, "Other vendors"."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import ZoneInfo

from addon.reconcile.export_line import KINDS, ExportError, ExportLine, Tokens, name_tier
from addon.reconcile.records import Record
from addon.reconcile.values import NANOUSD_PER_USD, parse_amount, parse_count
from addon.text.toml import TomlError, load_toml

COLUMNS: Final = (
    *("day", "model", "key", "tier", "requests", "input_tokens", "prompt_tokens", "cached_tokens"),
    *(
        "cache_write_tokens",
        "output_tokens",
        "cost_usd",
        "cost_cents",
        "currency",
        "kind",
        "amount",
        "unit_price_usd",
    ),
)
"""What a column may be."""

_SETTINGS: Final = ("time_zone", "delimiter", "cost_decimals")
_REQUESTS: Final = "requests"
_MAX_DECIMALS: Final = 9


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which column of a file is what. ``kinds`` has what the values of the column ``kind`` are."""

    columns: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    time_zone: str = "UTC"
    delimiter: str = ","
    cost_decimals: int = _MAX_DECIMALS

    @property
    def rounding_nanousd(self) -> int:
        """By how much a cost with ``cost_decimals`` may be rounded."""
        return max(NANOUSD_PER_USD // int(10**self.cost_decimals) // 2, 1)


def parse_mapping(text: str) -> ColumnMapping:
    """Return the mapping of a TOML text. Raises ``ExportError``."""
    try:
        table = load_toml(text)
    except TomlError as error:
        raise ExportError(f"no valid TOML: {error}") from None
    _check_names(table, (*_SETTINGS, "columns", "kinds"), "")
    columns, kinds = _texts(table, "columns"), _texts(table, "kinds")
    _check_names(columns, COLUMNS, "columns.")
    for value, kind in kinds.items():
        if kind not in (*KINDS, _REQUESTS):
            raise ExportError(f'kinds.{value}: "{kind}" is none of {", ".join((*KINDS, _REQUESTS))}')
    if "day" not in columns:
        raise ExportError('columns.day is missing; name the column with the date: day = "date"')
    if ("kind" in columns) != ("amount" in columns):
        raise ExportError("columns.kind and columns.amount need each other")
    return ColumnMapping(columns, kinds, **_settings(table))


def _settings(table: Mapping[str, Any]) -> dict[str, Any]:
    zone, delimiter = table.get("time_zone", "UTC"), table.get("delimiter", ",")
    decimals = table.get("cost_decimals", _MAX_DECIMALS)
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, TypeError, KeyError):
        raise ExportError("time_zone: must be a name such as UTC or Asia/Shanghai") from None
    if delimiter not in (",", ";", "\t", "|"):
        raise ExportError('delimiter: must be ",", ";", "|" or a tab')
    if not isinstance(decimals, int) or isinstance(decimals, bool) or not 0 <= decimals <= _MAX_DECIMALS:
        raise ExportError("cost_decimals: must be from 0 to 9")
    return {"time_zone": zone, "delimiter": delimiter, "cost_decimals": decimals}


def _check_names(table: Mapping[str, Any], known: Iterable[str], prefix: str) -> None:
    for name in table:
        if name not in known:
            raise ExportError(f"{prefix}{name}: unknown; known are {', '.join(known)}")


def _texts(table: Mapping[str, Any], name: str) -> dict[str, str]:
    inner = table.get(name, {})
    if not isinstance(inner, dict) or not all(isinstance(value, str) for value in inner.values()):
        raise ExportError(f'{name}: must be a table of texts, as in model = "model_name"')
    return inner


def read_mapped(records: Iterable[Record], mapping: ColumnMapping) -> Iterator[ExportLine]:
    """Yield a line for each row. Raises ``ExportError``."""
    read = _read_long if "kind" in mapping.columns else _read_wide
    for record in records:
        known = {
            column: record.values[name] for column, name in mapping.columns.items() if name in record.values
        }
        if not known:
            raise ExportError(
                f"{record.place}: none of the mapped columns is in the file; look at its header"
            )
        mapped = Record(record.place, known)
        mapped.require_usd("currency")
        yield read(mapped, mapping)


def _read_wide(record: Record, mapping: ColumnMapping) -> ExportLine:
    has_tokens = any(name.endswith("_tokens") for name in record.values)
    cached, written = record.count("cached_tokens"), record.count("cache_write_tokens")
    plain = record.count("input_tokens") or max(record.count("prompt_tokens") - cached - written, 0)
    cost = None
    if record.text("cost_usd"):
        cost = record.amount("cost_usd")
    elif record.text("cost_cents"):
        cost = record.amount("cost_cents", unit_nanousd=NANOUSD_PER_USD // 100)
    return _line(
        record,
        mapping,
        tokens=Tokens(plain, cached, written, record.count("output_tokens")) if has_tokens else None,
        cost_nanousd=cost,
        requests=record.count("requests") if record.text("requests") else None,
        splits_input="cached_tokens" in mapping.columns or not has_tokens,
    )


def _read_long(record: Record, mapping: ColumnMapping) -> ExportLine:
    """Return the line of a row that has one count, whose kind another column names."""
    value = record.text("kind")
    if (kind := mapping.kinds.get(value)) is None:
        return _line(record, mapping, is_tool=False)
    count = record.count("amount")
    if kind == _REQUESTS:
        return _line(record, mapping, requests=count)
    cost = record.amount("cost_usd") if record.text("cost_usd") else None
    if cost is None and record.text("unit_price_usd"):
        cost = _multiply(record, count)
    return _line(record, mapping, kind=kind, tokens=Tokens.of_kind(kind, count), cost_nanousd=cost)


def _multiply(record: Record, count: int) -> int:
    """Return the cost of so many tokens, rounded once."""
    try:
        return parse_amount(record.text("unit_price_usd"), NANOUSD_PER_USD * parse_count(str(count)))
    except ValueError as error:
        raise record.error("unit_price_usd", str(error)) from None


def _line(record: Record, mapping: ColumnMapping, **facts: Any) -> ExportLine:
    return ExportLine(
        record.day("day"),
        record.text("model") or None,
        record.text("key") or None,
        name_tier(record.text("tier")),
        rounding_nanousd=mapping.rounding_nanousd,
        **facts,
    )

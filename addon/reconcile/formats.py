"""``read_export``: finds which vendor's format a file has, and reads its lines. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from addon.reconcile import anthropic_export, google_export, mapped_export, openai_export, openrouter_export
from addon.reconcile.export_line import Export, ExportError, ExportLine
from addon.reconcile.mapped_export import ColumnMapping
from addon.reconcile.records import (
    MAX_RECORDS,
    PREAMBLE_ROWS,
    Record,
    make_record,
    read_csv_rows,
    read_json,
    records_of,
)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a vendor. A file that has the columns ``required`` has it."""

    name: str
    form: Literal["csv", "json"]
    required: frozenset[str]
    read: Callable[[Iterable[Record]], Iterator[ExportLine]]
    day_columns: tuple[str, ...]
    time_zone: str = "UTC"


FORMATS: Final = (
    Format("OpenAI usage (JSON)", "json", openai_export.USAGE, openai_export.read_usage, ("start_time",)),
    Format("OpenAI costs (JSON)", "json", openai_export.COSTS, openai_export.read_costs, ("start_time",)),
    Format("OpenAI usage (CSV)", "csv", openai_export.USAGE, openai_export.read_usage, ("start_time",)),
    Format("OpenAI costs (CSV)", "csv", openai_export.COSTS, openai_export.read_costs, ("start_time",)),
    Format(
        *("Anthropic usage report (JSON)", "json", anthropic_export.USAGE_JSON),
        *(anthropic_export.read_usage_report, ("starting_at",)),
    ),
    Format(
        *("Anthropic cost report (JSON)", "json", anthropic_export.COST_JSON),
        *(anthropic_export.read_cost_report, ("starting_at",)),
    ),
    Format(
        *("Anthropic usage (CSV)", "csv", anthropic_export.USAGE_CSV),
        *(anthropic_export.read_usage_csv, ("usage_date_utc",)),
    ),
    Format(
        *("Anthropic costs (CSV)", "csv", anthropic_export.COST_CSV),
        *(anthropic_export.read_cost_csv, ("usage_date_utc",)),
    ),
    Format(
        *("Google cost table (CSV)", "csv", google_export.COST_TABLE, google_export.read_cost_table, ()),
        google_export.TIME_ZONE,
    ),
    Format(
        *("Google report (CSV)", "csv", google_export.REPORT, google_export.read_report, ()),
        google_export.TIME_ZONE,
    ),
    Format(
        "OpenRouter activity (JSON)",
        "json",
        openrouter_export.ACTIVITY_JSON,
        openrouter_export.read_activity,
        (),
    ),
    Format(
        "OpenRouter activity (CSV)",
        "csv",
        openrouter_export.ACTIVITY_CSV,
        openrouter_export.read_activity,
        (),
    ),
    Format(
        "OpenRouter generations (CSV)",
        "csv",
        openrouter_export.GENERATIONS,
        openrouter_export.read_generations,
        (),
    ),
)
"""The formats. Of two that fit, the first counts."""

_EMPTY_OPENAI: Final = frozenset({"start_time", "end_time", "start_time_iso", "end_time_iso"})
_UNKNOWN: Final = (
    "a format that is not known; name its columns with --columns FILE.toml, or export it again as"
)
_NAMES: Final = ", ".join(one.name for one in FORMATS)


def read_export(text: str, mapping: ColumnMapping | None = None) -> Export:
    """Return the lines of a file. Raises ``ExportError``."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ExportError("the file is empty; export it again")
    is_json = text.lstrip().startswith(("{", "["))
    read = _read_json_file if is_json else _read_csv_file
    return read(text, mapping)


def _read_csv_file(text: str, mapping: ColumnMapping | None) -> Export:
    rows = read_csv_rows(text, mapping.delimiter if mapping else ",")
    if mapping:
        header = next(rows, (0, []))[1]
        return _read_with_mapping(mapping, records_of(header, rows))
    for _, row in islice(rows, PREAMBLE_ROWS):
        names = frozenset(name.strip() for name in row)
        if names == _EMPTY_OPENAI:
            empty = [record.day("start_time") for record in records_of(row, rows)]
            return Export("OpenAI (CSV)", (), frozenset(empty))
        if found := _find_format("csv", names):
            return _export_of(found, records_of(row, rows))
    raise ExportError(f"{_UNKNOWN} one of: {_NAMES}")


def _read_json_file(text: str, mapping: ColumnMapping | None) -> Export:
    document = read_json(text)
    records, days, has_more = _records_of_pages(document if isinstance(document, list) else [document])
    if mapping:
        return _read_with_mapping(mapping, records)
    if not records:
        if not days:
            raise ExportError(f"{_UNKNOWN} one of: {_NAMES}")
        return Export("an answer without results", (), days, has_more=has_more)
    found = _find_format("json", frozenset(records[0].values))
    if found is None:
        raise ExportError(f"{_UNKNOWN} one of: {_NAMES}")
    export = _export_of(found, records)
    return Export(found.name, export.lines, export.days | days, found.time_zone, has_more)


def _find_format(form: str, names: frozenset[str]) -> Format | None:
    return next((one for one in FORMATS if one.form == form and one.required <= names), None)


def _export_of(found: Format, records: Iterable[Record]) -> Export:
    times: set[str] = set()
    lines = list(found.read(_noting_times(found, records, times)))
    # Days without use have a row, too.
    empty = {Record(found.name, {"day": time}).day("day") for time in times}
    return Export(found.name, lines, frozenset({line.day for line in lines} | empty), found.time_zone)


def _noting_times(found: Format, records: Iterable[Record], times: set[str]) -> Iterator[Record]:
    """Yield the records one by one: a file may have many. Note when they are of."""
    for record in records:
        if found.day_columns and (time := record.text(*found.day_columns)):
            times.add(time)
        yield record


def _read_with_mapping(mapping: ColumnMapping, records: Iterable[Record]) -> Export:
    lines = list(mapped_export.read_mapped(records, mapping))
    return Export("mapped columns", lines, frozenset(line.day for line in lines), mapping.time_zone)


def _records_of_pages(items: Sequence[Any]) -> tuple[list[Record], frozenset[str], bool]:
    """Return the results of all pages, the days of their buckets, and whether another page follows the last one."""
    records: list[Record] = []
    days: set[str] = set()
    has_more = False
    for number, item in enumerate(items):
        place = f"[{number}]" if len(items) > 1 else ""
        if not isinstance(item, dict):
            raise ExportError(
                f"{place or 'the file'}: must be an object; save the answer of the API as it is"
            )
        if not isinstance(item.get("data"), list):
            records.append(make_record(place or "the file", item))
            continue
        has_more = item.get("has_more") is True
        for place_of, bucket in enumerate(item["data"]):
            _add_bucket(f"{place}data[{place_of}]", bucket, records, days)
    return records, frozenset(days), has_more


def _add_bucket(place: str, bucket: Any, records: list[Record], days: set[str]) -> None:
    if not isinstance(bucket, dict):
        raise ExportError(f"{place}: must be an object; save the answer of the API as it is")
    results = bucket.get("results", bucket.get("result"))
    if not isinstance(results, list):
        records.append(make_record(place, bucket))
        return
    times = _times_of(bucket)
    whole = make_record(place, times)
    if whole.text("start_time", "starting_at"):
        days.add(whole.day("start_time", "starting_at"))
    for number, result in enumerate(results):
        if not isinstance(result, dict):
            raise ExportError(f"{place}.results[{number}]: must be an object; save the answer as it is")
        records.append(make_record(f"{place}.results[{number}]", result, **times))
        if len(records) > MAX_RECORDS:
            raise ExportError(f"more than {MAX_RECORDS} results; export fewer days")


def _times_of(bucket: Mapping[str, Any]) -> dict[str, Any]:
    names = ("start_time", "end_time", "starting_at", "ending_at")
    return {name: bucket[name] for name in names if name in bucket}

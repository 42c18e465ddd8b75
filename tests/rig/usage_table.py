"""The table of docs/usage.md, applied to recorded usage blocks: the expected counts and cost of a ledger row."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from rig.configuration import ROOT
from rig.recorded_prompts import model_of
from rig.replay import Run

PRICES_USD_PER_MTOK = {"input": "3", "cached_input": "0.3", "cache_write": "3.75", "output": "15"}
MARKUP = Fraction(104, 100)
NOT_A_COUNT = -1
COLUMNS = ("prompt", "completion", "total", "cached", "cache_write", "reasoning")
OTHER_CACHE_COUNTS = frozenset(
    (
        *("prompt_cache_miss_tokens", "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"),
        *("ephemeral_24h_input_tokens", "input_audio_cache_read_tokens"),
        *("cacheReadInputTokenCount", "cacheWriteInputTokenCount"),
    )
)
"""Counts of caches that are parts or complements of other counts."""


@dataclass(frozen=True)
class Line:
    """The places of a provider's counts: for each column some alternatives, each a sum of paths."""

    places: Mapping[str, list[list[str]]]
    is_beside: bool

    def count(self, column: str, usage: Mapping[str, Any]) -> int | None:
        for summed in self.places[column]:
            counts = [_at(usage, path) for path in summed]
            if counts and counts[0] is not None:
                return max(sum(count or 0 for count in counts), NOT_A_COUNT)
        return None


@dataclass(frozen=True)
class Expected:
    """The expected values in the ledger for an answer."""

    counts: Mapping[str, int | None]
    retail_nanousd: int


@cache
def table() -> dict[str, Line]:
    """Return the lines of the page by ``provider`` or ``provider/name``."""
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    rows = page.split("| reasoning is |\n")[1].split("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    lines = [(re.findall(r"`([^`]+)`", names), _line(given)) for names, *given in cells]
    named = [(name, line) for names, line in lines for name in names]
    assert len(named) == len(dict(named)), "a provider is in two lines"
    return dict(named)


def _line(cells: list[str]) -> Line:
    *places, place_of_reasoning = cells
    return Line(dict(zip(COLUMNS, map(_places, places), strict=True)), place_of_reasoning == "beside")


def _places(cell: str) -> list[list[str]]:
    return [found for place in cell.split(" or ") if (found := re.findall(r"`([^`]+)`", place))]


def line_name(run: Run) -> str:
    """Return the name of the run's line: the most specific match."""
    model = model_of(run.record) if run.record["request"] else ""
    vendor = str((run.record["request"] or {}).get("model", "")).split("/")[0]
    names = [f"{run.provider}/{word}" for word in (run.api, vendor) if word]
    special = [name for name in table() if name.startswith(f"{run.provider}/")]
    begins = [name for name in special if model.startswith(name.split("/")[1])]
    return next((name for name in (*begins, *names) if name in table()), run.provider)


def raw_usage(run: Run) -> dict[str, Any]:
    """Return the recorded usage block. For a stream, return the last count of each kind."""
    found: dict[str, Any] = {}
    for payload in run.payloads:
        for block in _blocks(payload):
            found |= {key: value for key, value in block.items() if value is not None}
    return found


def _blocks(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    vendor, message = payload.get("x_groq") or {}, payload.get("message") or {}
    for block in (vendor.get("usage"), message.get("usage") if isinstance(message, dict) else None):
        yield block or {}
    answer = payload.get("response") or {}
    yield payload.get("usage") or (answer.get("usage") if isinstance(answer, dict) else None) or {}
    yield payload.get("usageMetadata") or {}


def expected(run: Run) -> Expected | None:
    """Return the expected ledger values of a successful answer, or None if it reports no usage."""
    usage, line = raw_usage(run), table()[line_name(run)]
    counts = {column: line.count(column, usage) for column in COLUMNS}
    if all(count is None for count in counts.values()):
        return None
    if line.places["completion"] == [["candidatesTokenCount"]] and counts["total"] is not None:
        counts["completion"] = counts["completion"] or 0
    if not line.places["total"]:
        counts["total"] = (counts["prompt"] or 0) + (counts["completion"] or 0)
    return Expected(counts, _retail_nanousd(counts, is_beside=line.is_beside))


def _retail_nanousd(counts: Mapping[str, int | None], *, is_beside: bool) -> int:
    prompt, completion, total, cached, written, _ = (counts[column] or 0 for column in COLUMNS)
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    output = completion
    if is_beside:
        reasoning = counts["reasoning"]
        output = max(completion, total - prompt) if reasoning is None else completion + reasoning
    spent = {
        "input": prompt - cached - written,
        "cached_input": cached,
        "cache_write": written,
        "output": output,
    }
    usd_per_mtok = {name: Fraction(price) * MARKUP for name, price in PRICES_USD_PER_MTOK.items()}
    nanousd = sum(tokens * usd_per_mtok[name] * 1000 for name, tokens in spent.items())
    return int(nanousd + Fraction(1, 2))


def unnamed_counts(run: Run) -> set[str]:
    """Return nonzero counts of caches or reasoning in a recorded block that its line does not name."""
    line = table()[line_name(run)]
    named = {path for places in line.places.values() for summed in places for path in summed}
    return {
        path
        for path, value in _leaves(raw_usage(run))
        if value
        and re.search("cache|reason|think|thought", path, re.IGNORECASE)
        and path not in named
        and path.split(".")[-1] not in OTHER_CACHE_COUNTS
    }


def _leaves(block: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, int]]:
    for key, value in block.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        elif isinstance(value, int):
            yield f"{above}{key}", value


def _at(usage: Mapping[str, Any], path: str) -> int | None:
    value: Any = usage
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int else None

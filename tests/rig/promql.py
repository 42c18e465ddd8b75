"""The metrics and labels that PromQL queries ask for, compared with the metrics of the program."""

import re
from collections.abc import Iterator

from addon.telemetry.metric_families import FAMILIES, Family

_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_SELECTOR = re.compile(r"\b([a-z_]+_[a-z_]+)\b(?!\s*\()\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'\s*(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_FROM_SCRAPE = {"job", "instance"}
_FROM_PROCESS = {"process_resident_memory_bytes", "process_open_fds", "process_max_fds"}
"""Metrics of prometheus_client that only a gateway in one process has."""

_FAMILY_OF: dict[str, Family] = {
    family.name + suffix: family for family in FAMILIES.values() for suffix in _SUFFIXES[family.kind]
}


def find_mistakes(query: str) -> list[str]:
    """Return the metrics and labels of a query that the program does not have, each as a sentence."""
    return sorted(set(_mistakes(query)))


def metrics_in(query: str) -> set[str]:
    """Return the metrics that a query reads."""
    return {name for name, _ in _selectors(query)}


def _selectors(query: str) -> list[tuple[str, str]]:
    return _SELECTOR.findall(re.sub(r"\[[^\]]*\]", "", _GROUPING.sub("", query)))


def _mistakes(query: str) -> Iterator[str]:
    known: set[str] = set(_FROM_SCRAPE)
    for name, matchers in _selectors(query):
        if name in _FROM_PROCESS:
            continue
        family = _FAMILY_OF.get(name)
        if family is None:
            yield f"there is no metric {name}"
            continue
        labels = {*family.labels, *_FROM_SCRAPE, *({"le"} if name.endswith("_bucket") else ())}
        known |= labels
        if rest := _MATCHER.sub("", matchers).strip(" ,"):
            yield f"{name}: {rest} is no selector"
        yield from (
            f"{name} has no label {label}" for label in _MATCHER.findall(matchers) if label not in labels
        )
    named = [label.strip() for group in _GROUPING.findall(query) for label in group.split(",")]
    yield from (
        f"no metric of the query has a label {label}" for label in named if label and label not in known
    )

"""The health of providers on the front page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.console.view import Reading
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import Figures, Groups
from addon.telemetry.metric_families import Sample
from addon.text.table import Table

COLUMNS: Final = (
    "provider",
    "circuit",
    "workspaces_skipping",
    "calls",
    "failed_calls",
    "error_rate",
    "p50_first_byte_ms",
    "p95_first_byte_ms",
    "keys_ready",
    "keys_resting",
)


def load_providers(reading: Reading, wanted: Filter, by_provider: Groups) -> Table:
    """Return each provider with calls in this time, keys of the platform, or an open circuit.

    Those that fail come first. Circuits and keys are those of now. Each worker counts its keys for itself.
    """
    open_for_all = _sum(reading.live.gauges, "tollgate_circuits_open", scope="all")
    open_for_some = _sum(reading.live.gauges, "tollgate_circuits_open", scope="workspace")
    ready = _sum(reading.live.gauges, "tollgate_platform_keys", state="ready")
    resting = _sum(reading.live.gauges, "tollgate_platform_keys", state="resting")
    seen = {name for (name,) in by_provider}
    shown = {
        name for found in (open_for_all, open_for_some, ready, resting) for name, n in found.items() if n
    }
    rows = [
        _make_row(
            name,
            by_provider.get((name,), Figures()),
            "open" if open_for_all.get(name) else "open for some" if open_for_some.get(name) else "closed",
            [counts.get(name, 0) for counts in (open_for_some, ready, resting)],
        )
        for name in seen | shown
        if wanted.provider in (None, name)
    ]
    return Table(COLUMNS, sorted(rows, key=_rank))


def _make_row(name: str, figures: Figures, circuit: str, counts: Sequence[int]) -> tuple[Any, ...]:
    skipping, ready, resting = counts
    p50, p95 = figures.percentiles()[:2]
    sums = (figures.calls, figures.failed_calls, figures.error_rate)
    return (name, circuit, skipping, *sums, p50, p95, ready, resting)


def _rank(row: Sequence[Any]) -> tuple[Any, ...]:
    provider, circuit, _, calls, *_, ready, resting = row
    return (circuit == "closed", circuit != "open", not resting or ready > 0, -calls, provider)


def _sum(gauges: Mapping[str, Sequence[Sample]], name: str, **labels: str) -> Mapping[str, int]:
    """Return the sum of a gauge's samples with the given labels, by provider."""
    sums: dict[str, int] = {}
    for sample in gauges.get(name, ()):
        if labels.items() <= sample.labels.items():
            provider = sample.labels["provider"]
            sums[provider] = sums.get(provider, 0) + int(sample.value)
    return sums

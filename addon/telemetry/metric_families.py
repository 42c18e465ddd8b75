"""Every metric by name, with its labels and its help text; docs/metrics.md explains them.

A label's value comes from the catalog, the contract or this package. It is never a key or a client's text,
and a workspace only where operators ask for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan
from types import MappingProxyType
from typing import Final, Literal

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

type Rendered = tuple[str, bytes]
"""Content type and body."""
type Numbers = Mapping[tuple[str, ...], Sequence[float]]
"""The numbers of one metric, by the values of its labels."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a gauge, with its labels."""

    labels: Mapping[str, str]
    value: float


type Gauges = Mapping[str, Sequence[Sample]]
"""The samples of each gauge, by its name."""

STORE_BUCKETS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
CALL_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    | field | is |
    |---|---|
    | ``buckets`` | the upper bounds of a histogram's buckets, without infinity |
    | ``over_workers`` | how the gauges of several workers become one |
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    over_workers: Literal["sum", "max", "min"] = "sum"

    @property
    def cell_count(self) -> int:
        """How many numbers a series has. A histogram has one for each bucket, one for infinity, then the sum."""
        return len(self.buckets) + 2 if self.kind == "histogram" else 1

    def combine(self, one: Sequence[float], other: Sequence[float]) -> list[float]:
        """Return the numbers of two workers as one."""
        if self.over_workers != "sum":
            choose = max if self.over_workers == "max" else min
            return [choose(pair) for pair in zip(one, other, strict=True)]
        return [first + second for first, second in zip(one, other, strict=True)]

    def find_samples(self, numbers: Numbers) -> list[Sample]:
        """Return the samples of a gauge."""
        return [
            Sample(dict(zip(self.labels, values, strict=True)), number)
            for values, (number,) in numbers.items()
            if not isnan(number)
        ]

    def to_metric(self, numbers: Numbers) -> Metric:
        """Return the metric as prometheus_client renders it."""
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(self.name, self.help, labels=self.labels)
            bounds = [*(str(float(bound)) for bound in self.buckets), "+Inf"]
            for values, (*counts, total) in numbers.items():
                histogram.add_metric(values, list(zip(bounds, accumulate(counts), strict=True)), total)
            return histogram
        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric = kind(self.name, self.help, labels=self.labels)
        for values, (number,) in numbers.items():
            if not isnan(number):
                metric.add_metric(values, number)
        return metric


def render_registry(registry: CollectorRegistry) -> Rendered:
    """Return the metrics of ``registry`` in Prometheus' text format."""
    return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry)


_FAMILIES: Iterable[Family] = (
    Family("tollgate_calls", "counter", "Calls sent upstream.", ("model", "provider", "mode", "status")),
    Family("tollgate_refusals", "counter", "Calls that were not sent upstream.", ("code",)),
    Family("tollgate_api_calls", "counter", "The same calls by the API of their client.", ("api", "outcome")),
    Family("tollgate_tpm_refusals", "counter", "Calls refused for a limit of tokens a minute.", ("limit",)),
    Family("tollgate_budget_rpm_refusals", "counter", "Calls refused for a budget's requests a minute."),
    Family(
        "tollgate_previous_secret_calls",
        "counter",
        "Calls with a rotated key's previous secret that was let in.",
    ),
    Family(
        "tollgate_previous_secret_last_use_time_seconds",
        "gauge",
        "Unix time of the last such call; 0 without one.",
        over_workers="max",
    ),
    Family("tollgate_fallbacks", "counter", "Calls that a fallback served.", ("provider", "mode")),
    Family("tollgate_tokens", "counter", "Tokens as in the ledger.", ("kind", "model")),
    Family("tollgate_cost_usd", "counter", "USD as in the ledger.", ("price", "model", "mode")),
    Family(
        "tollgate_call_seconds",
        "histogram",
        "From a call's arrival to its end.",
        ("provider", "stream"),
        CALL_BUCKETS_S,
    ),
    Family(
        "tollgate_upstream_first_byte_seconds",
        "histogram",
        "From the arrival of a call for a stream to the first byte of its answer.",
        ("provider",),
        CALL_BUCKETS_S,
    ),
    Family(
        "tollgate_upstream_errors", "counter", "Attempts that failed at the provider.", ("provider", "code")
    ),
    Family("tollgate_upstream_resends", "counter", "Requests that were sent again.", ("provider",)),
    Family(
        "tollgate_usage_disbelieved",
        "counter",
        "Counts of providers that were rejected.",
        ("provider", "count"),
    ),
    Family("tollgate_upstream_connections", "gauge", "Connections to providers.", ("state",)),
    Family("tollgate_upstream_connections_opened", "counter", "Connections made to providers."),
    Family(
        "tollgate_upstream_connections_reused",
        "counter",
        "Requests sent on a connection that had served others.",
    ),
    Family("tollgate_in_use", "gauge", "How much is in use of what calls take and give back.", ("resource",)),
    # Each worker has its own view of the keys (add up), but all workers read the same circuits and files (maximum).
    Family(
        "tollgate_platform_keys",
        "gauge",
        "The platform's keys, by whether they rest.",
        ("provider", "state"),
    ),
    Family(
        "tollgate_circuits_open",
        "gauge",
        "Circuits that are not closed.",
        ("provider", "mode", "scope"),
        over_workers="max",
    ),
    Family(
        "tollgate_reload_failed",
        "gauge",
        "1 while files on disk are not in use, else 0.",
        over_workers="max",
    ),
    Family(
        "tollgate_settings_age_seconds",
        "gauge",
        "Since the settings in use were loaded.",
        over_workers="max",
    ),
    Family(
        "tollgate_broken_files",
        "gauge",
        "Settings files that do not load.",
        ("file",),
        over_workers="max",
    ),
    Family(
        "tollgate_files_differ",
        "gauge",
        "Files that a machine has not as most machines have them.",
        ("machine", "file"),
        over_workers="max",
    ),
    Family(
        "tollgate_store_seconds",
        "histogram",
        "Time that the store took.",
        ("operation",),
        STORE_BUCKETS_S,
    ),
    Family("tollgate_store_errors", "counter", "How often the store failed.", ("operation",)),
    Family(
        "tollgate_store_unavailable",
        "gauge",
        "1 while the store can not be used.",
        over_workers="max",
    ),
    Family("tollgate_unrecorded_calls", "gauge", "Calls that ended and wait in memory for the ledger."),
    Family("tollgate_log_lines_dropped", "counter", "Log lines that could not be written."),
    Family("tollgate_alerts", "counter", "Alerts that were found.", ("type",)),
    Family(
        "tollgate_alert_deliveries", "counter", "Attempts to send alerts, and alerts given up.", ("outcome",)
    ),
    Family("tollgate_alerts_waiting", "gauge", "Alerts that wait to be sent."),
    # One process of all sets these. A series whose workspace is gone has no number.
    Family(
        "tollgate_workspace_wallet_usd",
        "gauge",
        "What is left in the wallet of a workspace.",
        ("workspace",),
        over_workers="max",
    ),
    Family(
        "tollgate_workspace_month_usd",
        "gauge",
        "What is left of the monthly spend cap of a workspace.",
        ("workspace",),
        over_workers="max",
    ),
    Family("tollgate_holds_in_flight", "gauge", "Holds that wait for their call to end."),
    Family(
        "tollgate_build_info",
        "gauge",
        "Always 1. The label has the version.",
        ("version",),
        over_workers="max",
    ),
    Family("tollgate_workers", "gauge", "Processes that serve."),
    Family(
        "tollgate_start_time_seconds",
        "gauge",
        "When the oldest process began, Unix time.",
        over_workers="min",
    ),
    Family("tollgate_worker_starts", "counter", "Processes that began to serve."),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _FAMILIES})

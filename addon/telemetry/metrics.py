"""The metrics of one gateway process for Prometheus. ``metric_families`` names them; docs/metrics.md explains them.

A single process keeps the numbers in memory. Several workers write them to files in the folder that
``FOLDER_VARIABLE`` names, and ``worker_metrics`` adds these files up.
"""

import os
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from math import nan
from operator import attrgetter
from pathlib import Path
from time import time
from typing import Any, Literal, NamedTuple, get_args

from prometheus_client import CollectorRegistry, Metric, ProcessCollector

from addon.telemetry.call_cells import TOKEN_KINDS, CallCells, CallTable
from addon.telemetry.metric_cells import CellFile, CellMemory, Cells
from addon.telemetry.metric_families import (
    CALL_BUCKETS_S,
    FAMILIES,
    Family,
    Gauges,
    Rendered,
    render_registry,
)
from addon.text.errors import REQUEST_ERROR, SERVER_ERROR, UPSTREAM_ERRORS
from policies.alert_rules import AlertType
from policies.circuit_breaker import CircuitScope
from policies.exchange import CLIENT_DISCONNECTED, INTERRUPTED, KNOWN_APIS, ApiName, Exchange
from policies.model import Mode
from policies.refusal import RefusalCode
from policies.token_limits import LimitOwner, Unit

type StoreOperation = Literal["take", "hold", "move", "settle", "void"]
type DeliveryOutcome = Literal["sent", "failed", "dropped"]
type KeyState = Literal["ready", "resting"]

OTHER = "other"
"""The label of a model that is not in the catalog, and of a code that is not in these tables."""

REFUSAL_CODES = frozenset({*get_args(RefusalCode), CLIENT_DISCONNECTED, INTERRUPTED, OTHER})
UPSTREAM_CODES = frozenset({code for _, code in (*UPSTREAM_ERRORS.values(), SERVER_ERROR, REQUEST_ERROR)})

FOLDER_VARIABLE = "TOLLGATE_WORKERS_FOLDER"
"""The environment variable with the folder of several workers."""

MAX_ADDED = 10**15
"""The most that one call adds to a counter. A wrong count of a provider must not make the float inexact."""

MAX_NAMED_FILES = 100
"""How many broken files have their own series. The others are counted together."""

_BUDGET_GAUGES = {
    "wallet": "tollgate_workspace_wallet_usd",
    "monthly_spend_cap": "tollgate_workspace_month_usd",
}
_token_counts = attrgetter(*(f"{kind}_tokens" for kind in TOKEN_KINDS))


class _Metric(dict[tuple[str, ...], Cells]):
    """The cells of one metric by the values of its labels. A series begins when it is first asked for."""

    def __init__(self, family: Family, memory: CellMemory | CellFile) -> None:
        super().__init__()
        self.family = family
        self._memory = memory

    def __missing__(self, values: tuple[str, ...]) -> Cells:
        cells = self[values] = self._memory.reserve((self.family.name, values), self.family.cell_count)
        return cells


class StoreCells(NamedTuple):
    """The cells of one operation of the store. ``seconds`` has the buckets ``STORE_BUCKETS_S``."""

    seconds: Cells
    errors: Cells


class Metrics:
    """The metrics of one gateway process. A worker creates only one: its file can't tell two apart."""

    def __init__(self, version: str) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        memory = CellFile(Path(folder) / f"metrics_{os.getpid()}.db") if folder else CellMemory()
        self._metrics = {name: _Metric(family, memory) for name, family in FAMILIES.items()}
        self._calls = CallTable(self._call_cells)
        self._begin_known_series()
        self._begin_process(version)
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def _begin_known_series(self) -> None:
        """Begin each series that is known before the first call at 0, so that Prometheus sees its first increase."""
        self._refusals = {code: self._cells("tollgate_refusals", code) for code in sorted(REFUSAL_CODES)}
        self._sent_by_api, self._refused_by_api = (
            {api: self._cells("tollgate_api_calls", api, outcome) for api in KNOWN_APIS}
            for outcome in ("sent", "refused")
        )
        self._tpm_refusals = {
            owner: self._cells("tollgate_tpm_refusals", owner) for owner in get_args(LimitOwner)
        }
        self._budget_rpm_refusals = self._cells("tollgate_budget_rpm_refusals")
        self._previous_secret_calls = self._cells("tollgate_previous_secret_calls")
        self._previous_secret_last_use = self._cells("tollgate_previous_secret_last_use_time_seconds")
        self._connections_open = self._cells("tollgate_upstream_connections", "open")
        self._connections_idle = self._cells("tollgate_upstream_connections", "idle")
        self._log_lines_dropped = self._cells("tollgate_log_lines_dropped")
        self._opened = self._cells("tollgate_upstream_connections_opened")
        self._reused = self._cells("tollgate_upstream_connections_reused")
        self.store: dict[StoreOperation, StoreCells] = {
            operation: StoreCells(
                self._cells("tollgate_store_seconds", operation),
                self._cells("tollgate_store_errors", operation),
            )
            for operation in get_args(StoreOperation.__value__)
        }
        """The cells of each operation of the store."""
        for kind in get_args(AlertType):
            self._cells("tollgate_alerts", kind)
        for outcome in get_args(DeliveryOutcome.__value__):
            self._cells("tollgate_alert_deliveries", outcome)
        self._alerts_waiting = self._cells("tollgate_alerts_waiting")
        self.store_unavailable = self._cells("tollgate_store_unavailable")
        self.unrecorded_calls = self._cells("tollgate_unrecorded_calls")
        self.holds_in_flight = self._cells("tollgate_holds_in_flight")
        """The cell with the number of holds that this process placed for calls that have not ended."""

    def _begin_process(self, version: str) -> None:
        self._cells("tollgate_build_info", version)[0] = 1
        self._cells("tollgate_workers")[0] = 1
        self._cells("tollgate_start_time_seconds")[0] = time()
        self._cells("tollgate_worker_starts")[0] = 1

    def _cells(self, name: str, *labels: str) -> Cells:
        return self._metrics[name][labels]

    def _call_cells(
        self, model: str, provider: str, mode: str, status: int | None, stream: bool
    ) -> CallCells:
        return CallCells(
            self._cells("tollgate_calls", model, provider, mode, str(status)),
            tuple(self._cells("tollgate_tokens", kind, model) for kind in TOKEN_KINDS),
            self._cells("tollgate_cost_usd", "wholesale", model, mode),
            self._cells("tollgate_cost_usd", "retail", model, mode),
            self._cells("tollgate_call_seconds", provider, "true" if stream else "false"),
        )

    def call_ended(self, exchange: Exchange, catalog: Container[str], now_s: float) -> None:
        """Count a settled call. ``catalog`` has the slugs of its settings. ``now_s`` is of the clock of its start."""
        target, started_s = exchange.target, exchange.started_s
        model, provider, mode = target.model.slug, target.model.provider.name, target.mode
        if model not in catalog:
            model = OTHER
        cells = self._calls[model, provider, mode, exchange.status, exchange.stream]
        cells.calls[0] += 1
        self._sent_by_api[exchange.api][0] += 1
        for cell, count in zip(cells.tokens, _token_counts(exchange.usage), strict=True):
            if count:
                cell[0] += min(count, MAX_ADDED)
        if exchange.retail_nanousd or exchange.wholesale_nanousd:
            cells.wholesale[0] += min(exchange.wholesale_nanousd, MAX_ADDED) / 1e9
            cells.retail[0] += min(exchange.retail_nanousd, MAX_ADDED) / 1e9
        duration_s = now_s - started_s
        cells.seconds[bisect_left(CALL_BUCKETS_S, duration_s)] += 1
        cells.seconds[-1] += duration_s
        if target.is_fallback and exchange.was_served_by_fallback:
            self._metrics["tollgate_fallbacks"][provider, mode][0] += 1
        if exchange.stream and exchange.first_byte_s is not None:
            wait_s = exchange.first_byte_s - started_s
            first_byte = self._metrics["tollgate_upstream_first_byte_seconds"][(provider,)]
            first_byte[bisect_left(CALL_BUCKETS_S, wait_s)] += 1
            first_byte[-1] += wait_s

    def attempt_failed(self, provider: str, code: str) -> None:
        """Count an attempt that failed at its provider, whatever follows."""
        if code in UPSTREAM_CODES:
            self._cells("tollgate_upstream_errors", provider, code)[0] += 1

    def count_resend(self, provider: str) -> None:
        """Count a request that was sent again because its provider had closed the connection."""
        self._cells("tollgate_upstream_resends", provider)[0] += 1

    def count_implausible_usage(self, provider: str, count: str) -> None:
        """Add 1 for an impossible token count of a provider. ``count`` is its column in the ledger."""
        self._cells("tollgate_usage_disbelieved", provider, count)[0] += 1

    def call_refused(self, code: str, api: ApiName = "chat") -> None:
        """Count a call that ended before it was sent: it was refused, or its client left."""
        self._refused_by_api[api][0] += 1
        self._refusals[code if code in self._refusals else OTHER][0] += 1

    def count_minute_refusal(self, owner: LimitOwner, unit: Unit) -> None:
        """Count a call that was refused for the tokens a minute of ``owner``, or the requests a minute of a budget."""
        cells = self._budget_rpm_refusals if unit == "requests" else self._tpm_refusals[owner]
        cells[0] += 1

    def count_previous_secret(self, now: datetime) -> None:
        """Count a call at ``now`` with the previous secret of a rotated key."""
        self._previous_secret_calls[0] += 1
        self._previous_secret_last_use[0] = max(self._previous_secret_last_use[0], now.timestamp())

    def set_platform_keys(self, counts: Mapping[tuple[str, KeyState], int]) -> None:
        """Set how many platform keys each provider has in each state. A pair that is missing now becomes 0."""
        _set(self._metrics["tollgate_platform_keys"], counts)

    def set_circuits_open(self, counts: Mapping[tuple[str, Mode, CircuitScope], int]) -> None:
        """Set how many circuits are not closed by provider, mode and scope. A missing combination becomes 0."""
        _set(self._metrics["tollgate_circuits_open"], counts)

    def count_alert(self, kind: str) -> None:
        """Count an alert that was found."""
        self._cells("tollgate_alerts", kind)[0] += 1

    def count_delivery(self, outcome: DeliveryOutcome) -> None:
        """Count an attempt to send an alert, or one that is given up."""
        self._cells("tollgate_alert_deliveries", outcome)[0] += 1

    def set_alerts_waiting(self, count: int) -> None:
        """Set how many alerts wait in the ledger."""
        self._alerts_waiting[0] = count

    def set_workspace_budgets(self, left_usd: Mapping[tuple[str, str], float], *, is_all: bool) -> None:
        """Set what is left, by the kind of limit and the workspace. With ``is_all``, all other series lose theirs."""
        for kind, name in _BUDGET_GAUGES.items():
            metric = self._metrics[name]
            for workspace in metric if is_all else ():
                if (kind, *workspace) not in left_usd:
                    metric[workspace][0] = nan
        for (kind, name), usd in left_usd.items():
            self._metrics[_BUDGET_GAUGES[kind]][name,][0] = usd

    def set_upstream_connections(self, *, open_now: int, idle_now: int, opened: int, reused: int) -> None:
        """Set the metrics of the connection pool. ``opened`` and ``reused`` are totals since the start."""
        self._connections_open[0], self._connections_idle[0] = open_now, idle_now
        self._opened[0], self._reused[0] = opened, reused

    def set_dropped_log_lines(self, total: int) -> None:
        """Set how many log lines of this process could not be written since its start."""
        self._log_lines_dropped[0] = total

    def set_in_use(self, counts: Mapping[str, int]) -> None:
        """Set how much of each bounded resource is in use."""
        _set(self._metrics["tollgate_in_use"], {(name,): count for name, count in counts.items()})

    def set_broken_files(self, files: Sequence[Path]) -> None:
        """Set which settings files do not load. A file that is missing now becomes 0."""
        counts = dict.fromkeys((f"{file.parent.name}/{file.name}" for file in files[:MAX_NAMED_FILES]), 1)
        if len(files) > MAX_NAMED_FILES:
            counts[OTHER] = len(files) - MAX_NAMED_FILES
        _set(self._metrics["tollgate_broken_files"], {(file,): count for file, count in counts.items()})

    def set_files_differ(self, found: Sequence[tuple[str, str]]) -> None:
        """Set in which files which machine differs from the others. A pair that is missing now becomes 0."""
        _set(self._metrics["tollgate_files_differ"], dict.fromkeys(found, 1))

    def set_reload_failed(self, *, failed: bool) -> None:
        """Set whether the files on disk are not in use, because some do not load or can't be put to use."""
        self._cells("tollgate_reload_failed")[0] = failed

    def set_settings_age(self, age_s: float) -> None:
        """Set how long ago the settings in use were loaded."""
        self._cells("tollgate_settings_age_seconds")[0] = age_s

    def render(self) -> Rendered:
        """Return the metrics page of this process."""
        return render_registry(self.registry)

    def read_gauges(self) -> Gauges:
        """Return the gauges of the page, in a fraction of its time: most of its lines are those of histograms."""
        return {
            name: metric.family.find_samples(metric)
            for name, metric in self._metrics.items()
            if metric.family.kind == "gauge"
        }

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, as ``CollectorRegistry`` asks for them."""
        for metric in self._metrics.values():
            yield metric.family.to_metric(metric)


def _set(metric: _Metric, values: Mapping[Any, int]) -> None:
    for labels in metric.keys() | values.keys():
        metric[labels][0] = values.get(labels, 0)

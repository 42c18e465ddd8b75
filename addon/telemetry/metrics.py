"""The metrics of one gateway process for Prometheus. Every metric is defined here; docs/metrics.md explains it.

A label's value comes from the catalog, the contract or this file. It is never a key, a workspace or a client's text.

A single process keeps the numbers in memory. Several workers write them to files in the folder that
``FOLDER_VARIABLE`` names, and ``worker_metrics`` adds these files up. prometheus_client reads that variable when it is
first imported.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Literal, NamedTuple, get_args

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from addon.text.errors import REQUEST_ERROR, SERVER_ERROR, UPSTREAM_ERRORS
from policies.circuit_breaker import CircuitScope
from policies.exchange import CLIENT_DISCONNECTED, INTERRUPTED, Exchange
from policies.model import Mode
from policies.refusal import RefusalCode

type StoreOperation = Literal["take", "hold", "move", "settle", "void"]
type KeyState = Literal["ready", "resting"]
type Rendered = tuple[str, bytes]
"""Content type and body."""

OTHER = "other"
"""The label of a model that is not in the catalog, and of a code that is not in these tables."""

REFUSAL_CODES = frozenset({*get_args(RefusalCode), CLIENT_DISCONNECTED, INTERRUPTED, OTHER})
UPSTREAM_CODES = frozenset({code for _, code in (*UPSTREAM_ERRORS.values(), SERVER_ERROR, REQUEST_ERROR)})

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder of several workers, by prometheus_client's own name."""

MAX_ADDED = 10**15
"""The most that one call adds to a counter. A wrong count of a provider must not make the float inexact."""

MAX_NAMED_FILES = 100
"""How many broken files have their own series. The others are counted together."""

STORE_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
CALL_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)

disable_created_metrics()


class _Children[Child](dict[tuple[str, ...], Child]):
    """The children of one metric by the values of their labels. A lookup takes a tenth of the time of ``labels``."""

    def __init__(self, make: Callable[..., Child]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, values: tuple[str, ...]) -> Child:
        child = self[values] = self._make(*values)
        return child


class _Amounts(NamedTuple):
    """The counters that the calls of one model in one mode add to."""

    prompt: Counter
    cached: Counter
    cache_write: Counter
    completion: Counter
    reasoning: Counter
    wholesale: Counter
    retail: Counter


class Metrics:
    """The metrics of one gateway process. A worker creates only one: its files can't tell two apart."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._define_calls()
        self._define_upstream()
        self._define_connections()
        self._define_states()
        self._define_store()
        self._define_process(version)

    def _define_calls(self) -> None:
        counter = partial(Counter, registry=self.registry)
        calls = counter("tollgate_calls", "Calls sent upstream.", ("model", "provider", "mode", "status"))
        refusals = counter("tollgate_refusals", "Calls that were not sent upstream.", ("code",))
        self._fallbacks = counter("tollgate_fallbacks", "Calls that a fallback served.", ("provider", "mode"))
        self._tokens = counter("tollgate_tokens", "Tokens as in the ledger.", ("kind", "model"))
        self._cost = counter("tollgate_cost_usd", "USD as in the ledger.", ("price", "model", "mode"))
        self._calls_by = _Children[Counter](calls.labels)
        self._amounts_by = _Children[_Amounts](self._amounts)
        # Every known code starts at 0, so that Prometheus sees the first refusal as an increase.
        self._refusals = {code: refusals.labels(code) for code in sorted(REFUSAL_CODES)}

    def _define_upstream(self) -> None:
        seconds = partial(Histogram, buckets=CALL_BUCKETS_S, registry=self.registry)
        call = seconds("tollgate_call_seconds", "From a call's arrival to its end.", ("provider", "stream"))
        first_byte = seconds(
            "tollgate_upstream_first_byte_seconds",
            "From the arrival of a call for a stream to the first byte of its answer.",
            ("provider",),
        )
        counter = partial(Counter, registry=self.registry)
        errors = counter(
            "tollgate_upstream_errors", "Attempts that failed at the provider.", ("provider", "code")
        )
        disbelieved = counter(
            "tollgate_usage_disbelieved", "Counts of providers that were rejected.", ("provider", "count")
        )
        self._disbelieved_by = _Children[Counter](disbelieved.labels)
        self._call_by = _Children[Histogram](call.labels)
        self._first_byte_by = _Children[Histogram](first_byte.labels)
        self._errors_by = _Children[Counter](errors.labels)

    def _define_connections(self) -> None:
        connections = Gauge(
            "tollgate_upstream_connections",
            "Connections to providers.",
            ("state",),
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        counter = partial(Counter, registry=self.registry)
        self._opened = counter("tollgate_upstream_connections_opened", "Connections made to providers.")
        self._reused = counter(
            "tollgate_upstream_connections_reused", "Requests sent on a connection that had served others."
        )
        self._connections = {state: connections.labels(state) for state in ("open", "idle")}
        self._pool_counted = (0, 0)

    def _define_states(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        # Each worker has its own view of the keys (add up), but all workers read the same circuits and files (maximum).
        keys = gauge(
            "tollgate_platform_keys",
            "The platform's keys, by whether they rest.",
            ("provider", "state"),
            multiprocess_mode="livesum",
        )
        circuits = gauge(
            "tollgate_circuits_open",
            "Circuits that are not closed.",
            ("provider", "mode", "scope"),
            multiprocess_mode="livemax",
        )
        broken = gauge(
            "tollgate_broken_files",
            "Settings files that do not load.",
            ("file",),
            multiprocess_mode="livemax",
        )
        self._broken_by = _Children[Gauge](broken.labels)
        self._keys_by = _Children[Gauge](keys.labels)
        self._circuits_by = _Children[Gauge](circuits.labels)

    def _define_store(self) -> None:
        operations = get_args(StoreOperation.__value__)
        seconds = Histogram(
            "tollgate_store_seconds",
            "Time that the store took.",
            ("operation",),
            buckets=STORE_BUCKETS_S,
            registry=self.registry,
        )
        counter = partial(Counter, registry=self.registry)
        errors = counter("tollgate_store_errors", "How often the store failed.", ("operation",))
        self._store_seconds = {operation: seconds.labels(operation) for operation in operations}
        self._store_errors = {operation: errors.labels(operation) for operation in operations}
        self._holds = Gauge(
            "tollgate_holds_in_flight",
            "Holds that wait for their call to end.",
            multiprocess_mode="livesum",
            registry=self.registry,
        )

    def _define_process(self, version: str) -> None:
        gauge = partial(Gauge, registry=self.registry)
        gauge(
            "tollgate_build_info",
            "Always 1. The label has the version.",
            ("version",),
            multiprocess_mode="livemax",
        ).labels(version).set(1)
        gauge("tollgate_workers", "Processes that serve.", multiprocess_mode="livesum").set(1)
        gauge(
            "tollgate_start_time_seconds",
            "When the oldest process began, Unix time.",
            multiprocess_mode="livemin",
        ).set(time())
        Counter("tollgate_worker_starts", "Processes that began to serve.", registry=self.registry).inc()
        ProcessCollector(registry=self.registry)

    def call_ended(self, exchange: Exchange, catalog: Container[str], now_s: float) -> None:
        """Count a settled call. ``catalog`` has the slugs of its settings; ``now_s`` has the clock of ``started_s``."""
        target = exchange.target
        provider, mode = target.model.provider.name, target.mode
        model = target.model.slug if target.model.slug in catalog else OTHER
        self._calls_by[model, provider, mode, str(exchange.status)].inc()
        if exchange.was_served_by_fallback:
            self._fallbacks.labels(provider, mode).inc()
        amounts, usage = self._amounts_by[model, mode], exchange.usage
        _add(amounts.prompt, usage.prompt_tokens)
        _add(amounts.cached, usage.cached_tokens)
        _add(amounts.cache_write, usage.cache_write_tokens)
        _add(amounts.completion, usage.completion_tokens)
        _add(amounts.reasoning, usage.reasoning_tokens)
        _add(amounts.wholesale, exchange.wholesale_nanousd, 1e9)
        _add(amounts.retail, exchange.retail_nanousd, 1e9)
        self._call_by[provider, "true" if exchange.stream else "false"].observe(now_s - exchange.started_s)
        if exchange.stream and exchange.first_byte_s is not None:
            self._first_byte_by[(provider,)].observe(exchange.first_byte_s - exchange.started_s)

    def attempt_failed(self, provider: str, code: str) -> None:
        """Count an attempt that failed at its provider, whatever follows."""
        if code in UPSTREAM_CODES:
            self._errors_by[provider, code].inc()

    def count_disbelieved(self, provider: str, count: str) -> None:
        """Count a count of a provider that is impossible. ``count`` is its column in the ledger."""
        self._disbelieved_by[provider, count].inc()

    def call_refused(self, code: str) -> None:
        """Count a call that ended before it was sent: it was refused, or its client left."""
        self._refusals[code if code in self._refusals else OTHER].inc()

    def set_holds_in_flight(self, count: int) -> None:
        """Set how many holds this process has placed for calls that have not ended."""
        self._holds.set(count)

    def set_platform_keys(self, counts: Mapping[tuple[str, KeyState], int]) -> None:
        """Set how many platform keys each provider has in each state. A pair that is missing now becomes 0."""
        _set(self._keys_by, counts)

    def set_circuits_open(self, counts: Mapping[tuple[str, Mode, CircuitScope], int]) -> None:
        """Set how many circuits are not closed by provider, mode and scope. A missing combination becomes 0."""
        _set(self._circuits_by, counts)

    def set_upstream_connections(self, *, open_now: int, idle_now: int, opened: int, reused: int) -> None:
        """Set the metrics of the connection pool. ``opened`` and ``reused`` are totals since the start."""
        self._connections["open"].set(open_now)
        self._connections["idle"].set(idle_now)
        opened_before, reused_before = self._pool_counted
        self._opened.inc(opened - opened_before)
        self._reused.inc(reused - reused_before)
        self._pool_counted = (opened, reused)

    def set_broken_files(self, files: Sequence[Path]) -> None:
        """Set which settings files do not load. A file that is missing now becomes 0."""
        counts = dict.fromkeys((f"{file.parent.name}/{file.name}" for file in files[:MAX_NAMED_FILES]), 1)
        if len(files) > MAX_NAMED_FILES:
            counts[OTHER] = len(files) - MAX_NAMED_FILES
        _set(self._broken_by, {(file,): count for file, count in counts.items()})

    def store_asked(self, operation: StoreOperation, duration_s: float, *, available: bool) -> None:
        """Count one operation of the store and its time, whether or not it succeeded."""
        self._store_seconds[operation].observe(duration_s)
        if not available:
            self._store_errors[operation].inc()

    def render(self) -> Rendered:
        """Return the metrics page of this process."""
        return render_registry(self.registry)

    def _amounts(self, model: str, mode: str) -> _Amounts:
        kinds = ("prompt", "cached", "cache_write", "completion", "reasoning")
        prices = ("wholesale", "retail")
        return _Amounts(
            *(self._tokens.labels(kind, model) for kind in kinds),
            *(self._cost.labels(price, model, mode) for price in prices),
        )


def render_registry(registry: CollectorRegistry) -> Rendered:
    """Return the metrics of ``registry`` in Prometheus' text format."""
    return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry)


def _set(gauges: _Children[Gauge], values: Mapping[Any, int]) -> None:
    for labels in gauges.keys() | values.keys():
        gauges[labels].set(values.get(labels, 0))


def _add(counter: Counter, amount: int | None, scale: float = 1.0) -> None:
    if amount:
        counter.inc(min(amount, MAX_ADDED) / scale)

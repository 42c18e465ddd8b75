"""What is counted of real exchanges, real stores and real worker processes, read back as Prometheus would."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.ledger import locked_by_another

from addon.store import Booking, HoldRequest, Store, StoreUnavailable
from addon.store.measured import MeasuredStore
from addon.store.sqlite.store import SqliteStore
from addon.telemetry.metrics import (
    MOST,
    MOST_NAMED,
    OTHER,
    REFUSAL_CODES,
    UPSTREAM_CODES,
    Metrics,
    render_workers,
    worker_ended,
)
from policies.exchange import Exchange, Stage
from policies.family import Family
from policies.limits import Counter, Limit
from policies.model import Attempt, Key, Model, Prices, Provider, Route, Usage, Workspace
from policies.refusal import RefusalCode
from policies.spend import NOT_METERED, Denial, Hold

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")

PRICES = Prices(1, 1, 1)
TESTER = Provider("TESTER", "https://example.invalid", "openai", ())
MODEL = Model("tester-large", TESTER, "large-2026", Family("chat"), PRICES, PRICES, 100, False, True)
CATALOG = {"tester-large"}
SECRET = "not-a-real-secret"
KEY = Key("key-of-acme", "0" * 64)
EXCHANGE = Exchange(
    id="call-0",
    created_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    started_s=1.0,
    stage=Stage.SETTLED,
    workspace=Workspace("acme", "Acme Corporation", "standard", (KEY,)),
    key=KEY,
    requested_model="what the client wrote",
    end_user="somebody at acme",
    route=Route((Attempt(MODEL, "payg", SecretStr(SECRET)),), "pinned"),
    attempts=1,
    status=200,
    usage=Usage(10, 5, 15, cached_tokens=4, reasoning_tokens=2),
    usage_source="provider",
    wholesale_nanousd=1_500_000_000,
    retail_nanousd=1_560_000_000,
    first_byte_s=1.2,
)

type Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def read(rendered: tuple[str, bytes]) -> Samples:
    """Every sample by its name and its labels."""
    content_type, body = rendered
    assert content_type.startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert labels not in found.setdefault(sample.name, {}), f"twice: {sample}"
            found[sample.name][labels] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][frozenset(labels.items())]


def exchange_by(model: Model = MODEL, mode: Any = "payg", **changes: Any) -> Exchange:
    route = Route((Attempt(model, mode, SecretStr(SECRET)),), "pinned")
    return replace(EXCHANGE, route=route, **changes)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


# One process.


def test_a_settled_call_is_counted_with_its_tokens_its_cost_and_its_time(metrics: Metrics):
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    told = read(metrics.render())
    calls = {"model": "tester-large", "provider": "TESTER", "mode": "payg", "status": "200"}
    assert value(told, "tollgate_calls_total", **calls) == 2
    tokens = {
        kind: value(told, "tollgate_tokens_total", kind=kind, model="tester-large")
        for kind in ("prompt", "cached", "completion", "reasoning")
    }
    assert tokens == {"prompt": 20, "cached": 8, "completion": 10, "reasoning": 4}
    cost = {"model": "tester-large", "mode": "payg"}
    assert value(told, "tollgate_cost_usd_total", price="retail", **cost) == pytest.approx(3.12)
    assert value(told, "tollgate_cost_usd_total", price="wholesale", **cost) == pytest.approx(3.0)
    whole = {"provider": "TESTER", "stream": "false"}
    assert value(told, "tollgate_call_seconds_sum", **whole) == pytest.approx(5.0)
    assert value(told, "tollgate_call_seconds_bucket", le="2.5", **whole) == 2
    assert value(told, "tollgate_call_seconds_bucket", le="1.0", **whole) == 0


def test_only_a_stream_that_began_has_a_first_byte(metrics: Metrics):
    metrics.call_ended(exchange_by(stream=False), CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, first_byte_s=None), CATALOG, now_s=2.0)
    assert "tollgate_upstream_first_byte_seconds_sum" not in read(metrics.render())
    metrics.call_ended(exchange_by(stream=True), CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert value(told, "tollgate_upstream_first_byte_seconds_sum", provider="TESTER") == pytest.approx(0.2)
    assert value(told, "tollgate_call_seconds_count", provider="TESTER", stream="true") == 2


def test_what_was_not_reported_and_not_billed_adds_nothing(metrics: Metrics):
    nothing = exchange_by(mode="byok", usage=Usage(), wholesale_nanousd=0, retail_nanousd=0)
    metrics.call_ended(nothing, CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert sum(told["tollgate_tokens_total"].values()) == 0
    assert sum(told["tollgate_cost_usd_total"].values()) == 0


def _of_one_call(exchange: Exchange) -> Samples:
    metrics = Metrics("1.2.3")
    metrics.call_ended(exchange, CATALOG, now_s=2.0)
    return read(metrics.render())


def test_a_call_that_fell_back_is_counted_for_the_attempt_that_served_it(metrics: Metrics):
    other = replace(MODEL, slug="other-small", provider=replace(TESTER, name="OTHER"))
    second = Attempt(other, "payg", SecretStr(SECRET), is_fallback=True)
    attempts = (Attempt(MODEL, "byok", SecretStr(SECRET)), second)
    metrics.attempt_failed("TESTER", "upstream_error")
    fell_back = replace(EXCHANGE, route=Route(attempts, "pinned"), attempts=2, first_byte_s=1.5)
    metrics.call_ended(fell_back, {"tester-large", "other-small"}, now_s=2.0)
    told = read(metrics.render())
    assert list(told["tollgate_calls_total"]) == [
        frozenset({"model": "other-small", "provider": "OTHER", "mode": "payg", "status": "200"}.items())
    ]
    assert told["tollgate_upstream_errors_total"] == {
        frozenset({"provider": "TESTER", "code": "upstream_error"}.items()): 1
    }
    assert told["tollgate_fallbacks_total"] == {frozenset({"provider": "OTHER", "mode": "payg"}.items()): 1}
    assert "tollgate_fallbacks_total" not in _of_one_call(replace(fell_back, first_byte_s=None))


@pytest.mark.parametrize(
    ("status", "code", "counts"),
    [
        (502, "upstream_error", True),
        (429, "rate_limit_exceeded", True),
        (401, "invalid_api_key", True),
        (400, "invalid_request_error", True),
        (499, "client_disconnected", False),
        (499, "interrupted", False),
        (500, "internal_error", False),
        (200, None, False),
    ],
)
def test_an_attempt_that_its_provider_failed_is_an_upstream_error_once_and_no_other_is(
    metrics: Metrics, status: int, code: str | None, counts: bool
):
    metrics.call_ended(exchange_by(status=status, error_code=code), CATALOG, now_s=2.0)
    if code is not None:
        metrics.attempt_failed("TESTER", code)
    told = read(metrics.render())
    expected = {frozenset({"provider": "TESTER", "code": code}.items()): 1.0} if counts else {}
    assert told.get("tollgate_upstream_errors_total", {}) == expected


def test_every_refusal_begins_at_zero_and_is_counted_by_its_code(metrics: Metrics):
    before = read(metrics.render())["tollgate_refusals_total"]
    assert {dict(labels)["code"] for labels in before} == REFUSAL_CODES
    assert set(get_args(RefusalCode)) < REFUSAL_CODES
    assert set(before.values()) == {0.0}
    for code in ("payment_required", "payment_required", "client_disconnected"):
        metrics.call_refused(code)
    told = read(metrics.render())
    assert value(told, "tollgate_refusals_total", code="payment_required") == 2
    assert value(told, "tollgate_refusals_total", code="client_disconnected") == 1


@settings(max_examples=50)
@given(code=st.text(), slug=st.text())
def test_no_text_from_elsewhere_becomes_a_label(code: str, slug: str):
    metrics = Metrics("1.2.3")
    metrics.call_refused(code)
    metrics.call_ended(exchange_by(replace(MODEL, slug=slug), error_code=code), CATALOG, now_s=2.0)
    told = read(metrics.render())
    labels = [dict(labels) for by_labels in told.values() for labels in by_labels]
    assert {found["code"] for found in labels if "code" in found} <= REFUSAL_CODES | UPSTREAM_CODES
    assert {found["model"] for found in labels if "model" in found} <= CATALOG | {OTHER}


def test_nothing_of_the_customer_stands_on_the_page(metrics: Metrics):
    custom = replace(MODEL, slug="TESTER/acmes-own-model")
    metrics.call_ended(exchange_by(custom, "byok"), CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    body = metrics.render()[1].decode()
    for private in ("acme", "Acme", SECRET, KEY.hash, "what the client wrote", "somebody", "call-0"):
        assert private not in body


def test_an_absurd_count_neither_breaks_a_call_nor_makes_the_sum_deaf_to_later_ones(metrics: Metrics):
    absurd = exchange_by(usage=Usage(10**400, 1), retail_nanousd=10**500)
    metrics.call_ended(absurd, CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert value(told, "tollgate_tokens_total", kind="prompt", model="tester-large") == MOST + 10


def test_a_gauge_of_what_is_there_no_more_is_zero(metrics: Metrics):
    metrics.set_circuits_open({("TESTER", "payg", "all"): 1, ("TESTER", "byok", "workspace"): 3})
    metrics.set_circuits_open({("OTHER", "payg", "all"): 1})
    told = read(metrics.render())
    assert value(told, "tollgate_circuits_open", provider="TESTER", mode="payg", scope="all") == 0
    assert value(told, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 0
    assert value(told, "tollgate_circuits_open", provider="OTHER", mode="payg", scope="all") == 1


def test_broken_files_are_named_the_first_of_them_one_by_one(metrics: Metrics):
    files = [Path(f"/somewhere/workspaces/w{number:03}.toml") for number in range(MOST_NAMED + 5)]
    metrics.set_broken_files(files)
    told = read(metrics.render())["tollgate_broken_files"]
    assert len(told) == MOST_NAMED + 1
    assert told[frozenset({("file", "workspaces/w000.toml")})] == 1
    assert told[frozenset({("file", OTHER)})] == 5
    metrics.set_broken_files(files[:1])
    assert sum(read(metrics.render())["tollgate_broken_files"].values()) == 1


def test_the_process_tells_its_version_and_when_it_began(metrics: Metrics):
    told = read(metrics.render())
    assert value(told, "tollgate_build_info", version="1.2.3") == 1
    assert value(told, "tollgate_workers") == value(told, "tollgate_worker_starts_total") == 1
    assert 1_700_000_000 < value(told, "tollgate_start_time_seconds") < 10_000_000_000


def test_two_gateways_in_one_program_count_apart(metrics: Metrics):
    other = Metrics("1.2.3")
    other.call_refused("bad_request")
    assert value(read(metrics.render()), "tollgate_refusals_total", code="bad_request") == 0


# The store.


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()


def hold_request(call_id: str, most_calls: int = 10) -> HoldRequest:
    limit = Limit("request_cap", Counter("key:acme/ci", "2026-01"), most_calls)
    row = replace(EXCHANGE, id=call_id, stage=Stage.HELD, attempts=0).interrupted_row()
    return HoldRequest(call_id, EXCHANGE.created_at, "acme", "ci", NOT_METERED, [limit], row)


def booking(call_id: str) -> Booking:
    return Booking(replace(EXCHANGE, id=call_id).ledger_row(now_s=2.0), from_wallet=False)


async def test_a_measured_store_answers_as_the_store_and_every_operation_is_timed(
    metrics: Metrics, store: SqliteStore
):
    measured: Store = MeasuredStore(store, metrics)
    assert await measured.take("acme", 1) == 0
    assert await measured.take("acme", 1) > 0
    assert isinstance(await measured.hold(hold_request("call-1")), Hold)
    assert isinstance(await measured.hold(hold_request("call-2")), Hold)
    assert isinstance(await measured.hold(hold_request("call-2")), Hold)
    assert isinstance(await measured.hold(hold_request("call-3", most_calls=1)), Denial)
    assert isinstance(await measured.move(hold_request("call-2")), Hold)
    assert value(read(metrics.render()), "tollgate_holds_in_flight") == 2
    await measured.settle(booking("call-1"))
    await measured.settle(booking("call-1"))
    assert value(read(metrics.render()), "tollgate_holds_in_flight") == 1
    await measured.void("call-2")
    told = read(metrics.render())
    assert value(told, "tollgate_holds_in_flight") == 0
    counts = {"take": 2, "hold": 4, "move": 1, "settle": 2, "void": 1}
    for operation, count in counts.items():
        assert value(told, "tollgate_store_seconds_count", operation=operation) == count
        assert value(told, "tollgate_store_seconds_sum", operation=operation) > 0
    assert set(told["tollgate_store_errors_total"].values()) == {0.0}


async def test_a_store_that_can_not_be_asked_is_counted_as_such_and_its_hold_is_not(
    metrics: Metrics, store: SqliteStore, ledger_path: Path
):
    measured = MeasuredStore(store, metrics)
    await measured.check()
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable):
            await measured.take("acme", 1)
        with pytest.raises(StoreUnavailable):
            await measured.hold(hold_request("call-1"))
    told = read(metrics.render())
    assert value(told, "tollgate_store_errors_total", operation="take") == 1
    assert value(told, "tollgate_store_errors_total", operation="hold") == 1
    assert value(told, "tollgate_store_errors_total", operation="settle") == 0
    assert value(told, "tollgate_store_seconds_count", operation="take") == 1
    assert value(told, "tollgate_holds_in_flight") == 0


def test_the_pool_of_connections_is_counted(metrics: Metrics):
    for open_now, idle_now, opened, reused in ((3, 1, 5, 7), (2, 2, 6, 9)):
        metrics.set_upstream_connections(open_now=open_now, idle_now=idle_now, opened=opened, reused=reused)
        told = read(metrics.render())
        assert value(told, "tollgate_upstream_connections", state="open") == open_now
        assert value(told, "tollgate_upstream_connections", state="idle") == idle_now
        assert value(told, "tollgate_upstream_connections_opened_total") == opened
        assert value(told, "tollgate_upstream_connections_reused_total") == reused


# Workers.

WORKER = """
import sys
from unit.telemetry.test_metrics import CATALOG, EXCHANGE
from addon.telemetry.metrics import Metrics

metrics = Metrics("1.2.3")
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        metrics.call_ended(EXCHANGE, CATALOG, 3.5)
        metrics.call_refused("bad_request")
    metrics.set_holds_in_flight(int(line))
    metrics.set_platform_keys({("TESTER", "ready"): 2, ("TESTER", "resting"): int(line)})
    metrics.set_circuits_open({("TESTER", "byok", "workspace"): int(line)})
    print("done", flush=True)
"""


class Worker:
    """A process that counts as many calls as it is told, in a directory that it shares with others."""

    def __init__(self, directory: Path) -> None:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(directory), "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def count(self, calls: int) -> None:
        self.tell(calls)
        self._expect("done")

    def tell(self, calls: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()

    def wait_until_counted(self) -> None:
        self._expect("done")

    def end(self, signum: signal.Signals = signal.SIGKILL) -> int:
        """End it; return its process id."""
        self.process.send_signal(signum)
        self.process.communicate(timeout=BOUND_S)
        return self.process.pid

    def _expect(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word


@contextmanager
def workers(directory: Path, count: int) -> Iterator[list[Worker]]:
    directory.mkdir(exist_ok=True)
    running: list[Worker] = []
    try:
        for _ in range(count):
            running.append(Worker(directory))  # noqa: PERF401  (those that started must be ended if one does not)
        yield running
    finally:
        for worker in running:
            if worker.process.poll() is None:
                worker.end()


CALLS = {"model": "tester-large", "provider": "TESTER", "mode": "payg", "status": "200"}


def test_workers_are_summed_up_and_what_a_killed_one_counted_stays(tmp_path: Path):
    directory = tmp_path / "metrics"
    with workers(directory, 2) as (one, other):
        one.count(3)
        other.count(4)
        told = read(render_workers(directory))
        assert value(told, "tollgate_calls_total", **CALLS) == 7
        assert value(told, "tollgate_holds_in_flight") == 7
        assert value(told, "tollgate_platform_keys", provider="TESTER", state="ready") == 4
        assert value(told, "tollgate_platform_keys", provider="TESTER", state="resting") == 7
        assert value(told, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 4
        assert value(told, "tollgate_workers") == 2
        assert value(told, "tollgate_build_info", version="1.2.3") == 1
        worker_ended(directory, one.end())
        other.count(1)
        told = read(render_workers(directory))
        assert value(told, "tollgate_calls_total", **CALLS) == 8
        assert value(told, "tollgate_refusals_total", code="bad_request") == 8
        assert value(told, "tollgate_cost_usd_total", price="retail", model="tester-large", mode="payg") == (
            pytest.approx(8 * 1.56)
        )
        whole = {"provider": "TESTER", "stream": "false"}
        assert value(told, "tollgate_call_seconds_count", **whole) == 8
        assert value(told, "tollgate_call_seconds_sum", **whole) == pytest.approx(20)
        assert value(told, "tollgate_call_seconds_bucket", le="2.5", **whole) == 8
        assert value(told, "tollgate_call_seconds_bucket", le="1.0", **whole) == 0
        assert value(told, "tollgate_holds_in_flight") == 1
        assert value(told, "tollgate_platform_keys", provider="TESTER", state="ready") == 2
        assert value(told, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 1
        assert value(told, "tollgate_workers") == 1
        assert value(told, "tollgate_worker_starts_total") == 2


def test_however_many_workers_die_no_more_than_two_files_are_left_of_them(tmp_path: Path):
    directory = tmp_path / "metrics"
    for _ in range(3):
        with workers(directory, 1) as (worker,):
            worker.count(2)
            worker_ended(directory, worker.end())
            worker_ended(directory, worker.process.pid)
    assert {file.name for file in directory.iterdir()} == {"counter_ended.db", "histogram_ended.db"}
    told = read(render_workers(directory))
    assert value(told, "tollgate_calls_total", **CALLS) == 6
    assert value(told, "tollgate_call_seconds_count", provider="TESTER", stream="false") == 6
    assert "tollgate_workers" not in told


def test_the_page_is_whole_while_workers_count_and_the_sums_never_fall(tmp_path: Path):
    directory = tmp_path / "metrics"
    with workers(directory, 2) as running:
        for worker in running:
            worker.tell(5_000)
        seen = []
        for _ in range(50):
            told = read(render_workers(directory)).get("tollgate_calls_total", {})
            seen.append(sum(told.values()))
        for worker in running:
            worker.wait_until_counted()
        assert seen == sorted(seen)
        assert value(read(render_workers(directory)), "tollgate_calls_total", **CALLS) == 10_000


def test_a_file_that_a_worker_has_just_made_is_passed_over(tmp_path: Path):
    (tmp_path / "counter_1.db").touch()
    (tmp_path / "gauge_livesum_1.db").touch()
    assert read(render_workers(tmp_path)) == {}
    worker_ended(tmp_path, 1)
    assert read(render_workers(tmp_path)) == {}
    assert not (tmp_path / "counter_1.db").exists()


# The page.


def tell_everything(metrics: Metrics) -> None:
    """Let each metric have a sample."""
    fallback = replace(EXCHANGE.attempt, is_fallback=True)
    served = replace(EXCHANGE, route=Route((fallback,), "pinned"), first_byte_s=1.5)
    metrics.call_ended(served, CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, error_code="upstream_error"), CATALOG, now_s=2.0)
    metrics.count_disbelieved("TESTER", "prompt_tokens")
    metrics.attempt_failed("TESTER", "upstream_error")
    metrics.set_platform_keys({("TESTER", "ready"): 1, ("TESTER", "resting"): 1})
    metrics.set_circuits_open({("TESTER", "payg", "all"): 0})
    metrics.set_broken_files([Path("workspaces/acme.toml")])


def test_every_metric_is_documented_with_its_type_and_its_labels(metrics: Metrics):
    tell_everything(metrics)
    told = {}
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        told[name] = (family.type, labels)
    rows = re.findall(r"^\| `(tollgate_\w+)` \| (\w+) \| ([^|]*)\| \S", PAGE, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    ours = {name: found for name, found in told.items() if name.startswith("tollgate_")}
    assert documented == ours
    assert {name for name in told.keys() - ours.keys() if f"`{name}`" not in PAGE} == set()


def test_the_alerts_ask_for_metrics_labels_and_codes_that_exist(metrics: Metrics):
    tell_everything(metrics)
    told = read(metrics.render())
    asked = re.findall(r"(tollgate_\w+)(?:\{([^}]*)\})?[\[)]", PAGE.split("## Alerts")[1])
    assert len(asked) > 8
    for name, selector in asked:
        assert name in told
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert all(label in dict(labels) for labels in told[name])
            known = REFUSAL_CODES | UPSTREAM_CODES
            known |= {dict(labels)[label] for labels in told[name]}
            assert set(values.split("|")) <= known

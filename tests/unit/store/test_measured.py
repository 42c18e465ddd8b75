"""``MeasuredStore``: operations are timed and counted; a failing store and its recovery are each logged once."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rig.ledger import locked_by_another
from rig.metrics import EXCHANGE, read, value
from rig.redis_fixtures import StartRedis
from rig.stores import WORKSPACE, StoreLocation, request

from addon.store.measured import MeasuredStore
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import CallNotHeld, HoldRequest, Settlement, Store, StoreUnavailable
from addon.telemetry.metrics import Metrics
from policies.ledger_row import make_interrupted_row, make_ledger_row
from policies.limits import Counter, Limit
from policies.spend import NOT_METERED, Denial, Hold


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()


def hold_request(call_id: str, most_calls: int = 10) -> HoldRequest:
    limit = Limit("request_cap", Counter("key:acme/ci", "2026-01"), most_calls)
    row = make_interrupted_row(replace(EXCHANGE, id=call_id, next_target=EXCHANGE.target, attempts=0))
    return HoldRequest(call_id, EXCHANGE.created_at, "acme", "ci", NOT_METERED, [limit], row)


def settlement(call_id: str) -> Settlement:
    return Settlement(make_ledger_row(replace(EXCHANGE, id=call_id), now_s=2.0), from_wallet=False)


async def test_a_measured_store_answers_as_the_store_and_every_operation_is_timed(
    metrics: Metrics, store: SqliteStore
):
    measured: Store = MeasuredStore(store, metrics)
    began_s = time.perf_counter()
    assert await measured.take_token("acme", 1) == 0
    assert await measured.take_token("acme", 1) > 0
    assert isinstance(await measured.hold(hold_request("call-1")), Hold)
    assert isinstance(await measured.hold(hold_request("call-2")), Hold)
    assert isinstance(await measured.hold(hold_request("call-2")), Hold)
    assert isinstance(await measured.hold(hold_request("call-3", most_calls=1)), Denial)
    assert isinstance(await measured.move_hold(hold_request("call-2")), Hold)
    assert value(read(metrics.render()), "tollgate_holds_in_flight") == 2
    await measured.settle(settlement("call-1"))
    await measured.settle(settlement("call-1"))
    assert value(read(metrics.render()), "tollgate_holds_in_flight") == 1
    await measured.void("call-2")
    samples = read(metrics.render())
    assert value(samples, "tollgate_holds_in_flight") == 0
    counts = {"take": 2, "hold": 4, "move": 1, "settle": 2, "void": 1}
    for operation, count in counts.items():
        assert value(samples, "tollgate_store_seconds_count", operation=operation) == count
        assert value(samples, "tollgate_store_seconds_sum", operation=operation) > 0
    took_s = sum(value(samples, "tollgate_store_seconds_sum", operation=operation) for operation in counts)
    assert took_s < time.perf_counter() - began_s
    assert set(samples["tollgate_store_errors_total"].values()) == {0.0}


async def test_a_failing_store_is_counted_as_an_error_and_its_hold_is_not(
    metrics: Metrics, store: SqliteStore, ledger_path: Path
):
    measured = MeasuredStore(store, metrics)
    await measured.check()
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable):
            await measured.take_token("acme", 1)
        with pytest.raises(StoreUnavailable):
            await measured.hold(hold_request("call-1"))
    samples = read(metrics.render())
    assert value(samples, "tollgate_store_errors_total", operation="take") == 1
    assert value(samples, "tollgate_store_errors_total", operation="hold") == 1
    assert value(samples, "tollgate_store_errors_total", operation="settle") == 0
    assert value(samples, "tollgate_store_seconds_count", operation="take") == 1
    assert value(samples, "tollgate_holds_in_flight") == 0


async def test_gauges_say_that_the_store_is_away_and_how_many_calls_wait_to_be_recorded(
    metrics: Metrics, store: SqliteStore, ledger_path: Path
):
    measured = MeasuredStore(store, metrics)
    await measured.check()
    await measured.hold(hold_request("call-1"))

    def gauges() -> list[float]:
        samples = read(metrics.render())
        return [value(samples, f"tollgate_{name}") for name in ("store_unavailable", "unrecorded_calls")]

    await measured.maintain()
    assert gauges() == [0, 0]
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable):
            await measured.settle(settlement("call-1"))
        with pytest.raises(StoreUnavailable):
            await measured.maintain()
        assert gauges() == [1, 1]
    await measured.maintain()
    assert gauges() == [0, 0]


ONCE = ["store unavailable", "store recovered"]


@contextmanager
def _read_only(store: SqliteStore) -> Iterator[None]:
    store._file.connection.execute("PRAGMA query_only = 1")
    yield
    store._file.connection.execute("PRAGMA query_only = 0")


@contextmanager
def _gone(store: SqliteStore) -> Iterator[None]:
    folder = store._file.path.parent
    folder.rename(folder.with_name("elsewhere"))
    yield
    folder.with_name("elsewhere").rename(folder)


CAUSES: dict[str, Callable[[SqliteStore], AbstractContextManager[Any]]] = {
    "database is locked": lambda store: locked_by_another(store._file.path),
    "readonly": _read_only,
    "no such file or directory": _gone,
}


async def _fail_three_times(store: Store) -> None:
    for number in range(3):
        with pytest.raises(StoreUnavailable):
            await store.hold(request(f"refused-{number}", workspace="w" * 8000))
        with suppress(StoreUnavailable):
            await store.maintain()


def _events(caplog: pytest.LogCaptureFixture) -> list[str]:
    events = [record.__dict__.get("event") for record in caplog.records]
    return [event for event in events if event in ONCE]


@pytest.mark.parametrize("cause", CAUSES)
async def test_every_fault_of_the_file_is_logged_once(
    cause: str, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tollgate.store")
    inner = SqliteStore(ledger_path)
    store = MeasuredStore(inner, Metrics("test"))
    await store.check()
    with CAUSES[cause](inner):
        await _fail_three_times(store)
        assert _events(caplog) == ONCE[:1]
        assert cause in caplog.text
    await store.maintain()
    await store.maintain()
    assert _events(caplog) == ONCE
    assert await store.take_token(WORKSPACE, 10) is not None
    await store.close()


async def test_a_redis_that_is_gone_is_logged_once(
    start_redis: StartRedis, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tollgate.store")
    server = start_redis()
    store = MeasuredStore(StoreLocation(ledger_path, server.url).open(), Metrics("test"))
    await store.check()
    server.stop()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.take_token(WORKSPACE, 10)
    assert _events(caplog) == ONCE[:1]
    server.start()
    await store.maintain()
    assert _events(caplog) == ONCE
    await store.close()


async def test_a_call_that_can_not_be_moved_is_no_fault_of_the_store(
    ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MeasuredStore(SqliteStore(ledger_path), Metrics("test"))
    await store.check()
    with pytest.raises(CallNotHeld):
        await store.move_hold(request("unknown", attempt=2))
    assert _events(caplog) == []
    await store.close()


async def test_what_each_call_asks_the_store_is_asked_without_a_layer(
    metrics: Metrics, store: SqliteStore
) -> None:
    measured = MeasuredStore(store, metrics)
    assert measured.end_probe == store.end_probe
    assert measured.is_circuit_open == store.is_circuit_open

"""Counts of refused calls: each counts once, in one ledger, whatever fails in between."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import locked_by_another, second_connection
from rig.sqlite_stores import open_settle_and_close
from rig.stores import OpenStore, StoreLocation
from rig.written_rows import write_batch

from addon.runtime.clock import SystemClock
from addon.store.money.refusal_counts import (
    BATCH_GROUPS,
    MAX_GROUPS,
    RefusalBatch,
    RefusalCounts,
    RefusalGroup,
)
from addon.store.money.sqlite.engine import KEPT_BATCHES
from addon.store.money.verify.verify import verify
from addon.store.protocol import Store, StoreUnavailable


def counted(location: StoreLocation) -> dict[tuple[str, ...], int]:
    """Return the counts of the ledger, by workspace, key and code."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in location.select("SELECT workspace, key_id, code, count FROM refusals"):
        found[row["workspace"], row["key_id"], row["code"]] += row["count"]
    return dict(found)


# In both stores.


async def test_refusals_of_all_processes_add_up(store: Store, other: Store, location: StoreLocation) -> None:
    for one, times in ((store, 3), (other, 2)):
        for _ in range(times):
            one.count_refusal("acme", "ci", "rate_limit_exceeded")
        one.count_refusal("", "", "invalid_api_key")
        await one.maintain()
    await store.maintain()
    assert counted(location) == {("acme", "ci", "rate_limit_exceeded"): 5, ("", "", "invalid_api_key"): 2}


async def test_refusals_of_one_reason_are_one_row_with_a_count_of_each_api(
    store: Store, location: StoreLocation
) -> None:
    for api, times in (("chat", 2), ("messages", 3), ("responses", 1)):
        for _ in range(times):
            store.count_refusal("acme", "ci", "payment_required", api)
        await store.maintain()
    (row,) = location.select("SELECT count, messages, responses, embeddings FROM refusals")
    assert (row["count"], row["messages"], row["responses"], row["embeddings"]) == (6, 3, 1, 0)


async def test_the_end_of_a_process_writes_what_it_counted_last(
    open_store: OpenStore, location: StoreLocation
) -> None:
    store = await open_store()
    store.count_refusal("acme", "ci", "payment_required")
    await store.close()
    assert counted(location) == {("acme", "ci", "payment_required"): 1}


async def test_a_file_that_can_not_be_written_keeps_them_counted(
    store: Store, location: StoreLocation
) -> None:
    store.count_refusal("acme", "ci", "not_found")
    with location.locked():
        with pytest.raises(StoreUnavailable):
            await store.maintain()
        store.count_refusal("acme", "ci", "not_found")
        assert counted(location) == {}
    await store.maintain()
    assert counted(location) == {("acme", "ci", "not_found"): 2}


async def test_a_cut_off_flush_counts_each_refusal_once(store: Store, location: StoreLocation) -> None:
    for _ in range(20):
        store.count_refusal("acme", "ci", "bad_request")
        upkeep = asyncio.create_task(store.maintain())
        for _ in range(3):
            await asyncio.sleep(0)
        upkeep.cancel()
        await asyncio.wait([upkeep])
    await store.maintain()
    await store.maintain()
    assert counted(location) == {("acme", "ci", "bad_request"): 20}


# In memory.


class SlowClock(SystemClock):
    """A clock that passes the end of an hour between two looks."""

    def __init__(self) -> None:
        moments = [datetime(2026, 1, 31, 12, 59, 59, tzinfo=UTC), datetime(2026, 1, 31, 13, tzinfo=UTC)]
        self.now = iter(moments).__next__  # type: ignore[method-assign]


async def test_an_hour_is_that_of_the_refusal() -> None:
    written: list[RefusalBatch] = []

    async def write(batch: RefusalBatch) -> None:
        written.append(batch)

    counts = RefusalCounts(SlowClock())
    counts.add("acme", "ci", "not_found")
    counts.add("acme", "ci", "not_found")
    await counts.flush(write)
    assert [group.hour for group in written[0].counts] == ["2026-01-31T12", "2026-01-31T13"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["add", "write", "fail after", "fail before"]), max_size=30))
def test_counts_add_up_whatever_fails(steps: list[str]) -> None:
    seen: set[str] = set()
    total, added = Counter[str](), Counter[str]()

    async def play() -> None:
        counts = RefusalCounts()

        def writer(fails: str) -> Any:
            async def write(batch: RefusalBatch) -> None:
                if fails == "fail before":
                    raise StoreUnavailable("gone")
                if batch.id not in seen:
                    seen.add(batch.id)
                    for group, count in batch.counts.items():
                        total[group.code] += count
                if fails == "fail after":
                    raise StoreUnavailable("gone")

            return write

        for number, step in enumerate([*steps, "write"]):
            if step == "add":
                counts.add("acme", "ci", f"code-{number % 3}")
                added[f"code-{number % 3}"] += 1
                continue
            try:
                await counts.flush(writer(step))
            except StoreUnavailable:
                assert step != "write"

    asyncio.run(play())
    assert total == added


async def test_what_waits_is_bounded_and_still_counted() -> None:
    total = Counter[str]()
    sizes = list[int]()

    async def write(batch: RefusalBatch) -> None:
        sizes.append(len(batch.counts))
        for group, count in batch.counts.items():
            total[group.workspace] += count

    counts = RefusalCounts()
    for number in range(MAX_GROUPS + 25):
        counts.add(f"workspace-{number}", "ci", "not_found")
    await counts.flush(write)
    assert sum(sizes) == MAX_GROUPS + 1
    assert max(sizes) == BATCH_GROUPS
    assert sum(total.values()) == MAX_GROUPS + 25
    assert total[""] == 25


# In the file.


def test_the_ids_of_batches_are_bounded(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path)
    with second_connection(ledger_path) as ledger:
        group = RefusalGroup("2026-01-31T12", "acme", "ci", "not_found")
        for number in range(KEPT_BATCHES + 20):
            write_batch(ledger, RefusalBatch(str(number), {group: 1}))
        write_batch(ledger, RefusalBatch(str(KEPT_BATCHES), {group: 1}))
        assert ledger.execute("SELECT count(*) FROM refusal_batches").fetchone()[0] == KEPT_BATCHES
        assert ledger.execute("SELECT count FROM refusals").fetchone()[0] == KEPT_BATCHES + 20


@pytest.mark.parametrize(
    "damage", ["count = 0", "hour = '2026-01-31'", "workspace = ''", "key_id = ''", "code = ''"]
)
def test_the_verification_finds_refusals_that_can_not_be(ledger_path: Path, damage: str) -> None:
    open_settle_and_close(ledger_path)
    with second_connection(ledger_path) as ledger:
        write_batch(ledger, RefusalBatch("1", {RefusalGroup("2026-01-31T12", "acme", "ci", "not_found"): 1}))
        assert verify(ledger) == []
        ledger.execute("PRAGMA ignore_check_constraints = 1")
        ledger.execute(f"UPDATE refusals SET {damage}")
        ledger.execute("PRAGMA ignore_check_constraints = 0")
        assert verify(ledger) == ["the file is damaged: CHECK constraint failed in refusals"]


async def test_all_that_was_not_written_is_logged_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: RefusalBatch) -> None:
        raise StoreUnavailable("gone")

    counts = RefusalCounts()
    for _ in range(2):
        counts.add("acme", "ci", "not_found")
    with pytest.raises(StoreUnavailable):
        await counts.flush(fail)
    counts.add("acme", "ci", "not_found")
    counts.log_lost("closed")
    assert "3 refused calls are not counted in the ledger: closed" in caplog.text


async def test_a_store_that_closes_on_a_locked_ledger_logs_what_it_lost(
    ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = StoreLocation(ledger_path).open()
    await store.check()
    store.count_refusal("acme", "ci", "not_found")
    with locked_by_another(ledger_path):
        await store.close()
    assert "1 refused calls are not counted in the ledger" in caplog.text


async def test_a_flood_that_goes_on_does_not_keep_a_flush_from_ending() -> None:
    counts, batches = RefusalCounts(), 0

    async def write(_batch: RefusalBatch) -> None:
        nonlocal batches
        batches += 1
        assert batches < 10
        counts.add("acme", f"key-{batches}", "not_found")

    for key in range(BATCH_GROUPS):
        counts.add("acme", f"first-{key}", "not_found")
    await counts.flush(write)
    assert batches == 3

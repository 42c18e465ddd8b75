"""The thread of pages: what it changes in the process ends with its pages."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from rig.bounds import BOUND_S

from addon.console.reader import Reader


async def test_the_switch_interval_is_restored_after_pages_that_overlap_or_fail(tmp_path: Path) -> None:
    usual_s = sys.getswitchinterval()
    readers = [Reader(tmp_path / "none.db"), Reader(tmp_path / "none.db")]
    began, ends = [Event(), Event()], [Event(), Event()]

    def make_page(number: int) -> Callable[[sqlite3.Connection], float]:
        def wait(_: sqlite3.Connection) -> float:
            began[number].set()
            ends[number].wait(BOUND_S)
            if number == 0:
                raise ZeroDivisionError
            return sys.getswitchinterval()

        return wait

    pages = [asyncio.create_task(reader.read(make_page(number))) for number, reader in enumerate(readers)]
    assert await asyncio.to_thread(lambda: all(event.wait(BOUND_S) for event in began))
    assert sys.getswitchinterval() < usual_s
    ends[0].set()
    with pytest.raises(ZeroDivisionError):
        await pages[0]
    ends[1].set()
    assert await pages[1] < usual_s, "the first page restored it while the second one was made"
    for reader in readers:
        reader.close()
    assert sys.getswitchinterval() == pytest.approx(usual_s)


async def test_the_switch_interval_is_restored_when_the_ledger_is_not_readable(tmp_path: Path) -> None:
    usual_s = sys.getswitchinterval()
    reader = Reader(tmp_path)
    with pytest.raises(sqlite3.Error):
        await reader.read(lambda _: None)
    reader.close()
    assert sys.getswitchinterval() == pytest.approx(usual_s)


async def test_a_slow_page_does_not_delay_the_next_one(tmp_path: Path) -> None:
    reader, began, end = Reader(tmp_path / "none.db"), Event(), Event()

    def wait(_: sqlite3.Connection) -> bool:
        began.set()
        return end.wait(BOUND_S)

    slow = asyncio.create_task(reader.read(wait))
    assert await asyncio.to_thread(began.wait, 10)
    assert await reader.read(lambda _: "made") == "made"
    end.set()
    assert await slow
    reader.close()


async def test_work_with_policies_holds_no_view_of_the_ledger(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "none.db")
    assert await reader.read(lambda ledger: ledger.in_transaction)
    assert not await reader.read_with_policies(lambda ledger: ledger.in_transaction)
    reader.close()

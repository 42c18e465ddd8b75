"""Semaphores by key: their bound, the order of their waiters, and cancelled waiters."""

import asyncio

import pytest

from addon.upstream.semaphores import KeyedSemaphores


async def waiting(semaphores: KeyedSemaphores[str], key: str) -> asyncio.Task[None]:
    """Return a task that waits for the semaphore of ``key``."""
    task = asyncio.create_task(semaphores.acquire(key))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_each_key_has_its_own_bound() -> None:
    semaphores = KeyedSemaphores[str](2)
    assert [semaphores.try_acquire("a") for _ in range(3)] == [True, True, False]
    assert semaphores.try_acquire("b")
    assert (semaphores.in_use("a"), semaphores.in_use("b"), semaphores.in_use("c")) == (2, 1, 0)


async def test_waiters_acquire_in_their_order() -> None:
    semaphores = KeyedSemaphores[str](1)
    await semaphores.acquire("a")
    first, second = await waiting(semaphores, "a"), await waiting(semaphores, "a")
    semaphores.release("a")
    # The first waiter has it from this moment: no later caller comes before the waiters.
    assert not semaphores.try_acquire("a")
    await first
    assert not second.done()
    semaphores.release("a")
    await second


async def test_a_cancelled_waiter_leaves_its_place_to_the_next() -> None:
    semaphores = KeyedSemaphores[str](1)
    await semaphores.acquire("a")
    first, second = await waiting(semaphores, "a"), await waiting(semaphores, "a")
    first.cancel()
    semaphores.release("a")
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert semaphores.in_use("a") == 1


async def test_a_waiter_that_is_cancelled_after_its_wake_up_passes_it_on() -> None:
    semaphores = KeyedSemaphores[str](1)
    await semaphores.acquire("a")
    first, second = await waiting(semaphores, "a"), await waiting(semaphores, "a")
    semaphores.release("a")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert semaphores.in_use("a") == 1


async def test_a_key_that_is_not_in_use_is_forgotten() -> None:
    semaphores = KeyedSemaphores[str](1)
    await semaphores.acquire("a")
    cancelled = await waiting(semaphores, "a")
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert len(semaphores) == 1
    semaphores.release("a")
    assert len(semaphores) == 0

"""Answers that are read on although their clients left, for what they cost: their providers bill them anyway.

Each is bounded in time, and whole answers in number; who reads them is told when to stop.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from addon.deadline import Deadline

STREAM_TIMEOUT_S = 5.0
"""A stream whose finish_reason is in has no more than its usage to say."""
STREAM_MAX_BYTES = 1 << 20
WHOLE_TIMEOUT_S = 60.0
MAX_WHOLE_ANSWERS = 64
"""Of one process at once; beyond it the oldest is closed."""


@dataclass(eq=False, slots=True)
class _Reading:
    client: Any
    is_whole: bool
    deadline: Deadline
    ended: asyncio.Event
    told: bool = False


class UnrelayedAnswers:
    """The answers of one process that are read on. ``stop`` tells a client's reader to end, which calls ``end``."""

    def __init__(self, stop: Callable[[Any, Any], None]) -> None:
        self._stop = stop
        self._readings: dict[Hashable, _Reading] = {}
        self._is_closed = False

    def begin(self, reader: Hashable, client: Any, *, whole: bool) -> bool:
        """Let ``reader`` read on until its answer is in, or it is told to stop; return whether it may."""
        if self._is_closed:
            return False
        if whole:
            self._make_room()
        timeout_s = WHOLE_TIMEOUT_S if whole else STREAM_TIMEOUT_S
        deadline = Deadline(timeout_s, lambda: self._tell(reader))
        self._readings[reader] = _Reading(client, whole, deadline, asyncio.Event())
        return True

    def end(self, reader: Hashable) -> None:
        """``reader`` has ended."""
        if reading := self._readings.pop(reader, None):
            reading.deadline.cancel()
            reading.ended.set()

    async def wait_for(self, client: Any) -> None:
        """Wait until nothing is read on of ``client``: its upstream connections are needed so long."""
        while reading := next((one for one in self._readings.values() if one.client is client), None):
            await reading.ended.wait()

    def close(self) -> None:
        """Tell all readers to stop, and let no other begin."""
        self._is_closed = True
        for reader in list(self._readings):
            self._tell(reader)

    def _make_room(self) -> None:
        whole = [one for one, reading in self._readings.items() if reading.is_whole and not reading.told]
        if len(whole) >= MAX_WHOLE_ANSWERS:
            self._tell(whole[0])

    def _tell(self, reader: Hashable) -> None:
        if (reading := self._readings.get(reader)) and not reading.told:
            reading.told = True
            self._stop(reading.client, reader)

"""One direction of a simulated connection: bytes on their way, in order, in pieces, late, stalled, cut or reset."""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from random import Random
from typing import Protocol

from rig.simulation.faults import DirectionFate
from rig.simulation.trace import Trace


class End(Protocol):
    """What a pipe says to the transport at one of its ends."""

    def arrived(self) -> None:
        """Bytes, or their end, can be taken from the inbound pipe."""

    def has_room(self) -> None:
        """The outbound pipe takes more."""

    def was_reset(self, error: OSError) -> None:
        """The connection is no more."""


class Pipe:
    """From ``sender`` to ``receiver``. Both are set when the connection is made."""

    sender: End
    receiver: End
    back: Pipe
    """The other direction."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, fate: DirectionFate, random: Random, trace: Trace
    ) -> None:
        self._loop, self._name, self._fate, self._random, self._trace = loop, name, fate, random, trace
        # What is on its way outlives whoever sent it.
        self._context = contextvars.Context()
        self._on_the_way: deque[bytes | None] = deque()
        self._unread = bytearray()
        self._in_flight_bytes = 0
        self._sent_bytes = 0
        self._last_s = loop.time()
        self.has_ended = False
        """Its end has arrived, behind the bytes that can be taken."""
        self._is_ending = False
        self._is_deaf = False
        self._is_dead = False
        self._wants_room = False

    @property
    def has_unread(self) -> bool:
        """Whether anything that was sent was not taken yet."""
        return bool(self._unread or self._in_flight_bytes)

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Take what there is room for; return how much. ``has_room`` follows where that is not all."""
        room = self._fate.buffer_bytes - self._in_flight_bytes - len(self._unread)
        taken = bytes(data[: max(room, 0)])
        self._wants_room = len(taken) < len(data)
        at = 0
        while at < len(taken):
            piece = taken[at : at + self._random.randint(*self._fate.piece_bytes)]
            at += len(piece)
            self._launch(piece)
        return len(taken)

    def end(self) -> None:
        """Nothing follows."""
        if not self._is_ending:
            self._is_ending = True
            self._arrive_later(None)

    def take(self, max_bytes: int) -> bytes:
        """Return the next bytes that have arrived, none where there are none."""
        data = bytes(self._unread[:max_bytes])
        if data:
            del self._unread[: len(data)]
            self._tell_of_room()
        return data

    def close(self) -> None:
        """The receiver takes no more: whatever comes now is answered by a reset."""
        self._is_deaf = True
        self._unread.clear()

    def reset(self) -> None:
        """Tell the receiver that the connection is no more. What is on the way may be lost, or come first."""
        if self._is_dead:
            return
        self._is_dead = True
        if self._random.getrandbits(1):
            self._on_the_way.clear()
            self._in_flight_bytes = 0
        due_s = self._loop.time() + self._fate.latency_s
        if self._in_flight_bytes:
            due_s = max(due_s, self._last_s)
        self._loop.call_at(due_s + 1e-6, self._break, context=self._context)

    def _launch(self, piece: bytes) -> None:
        fate, before, self._sent_bytes = self._fate, self._sent_bytes, self._sent_bytes + len(piece)
        if self._is_ending or self._is_dead:
            return  # Lost.
        if fate.stall_at is not None and before >= fate.stall_at:
            self._last_s = max(self._last_s, self._loop.time()) + fate.stall_s
            self._trace.add(self._loop.time(), "stall", self._name, fate.stall_s)
            fate.stall_at = None
        if fate.end_at is not None and self._sent_bytes > fate.end_at:
            piece = piece[: max(fate.end_at - before, 0)]
            self._arrive_later(piece)
            self.end()
        elif fate.reset_at is not None and self._sent_bytes > fate.reset_at:
            self.reset()
            self.back.reset()
        else:
            self._arrive_later(piece)

    def _arrive_later(self, piece: bytes | None) -> None:
        latency_s = self._fate.latency_s * (1 + self._random.random() / 10)
        self._last_s = max(self._last_s, self._loop.time() + latency_s)
        self._on_the_way.append(piece)
        self._in_flight_bytes += len(piece or b"")
        # Timers of one time fire in any order, so each lets in whatever is next.
        self._loop.call_at(self._last_s, self._arrive, context=self._context)

    def _arrive(self) -> None:
        if not self._on_the_way:
            return
        piece = self._on_the_way.popleft()
        self._in_flight_bytes -= len(piece or b"")
        self._trace.add(self._loop.time(), "arrives", self._name, piece)
        if self._is_deaf:
            if piece:
                self.back.reset()
        elif piece is None:
            self.has_ended = True
            self.receiver.arrived()
        else:
            self._unread += piece
            self.receiver.arrived()

    def _break(self) -> None:
        self._trace.add(self._loop.time(), "reset", self._name)
        if not self._is_deaf:
            self.receiver.was_reset(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _tell_of_room(self) -> None:
        if self._wants_room:
            self._wants_room = False
            self._loop.call_later(self._fate.latency_s, self.sender.has_room, context=self._context)

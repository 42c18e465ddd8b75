"""One direction of a simulated connection: bytes in transit, in order, in pieces, late, stalled, cut or reset."""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from random import Random
from typing import Protocol

from rig.simulation.faults import DirectionFaults
from rig.simulation.trace import Trace


class End(Protocol):
    """The transport at one end of a pipe."""

    def arrived(self) -> None:
        """Read bytes, or their end, from the inbound pipe."""

    def has_room(self) -> None:
        """Write more to the outbound pipe."""

    def was_reset(self, error: OSError) -> None:
        """Handle the reset of the connection."""


class Pipe:
    """The direction from ``sender`` to ``receiver``. Both are set when the connection is made."""

    sender: End
    receiver: End
    back: Pipe
    """The other direction."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        faults: DirectionFaults,
        random: Random,
        trace: Trace,
    ) -> None:
        self._loop, self._name, self._faults, self._random, self._trace = loop, name, faults, random, trace
        # Bytes in transit arrive even when the sending process is killed.
        self._context = contextvars.Context()
        self._in_transit: deque[bytes | None] = deque()
        self._unread = bytearray()
        self._in_flight_bytes = 0
        self._sent_bytes = 0
        self._last_s = loop.time()
        self.has_ended = False
        """The end has arrived, after the bytes that can be taken."""
        self._is_ending = False
        self._is_receiver_closed = False
        self._is_reset = False
        self._wants_room = False

    @property
    def has_unread(self) -> bool:
        """Whether some of what was sent is not yet taken."""
        return bool(self._unread or self._in_flight_bytes)

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Accept as much as there is room for and return its size. ``has_room`` follows if that is not all."""
        room = self._faults.buffer_bytes - self._in_flight_bytes - len(self._unread)
        accepted = bytes(data[: max(room, 0)])
        self._wants_room = len(accepted) < len(data)
        at = 0
        while at < len(accepted):
            piece = accepted[at : at + self._random.randint(*self._faults.piece_bytes)]
            at += len(piece)
            self._send_piece(piece)
        return len(accepted)

    def end(self) -> None:
        """End the direction, after the bytes in transit."""
        if not self._is_ending:
            self._is_ending = True
            self._arrive_later(None)

    def take(self, max_bytes: int) -> bytes:
        """Return the next bytes that have arrived, or none."""
        data = bytes(self._unread[:max_bytes])
        if data:
            del self._unread[: len(data)]
            self._report_room()
        return data

    def close(self) -> None:
        """Close the receiver's end. Bytes that still arrive cause a reset."""
        self._is_receiver_closed = True
        self._unread.clear()

    def reset(self) -> None:
        """Reset the receiver. Bytes in transit may be lost, or arrive first."""
        if self._is_reset:
            return
        self._is_reset = True
        if self._random.getrandbits(1):
            self._in_transit.clear()
            self._in_flight_bytes = 0
        due_s = self._loop.time() + self._faults.latency_s
        if self._in_flight_bytes:
            due_s = max(due_s, self._last_s)
        self._loop.call_at(due_s + 1e-6, self._deliver_reset, context=self._context)

    def _send_piece(self, piece: bytes) -> None:
        faults, before, self._sent_bytes = self._faults, self._sent_bytes, self._sent_bytes + len(piece)
        if self._is_ending or self._is_reset:
            return  # These bytes are lost.
        if faults.stall_at is not None and before >= faults.stall_at:
            self._last_s = max(self._last_s, self._loop.time()) + faults.stall_s
            self._trace.add(self._loop.time(), "stall", self._name, faults.stall_s)
            faults.stall_at = None
        if faults.end_at is not None and self._sent_bytes > faults.end_at:
            piece = piece[: max(faults.end_at - before, 0)]
            self._arrive_later(piece)
            self.end()
        elif faults.reset_at is not None and self._sent_bytes > faults.reset_at:
            self.reset()
            self.back.reset()
        else:
            self._arrive_later(piece)

    def _arrive_later(self, piece: bytes | None) -> None:
        latency_s = self._faults.latency_s * (1 + self._random.random() / 10)
        self._last_s = max(self._last_s, self._loop.time() + latency_s)
        self._in_transit.append(piece)
        self._in_flight_bytes += len(piece or b"")
        # Timers of the same time fire in any order, so each delivers the next piece.
        self._loop.call_at(self._last_s, self._arrive, context=self._context)

    def _arrive(self) -> None:
        if not self._in_transit:
            return
        piece = self._in_transit.popleft()
        self._in_flight_bytes -= len(piece or b"")
        self._trace.add(self._loop.time(), "arrives", self._name, piece)
        if self._is_receiver_closed:
            if piece:
                self.back.reset()
        elif piece is None:
            self.has_ended = True
            self.receiver.arrived()
        else:
            self._unread += piece
            self.receiver.arrived()

    def _deliver_reset(self) -> None:
        self._trace.add(self._loop.time(), "reset", self._name)
        if not self._is_receiver_closed:
            self.receiver.was_reset(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _report_room(self) -> None:
        if self._wants_room:
            self._wants_room = False
            self._loop.call_later(self._faults.latency_s, self.sender.has_room, context=self._context)

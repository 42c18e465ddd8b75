"""``Stream``: one request of a client and its answer. A call sees nothing else of its client.

HTTP/1.1 and HTTP/2 each have their own kind. A connection calls ``mark_client_gone`` when its client is gone.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from addon.text.http_heads import RequestHead, Response, ResponseHead
from policies.refusal import Refusal


class ClientLeft(Exception):  # noqa: N818  (an event, not a fault)
    """The client closed its connection or its sending half, reset its stream, broke its framing, or was cut off."""


class WhileConnected:
    """The context manager of ``Stream.while_connected``."""

    __slots__ = ("_stream", "_task")

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream
        self._task: asyncio.Task[object] | None = None

    def end(self) -> None:
        """End the block, if one runs: the client is gone."""
        # The current task does not wait, so there is nothing to cancel. ``__exit__`` sees ``is_client_gone``.
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def __enter__(self) -> None:
        if self._stream.is_client_gone:
            raise ClientLeft
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if not self._stream.is_client_gone or task is None:
            return
        if kind is None or (kind is asyncio.CancelledError and task.uncancel() <= 0):
            raise ClientLeft


class Stream(ABC):
    """One request and its answer. Methods that wait raise ``ClientLeft`` when the client leaves.

    ``peer`` is the client's address.
    """

    def __init__(self, head: RequestHead, peer: tuple[str, int]) -> None:
        self.head = head
        self.peer = peer
        self.is_client_gone = False
        self.is_cut_off = False
        """The gateway closed the connection because the client read too slowly."""
        self.is_answered = False
        """The head of the answer was sent."""
        self.is_ended = False
        """The whole answer was sent."""
        self._while_connected: WhileConnected | None = None
        self._interrupted: asyncio.Future[Any] | None = None

    def while_connected(self) -> "WhileConnected":
        """Return a context manager that raises ``ClientLeft`` if the client has left, or leaves within the block.

        What the block awaits is cancelled. A stream has at most one such block at a time.
        """
        if self._while_connected is None:
            self._while_connected = WhileConnected(self)
        return self._while_connected

    def mark_client_gone(self, *, cut_off: bool = False) -> None:
        """End the block of ``while_connected``: the client is gone, or the gateway cut it off."""
        if not self.is_client_gone:
            self.is_client_gone, self.is_cut_off = True, cut_off
            if self._while_connected is not None:
                self._while_connected.end()
            waiter, self._interrupted = self._interrupted, None
            if waiter is not None and not waiter.done():
                waiter.set_exception(ClientLeft())

    def interrupts(self, waiter: asyncio.Future[Any]) -> None:
        """Let ``waiter`` raise ``ClientLeft`` when the client leaves. Raise it if the client has left already.

        A stream interrupts at most one wait at a time.
        """
        if self.is_client_gone:
            waiter.cancel()
            raise ClientLeft
        self._interrupted = waiter

    @abstractmethod
    async def read(self) -> bytes:
        """Return all of the request's body that arrived since the last read, or ``b""`` at its end.

        The connection stops reading while 64 KiB wait here. Raise ``Refusal`` ``bad_request`` when the framing is
        broken. The caller sets the deadline.
        """

    @abstractmethod
    async def wait_for_body(self, bound_s: float) -> None:
        """Wait until more of the request's body arrives or the client leaves, at most ``bound_s`` seconds.

        Return at once where the whole body is there, or the client waits for 100 Continue.
        """

    @abstractmethod
    def refuse_body(self, refusal: Refusal) -> None:
        """Let ``read`` raise ``refusal`` after what has arrived, unless that is the whole body."""

    @property
    @abstractmethod
    def has_whole_body(self) -> bool:
        """Whether all of the request's body has arrived, read or not."""

    @abstractmethod
    async def respond(self, response: Response) -> None:
        """Send a whole answer, head and body in one write. Drop the unread rest of the request, within bounds."""

    @abstractmethod
    def begin(self, head: ResponseHead) -> None:
        """Begin a streamed answer. Its head is sent with its first piece."""

    @abstractmethod
    async def send(self, piece: bytes) -> None:
        """Send a piece of a streamed answer. Wait while the client reads too slowly."""

    @abstractmethod
    def try_send(self, piece: bytes) -> bool:
        """Send a piece of a streamed answer if that needs no wait. Return whether it was sent."""

    @abstractmethod
    async def end(self, last_piece: bytes = b"") -> None:
        """End a streamed answer, with ``last_piece`` in the same write."""

    @property
    @abstractmethod
    def has_backlog(self) -> bool:
        """Whether bytes wait until the client reads earlier ones."""

    @abstractmethod
    def abort(self) -> None:
        """Close an HTTP/1 connection at once, or reset an HTTP/2 stream. For an answer that can't end properly."""

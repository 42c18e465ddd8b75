"""``Stream``: one request of a client and its answer, which is all that a call sees of its client.

HTTP/1.1 and HTTP/2 each have their own kind. A connection calls ``_leave`` when its client is gone.
"""

import asyncio
from abc import ABC, abstractmethod

from addon.text.http_heads import RequestHead, Response, ResponseHead


class ClientLeft(Exception):  # noqa: N818  (an event, not a fault)
    """The client closed its connection or its sending half, reset its stream, broke its framing, or was cut off."""


class Presence:
    """The block of ``Stream.present``."""

    __slots__ = ("_stream", "_task")

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream
        self._task: asyncio.Task[object] | None = None

    def end(self) -> None:
        """The client is gone: end the block, if there is one."""
        # A task that notices by itself is not waiting, and meets ``has_left`` at the end of its block.
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def __enter__(self) -> None:
        if self._stream.has_left:
            raise ClientLeft
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if not self._stream.has_left or task is None:
            return
        if kind is None or (kind is asyncio.CancelledError and task.uncancel() <= 0):
            raise ClientLeft


class Stream(ABC):
    """One request and its answer. Methods that wait raise ``ClientLeft`` where the client leaves meanwhile.

    ``peer`` is the client's address.
    """

    def __init__(self, head: RequestHead, peer: tuple[str, int]) -> None:
        self.head = head
        self.peer = peer
        self.has_left = False
        self.is_cut_off = False
        """The gateway would not wait for it any more."""
        self.is_answered = False
        """The answer's head is on its way."""
        self.is_ended = False
        """The whole answer is on its way."""
        self._presence = Presence(self)

    def present(self) -> "Presence":
        """Return a block that raises ``ClientLeft`` where the client has left already, or leaves within it.

        What the block awaits is cancelled then. One block of one task at a time.
        """
        return self._presence

    def leave(self, *, cut_off: bool = False) -> None:
        """End the block that waits for anything on the client's behalf: it is gone, or cut off by the gateway."""
        if not self.has_left:
            self.has_left, self.is_cut_off = True, cut_off
            self._presence.end()

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next piece of the request's body, all that came since the last one; ``b""`` at its end.

        The client is not read on while 64 KiB wait here. Raises ``Refusal`` ``bad_request`` where its framing is
        broken, ``request_timeout`` never: deadlines are the caller's.
        """

    @property
    @abstractmethod
    def has_whole_body(self) -> bool:
        """Whether all of the request's body has come, read or not."""

    @abstractmethod
    async def respond(self, response: Response) -> None:
        """Send a whole answer, head and body in one write. What is unread of the request is dropped, within bounds."""

    @abstractmethod
    def begin(self, head: ResponseHead) -> None:
        """Begin a streamed answer. Its head leaves with its first piece."""

    @abstractmethod
    async def send(self, piece: bytes) -> None:
        """Send a piece of a streamed answer. Waits while the client takes no more."""

    @abstractmethod
    async def end(self, last_piece: bytes = b"") -> None:
        """End a streamed answer, with ``last_piece`` in the same write."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether bytes for this client wait for it to take earlier ones."""

    @abstractmethod
    def abort(self) -> None:
        """Close an HTTP/1 connection at once, or reset an HTTP/2 stream: the answer can't be ended properly."""

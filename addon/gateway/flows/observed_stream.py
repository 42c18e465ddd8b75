"""A call's stream that also records the request and the answer, unnoticed by the call and its client."""

import asyncio
from collections.abc import Callable
from typing import Any

from addon.gateway.flows.recording import Recording
from addon.text.http_heads import Response, ResponseHead
from addon.wire.stream import Stream, WhileConnected
from policies.refusal import Refusal


class ObservedStream(Stream):
    """A wrapper of ``stream`` that fills ``recording``. It calls ``on_change`` at each step of the call.

    Every attribute is that of the real stream.
    """

    def __init__(self, stream: Stream, recording: Recording, on_change: Callable[[], None]) -> None:
        self._stream = stream
        self._recording = recording
        self._on_change = on_change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def while_connected(self) -> WhileConnected:
        return self._stream.while_connected()

    def interrupts(self, waiter: asyncio.Future[Any]) -> None:
        self._stream.interrupts(waiter)

    def mark_client_gone(self, *, cut_off: bool = False) -> None:
        self._stream.mark_client_gone(cut_off=cut_off)

    @property
    def has_whole_body(self) -> bool:
        return self._stream.has_whole_body

    async def read(self) -> bytes:
        piece = await self._stream.read()
        if piece:
            self._recording.request_body.add(piece)
        # A body that arrived whole is read once.
        if (not piece or self._stream.has_whole_body) and not self._recording.is_request_whole:
            self._recording.is_request_whole = True
            self._on_change()
        return piece

    async def wait_for_body(self, bound_s: float) -> None:
        await self._stream.wait_for_body(bound_s)

    def refuse_body(self, refusal: Refusal) -> None:
        self._stream.refuse_body(refusal)

    async def respond(self, response: Response) -> None:
        await self._stream.respond(response)
        self._recording.answer = ResponseHead(response.status, response.headers)
        self._end(response.body)

    def begin(self, head: ResponseHead) -> None:
        self._stream.begin(head)
        self._recording.answer = head
        self._on_change()

    async def send(self, piece: bytes) -> None:
        await self._stream.send(piece)
        self._recording.answer_body.add(piece)

    def try_send(self, piece: bytes) -> bool:
        is_sent = self._stream.try_send(piece)
        if is_sent:
            self._recording.answer_body.add(piece)
        return is_sent

    async def end(self, last_piece: bytes = b"") -> None:
        await self._stream.end(last_piece)
        self._end(last_piece)

    @property
    def has_backlog(self) -> bool:
        return self._stream.has_backlog

    def abort(self) -> None:
        self._stream.abort()

    def _end(self, last_piece: bytes) -> None:
        self._recording.answer_body.add(last_piece)
        self._recording.is_answer_whole = True
        self._on_change()

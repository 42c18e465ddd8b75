"""A simulated client of HTTP/2: many calls at once on one connection. It resets some, and reads at its own speed."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError, StreamClosedError

from rig.simulation.clients import CALL_TIMEOUT_S, Answer, ClientBehaviour


@dataclass
class _Call:
    name: str
    behaviour: ClientBehaviour
    ended: asyncio.Future[str]
    fields: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Http2Client(asyncio.Protocol):
    """One connection, by prior knowledge. It opens the window of a slow call late."""

    def __init__(self) -> None:
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._calls: dict[int, _Call] = {}
        self._lost = asyncio.get_running_loop().create_future()
        self._is_over = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            self._end_all(type(error).__name__)
            self._transport.abort()
            return
        for event in events:
            self._take(event)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._end_all(type(exc).__name__ if exc else "BrokenMessage")
        self._lost.set_result(None)

    async def call(self, name: str, behaviour: ClientBehaviour, path: str = "/v1/chat/completions") -> Answer:
        """Make one call. Others may run at the same time."""
        if self._is_over:
            return Answer(name, "ConnectionClosed")
        number, loop = self._h2.get_next_available_stream_id(), asyncio.get_running_loop()
        call = self._calls[number] = _Call(name, behaviour, loop.create_future())
        try:
            self._ask(number, call, path)
            async with asyncio.timeout(
                CALL_TIMEOUT_S if behaviour.leaves_after_s is None else behaviour.leaves_after_s
            ):
                ending = await asyncio.shield(call.ended)
        except ProtocolError as error:
            ending = type(error).__name__
        except TimeoutError:
            ending = "left"
            with suppress(ProtocolError, StreamClosedError):
                self._h2.reset_stream(number, error_code=8)
                self._flush()
        self._calls.pop(number, None)
        status = call.fields.get(":status")
        return Answer(name, ending, status and int(status), call.fields.get("x-request-id"), bytes(call.body))

    async def close(self) -> None:
        """End the connection."""
        self._transport.close()
        await self._lost

    def _ask(self, number: int, call: _Call, path: str) -> None:
        fields = {"user": call.name, "stream": call.behaviour.stream, "messages": [{"content": call.name}]}
        head = {":method": "POST", ":scheme": "http", ":authority": "gateway.example", ":path": path}
        self._h2.send_headers(number, [*head.items(), ("content-type", "application/json")])
        self._h2.send_data(number, json.dumps(fields).encode(), end_stream=True)
        self._flush()

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self._is_over = True
        call = self._calls.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, DataReceived):
            self._give_back(event, call)
        if call is None:
            return
        if isinstance(event, ResponseReceived):
            call.fields.update(event.headers)
        elif isinstance(event, DataReceived):
            call.body += event.data
        elif isinstance(event, StreamEnded | StreamReset) and not call.ended.done():
            call.ended.set_result("whole" if isinstance(event, StreamEnded) else "StreamReset")

    def _give_back(self, event: DataReceived, call: _Call | None) -> None:
        """Open the windows again, at the call's speed."""
        size, number = event.flow_controlled_length, event.stream_id
        pause_s = call.behaviour.read_pause_s * size / call.behaviour.read_bytes if call else 0.0
        asyncio.get_running_loop().call_later(pause_s, self._acknowledge, size, number)

    def _acknowledge(self, size: int, number: int) -> None:
        if size and not self._is_over:
            with suppress(ProtocolError):
                self._h2.acknowledge_received_data(size, number)
            self._flush()

    def _end_all(self, ending: str) -> None:
        for call in self._calls.values():
            if not call.ended.done():
                call.ended.set_result(ending)

    def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self._transport.write(data)

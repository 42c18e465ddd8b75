"""The HTTP layer of one client connection: its streams, their deadlines, and the upstream connections kept for it.

mitmproxy opens an upstream connection for any flow that no addon answered, can't send one request to a second
upstream, and answers a failed connect with an HTML page. This layer and ``hop_stream.HopStream`` cure all three.
"""

import itertools
import time
from copy import copy

from mitmproxy.connection import Connection, Server
from mitmproxy.proxy import commands, events, layer, tunnel
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import tls
from mitmproxy.proxy.layers.http import (
    GetHttpConnection,
    GetHttpConnectionCompleted,
    HttpLayer,
    HTTPMode,
    RegisterHttpConnection,
)

from addon.deadline import is_late
from addon.hop_attempt import GetUpstream, SentAttempt
from addon.hop_stream import HopStream
from addon.hop_wire import (
    IDLE_CONNECTION_TIMEOUT_S,
    ClientSide,
    Commands,
    Http2ClientSide,
    Overdue,
    StopReading,
    UpstreamSide,
)
from addon.unrelayed import UnrelayedAnswers

SECOND_LOOK_S = 0.5
"""How long a deadline is put off, once, whose alarm came late."""


class HopLayer(HttpLayer):
    """One client connection: its streams, their attempts, and the upstream connections kept for it."""

    def __init__(self, context: Context, unrelayed: UnrelayedAnswers) -> None:
        super().__init__(context, HTTPMode.transparent)
        self.unrelayed = unrelayed
        self.idle: set[Connection] = set()
        self.deadlines: dict[layer.Layer, float] = {}
        self.put_off: set[layer.Layer] = set()
        self.alarms: dict[commands.Command, float] = {}
        self.attempt_ids = itertools.count(-1, -1)

    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, events.Start):
            client_side = (
                Http2ClientSide(self.context.fork())
                if self.is_http2
                else ClientSide(self.context.fork(), self)
            )
            self.connections[self.context.client] = client_side
        if isinstance(event, events.Wakeup) and event.command in self.alarms:
            yield from self.ring(event.command)
        elif isinstance(event, StopReading):
            yield from self.event_to_child(event.stream, event)
        elif isinstance(event, events.ConnectionEvent) and event.connection not in self.connections:
            pass  # An upstream connection that was given up says goodbye.
        else:
            yield from super()._handle_event(event)
        if isinstance(event, events.ConnectionClosed) and event.connection is not self.context.client:
            self.forget(event.connection)
        if self.is_http2:
            self.watch_http2()
        yield from self.set_alarm()

    def make_stream(self, stream_id: int) -> Commands:
        stream = self.streams[stream_id] = HopStream(self._context_of_a_stream(), stream_id, self)
        yield from self.event_to_child(stream, events.Start())

    def _context_of_a_stream(self) -> Context:
        """As ``Context.fork``, without a new server connection: a stream takes one of its layer's."""
        context = copy(self.context)
        context.layers = self.context.layers.copy()
        return context

    # HTTP/2, whose end toward the client is mitmproxy's own. ``wire.ClientSide`` does this for HTTP/1.

    @property
    def is_http2(self) -> bool:
        return self.context.client.alpn == b"h2"

    def watch_http2(self) -> None:
        """Begin to count when no stream is open; a head that comes in drips does not start anew."""
        client = self.connections[self.context.client]
        if self.streams:
            self.set_deadline(client, None)
        elif client not in self.deadlines:
            self.set_deadline(client, IDLE_CONNECTION_TIMEOUT_S)

    def unread_bytes(self, stream_id: int) -> int:
        """How much of an answer waits here for its client to give the stream window."""
        if not self.is_http2:
            return 0
        client = self.connections[self.context.client]
        assert isinstance(client, Http2ClientSide)  # noqa: S101  (that is what mitmproxy makes)
        return sum(len(waiting.data) for waiting in client.h2_conn.stream_buffers.get(stream_id, ()))

    # Deadlines: one alarm of mitmproxy's serves all, because it can't be taken back once it is set.

    def set_deadline(self, owner: layer.Layer, delay_s: float | None) -> None:
        """See ``wire.Deadlines``."""
        self.put_off.discard(owner)
        if delay_s is None:
            self.deadlines.pop(owner, None)
        else:
            self.deadlines[owner] = time.monotonic() + delay_s

    def set_alarm(self) -> Commands:
        if not self.deadlines:
            return
        due_s = min(self.deadlines.values())
        if not self.alarms or due_s < min(self.alarms.values()):
            alarm = commands.RequestWakeup(max(0.0, due_s - time.monotonic()))
            self.alarms[alarm] = due_s
            yield alarm

    def ring(self, alarm: commands.Command) -> Commands:
        now_s = time.monotonic()
        late = is_late(self.alarms.pop(alarm), now_s)
        for owner in [owner for owner, due_s in self.deadlines.items() if due_s <= now_s]:
            if late and owner not in self.put_off:
                # The loop was blocked: what ``owner`` waits for may lie in the socket, and is read first.
                self.put_off.add(owner)
                self.deadlines[owner] = now_s + SECOND_LOOK_S
                continue
            self.put_off.discard(owner)
            del self.deadlines[owner]
            if isinstance(owner, Http2ClientSide):
                yield commands.CloseConnection(self.context.client)
            else:
                yield from self.event_to_child(owner, Overdue(0, late))

    # Upstream connections: one call at a time on each, kept for the next call of this client.

    def new_attempt(self, stream: HopStream) -> SentAttempt:
        """Register an attempt of ``stream`` under a stream id of its own."""
        attempt = SentAttempt(next(self.attempt_ids))
        self.streams[attempt.id] = stream
        return attempt

    def get_connection(self, event: GetHttpConnection, *, reuse: bool = True) -> Commands:  # noqa: ARG002
        assert isinstance(event, GetUpstream)  # noqa: S101  (nobody else asks)
        kept = next((c for c in self.idle if c.connected and event.connection_spec_matches(c)), None)
        if event.fresh or kept is None:
            yield from self.open_upstream(event)
            return
        self.idle.discard(kept)
        event.reused = True
        stream = self.command_sources.pop(event)
        yield from self.event_to_child(stream, GetHttpConnectionCompleted(event, (kept, None)))

    def open_upstream(self, event: GetUpstream) -> Commands:
        context = self.context.fork()
        context.server = event.opened = Server(address=event.address)
        stack = tunnel.LayerStack()
        if event.tls:
            context.server.sni = event.address[0]
            stack /= tls.ServerTLSLayer(context)
        stack /= UpstreamConnection(context)
        self.connections[context.server] = stack[0]
        self.waiting_for_establishment[context.server].append(event)
        yield from self.event_to_child(stack[0], events.Start())

    def register_connection(self, command: RegisterHttpConnection) -> Commands:
        yield from super().register_connection(command)
        if command.err:
            self.forget(command.connection)

    def forget(self, connection: Connection) -> None:
        """Drop a dead connection, or each one would stay in memory as long as the client does."""
        self.connections.pop(connection, None)
        self.idle.discard(connection)


class UpstreamConnection(layer.Layer):
    """Opens the connection, reports it, and becomes its HTTP/1 end."""

    def _handle_event(self, event: events.Event) -> Commands:
        error = yield commands.OpenConnection(self.context.server)
        if not error:
            child = UpstreamSide(self.context)
            self._handle_event = child.handle_event  # type: ignore[method-assign]
            yield from child.handle_event(event)
        yield RegisterHttpConnection(self.context.server, error)

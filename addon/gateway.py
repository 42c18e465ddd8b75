"""The only hook class: one method a mitmproxy event, each a few lines, in the order in which a call meets them.

Hooks fail open in mitmproxy: an exception in one is logged and the flow goes on. Here every flow hook runs inside
``_guard``, the one place that catches everything, and ``hop.HopStream`` sends nothing upstream for a call that is not
``DISPATCHED``.
"""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader
from mitmproxy.connection import Client
from mitmproxy.exceptions import OptionsError
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.layers import ClientTLSLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from addon import tls
from addon.auth import identify, parse_bearer
from addon.call import Call, call_of
from addon.catalog import catalog_json, etag
from addon.clients import Clients, max_clients
from addon.connecting import ConnectTimers
from addon.endpoints import Endpoint, allowed_methods, bearer_header, check_size, find_endpoint
from addon.errors import INTERNAL, ErrorAnswer, from_refusal
from addon.exchange import MOVES, Exchange, Stage
from addon.hop import HopLayer
from addon.lifecycle import Lifecycle
from addon.log import log_call, log_refusal
from addon.options import mitmproxy_options
from addon.prepare import client_head, prepare_attempt, reader_of, route_call
from addon.settings import Settings, load_settings
from addon.settings_io import SettingsError
from addon.settlement import outcome
from addon.store import IllegalRowError, StoreUnavailable
from addon.wire import json_response
from policies.refusal import Refusal

log = logging.getLogger("tollgate.gateway")

_PROCESS = secrets.token_hex(8)
_NUMBERS = itertools.count(1)

CLIENT_CLOSED_REQUEST = 499
"""The status of a call whose client left before its answer was whole, as nginx has it."""

CLOSING_STATUSES = frozenset({408, 413})
"""Refusals after which the rest of the body is not worth waiting for."""


class Gateway:
    """mitmproxy's addon. ``settings`` are the latest good ones; each call keeps those it began with."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.catalog: tuple[bytes, str] = (b"[]", "")
        self.lifecycle: Lifecycle | None = None
        self.clients = Clients(max_clients())
        self.connecting = ConnectTimers()
        self.in_flight: set[str] = set()
        self.bookings: set[asyncio.Task[None]] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    # The process.

    def load(self, loader: Loader) -> None:
        loader.add_option("tollgate_conf", str, "proxy.conf", "Tollgate: the gateway's configuration file.")

    def configure(self, updated: set[str]) -> None:
        if "tollgate_conf" not in updated:
            return
        try:
            settings = load_settings(conf_file := Path(ctx.options.tollgate_conf).absolute())
            self.adopt(settings)
            self.lifecycle = Lifecycle(conf_file, settings, self.adopt)
        except (SettingsError, StoreUnavailable) as error:
            raise OptionsError(str(error)) from error
        ctx.options.update(**mitmproxy_options(settings, ctx.options))

    async def running(self) -> None:
        """Start under a mitmproxy of somebody else's, which has bound its default port before it read our options."""
        try:
            await self.start()
            if not await ctx.master.addons.get("proxyserver").setup_servers():
                ctx.master.shutdown()
        except (OSError, StoreUnavailable) as error:
            log.critical("the gateway can't start: %s", error)
            ctx.master.shutdown()

    async def start(self) -> None:
        """Start what runs beside the proxy. Raises OSError or StoreUnavailable."""
        if self.lifecycle and self.settings:
            await self.lifecycle.start(self.settings)

    async def done(self) -> None:
        if self.lifecycle:
            await self.lifecycle.stop()

    def adopt(self, settings: Settings) -> None:
        """Use ``settings`` for every call that begins from now on."""
        body = catalog_json(settings.models.values())
        self.settings, self.catalog = settings, (body, etag(body))

    async def drain(self, timeout_s: float) -> None:
        """Let the calls in flight end, then close every client. ``/readyz`` says no, and answers close connections."""
        if self.lifecycle:
            self.lifecycle.draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self.idle.wait()
        except TimeoutError:
            log.warning("cut off %d calls that did not end within %g s", len(self.in_flight), timeout_s)
        await self.clients.close_all()

    # Connections.

    def client_connected(self, client: Client) -> None:
        self.clients.connected(client)
        if self.settings and not self.settings.conf.listen.tls_certificate:
            self.clients.spoke(client)

    def client_disconnected(self, client: Client) -> None:
        self.clients.disconnected(client)

    def next_layer(self, data: NextLayer) -> None:
        if self.settings and self.settings.conf.listen.tls_certificate and not data.context.client.tls:
            data.layer = ClientTLSLayer(data.context)
        else:
            data.layer = HopLayer(data.context)

    def tls_start_client(self, data: TlsData) -> None:
        if self.settings and self.settings.conf.listen.tls_certificate:
            tls.start_client(data, self.settings.conf.listen.tls_certificate)

    def tls_start_server(self, data: TlsData) -> None:
        data.conn.alpn_offers = tls.UPSTREAM_PROTOCOLS

    def tls_established_client(self, data: TlsData) -> None:
        self.clients.spoke(data.context.client)

    def tls_established_server(self, data: TlsData) -> None:
        self.connecting.end(data.conn)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        if self.settings:
            self.connecting.begin(data.server, self.settings.conf.upstream.connect_timeout_s)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        if not data.server.tls:
            self.connecting.end(data.server)

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        self.connecting.end(data.server)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        self.connecting.end(data.server)

    # Calls.

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = self._begin(flow)
            endpoint = find_endpoint(flow.request)
            if endpoint is Endpoint.MODELS:
                self._answer_catalog(flow, call)
                return
            check_size(flow.request, call.settings.conf.limits.max_request_bytes)
            self._identify(flow, call)

    def request(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            if call.refusal:
                raise call.refusal
            if flow.response is None and call.exchange.stage is Stage.ADMITTED:
                route_call(call, flow.request)
                flow.request = prepare_attempt(call)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            if flow.response is not None and call.exchange.stage is Stage.DISPATCHED:
                call.relay = reader_of(call, flow.response)
                flow.response = self._respond(call, client_head(stream=call.exchange.stream))

    def response(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            self._settle(_expect(flow), 200)

    def attempt_failed(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            failure = call.failure or INTERNAL
            flow.response = self._respond(call, json_response(failure))
            self._settle(call, failure.status, failure.code)

    def error(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            if call.exchange.stage is Stage.DISPATCHED:
                self._settle(call, CLIENT_CLOSED_REQUEST, "client_disconnected")
            elif flow.response is None and Stage.ABANDONED in MOVES[call.exchange.stage]:
                self._abandon(call)

    # The steps.

    def _begin(self, flow: http.HTTPFlow) -> Call:
        if self.settings is None:
            raise RuntimeError("a call came before any settings were loaded")
        exchange = Exchange(_new_id(), datetime.now(UTC), time.monotonic())
        call = Call(exchange, self.settings)
        call.attach(flow)
        return call

    def _answer_catalog(self, flow: http.HTTPFlow, call: Call) -> None:
        body, tag = self.catalog
        headers = {"content-type": "application/json", "etag": tag, "cache-control": "no-cache"}
        if tag in flow.request.headers.get("if-none-match", ""):
            flow.response = self._respond(call, http.Response.make(304, b"", headers))
            del flow.response.headers["content-length"]
        else:
            flow.response = self._respond(call, http.Response.make(200, body, headers))

    def _identify(self, flow: http.HTTPFlow, call: Call) -> None:
        workspace, key = identify(call.settings.keys, parse_bearer(bearer_header(flow.request)))
        call.exchange = call.exchange.advance(Stage.IDENTIFIED, workspace=workspace, key=key)
        call.exchange = call.exchange.advance(Stage.ADMITTED)
        self.in_flight.add(call.exchange.id)
        self.idle.clear()

    def _settle(self, call: Call, status: int, error_code: str | None = None) -> None:
        """End a call that was dispatched, once: ``response``, ``attempt_failed`` and ``error`` may all ask for it.

        Its row and its log line are made when its last bytes are on their way: the client need not wait for them.
        """
        if call.exchange.stage is Stage.DISPATCHED:
            call.exchange = call.exchange.advance(Stage.ANSWERED, status=status, error_code=error_code)
            asyncio.get_running_loop().call_soon(self._close_books, call)

    def _close_books(self, call: Call) -> None:
        now_s = time.monotonic()
        try:
            call.exchange = call.exchange.advance(Stage.SETTLED, **outcome(call))
            log_call(call.exchange, now_s)
            booking = asyncio.get_running_loop().create_task(self._book(call.exchange.ledger_row(now_s)))
        finally:
            self._leave(call)
        if not booking.done():
            self.bookings.add(booking)
            booking.add_done_callback(self.bookings.discard)

    async def _book(self, row: dict[str, Any]) -> None:
        """Write a row. The answer is the client's whether that can be done now or not."""
        assert self.lifecycle is not None  # noqa: S101  (no call comes before it)
        try:
            await self.lifecycle.store.settle(row)
        except StoreUnavailable as error:
            log.error("the ledger can't be written, the row waits: %s", error)
        except IllegalRowError:
            log.exception("a row that the ledger can't hold")

    def _refuse(self, flow: http.HTTPFlow, answer: ErrorAnswer) -> None:
        call = call_of(flow)
        close = answer.status in CLOSING_STATUSES or flow.request.method == "CONNECT"
        flow.response = self._respond(call, json_response(answer, close=close))
        if answer.code == "method_not_allowed":
            flow.response.headers["allow"] = allowed_methods(flow.request)
        if call and Stage.REFUSED in MOVES[call.exchange.stage]:
            call.exchange = call.exchange.advance(Stage.REFUSED, status=answer.status, error_code=answer.code)
            self._leave(call)
            log_refusal(call.exchange, time.monotonic())

    def _abandon(self, call: Call) -> None:
        call.exchange = call.exchange.advance(
            Stage.ABANDONED, status=CLIENT_CLOSED_REQUEST, error_code="client_disconnected"
        )
        self._leave(call)
        log_refusal(call.exchange, time.monotonic())

    def _leave(self, call: Call) -> None:
        self.in_flight.discard(call.exchange.id)
        if not self.in_flight:
            self.idle.set()

    def _respond(self, call: Call | None, response: http.Response) -> http.Response:
        """Add what every answer bears."""
        response.headers["x-request-id"] = call.exchange.id if call else _new_id()
        if self.lifecycle and self.lifecycle.draining:
            response.headers["connection"] = "close"
        return response

    @contextmanager
    def _guard(self, flow: http.HTTPFlow) -> Iterator[None]:
        """A refusal becomes its answer, and anything else ``internal_error``: nothing falls through to an upstream."""
        try:
            yield
        except Refusal as refusal:
            self._refuse(flow, from_refusal(refusal))
        except Exception:
            log.exception("a call failed inside the gateway")
            self._refuse(flow, INTERNAL)


def _expect(flow: http.HTTPFlow) -> Call:
    call = call_of(flow)
    if call is None:
        raise RuntimeError("a flow without a call")
    return call


def _new_id() -> str:
    """Ids are unique, and in the order of the calls of one process: the ledger's index grows at its end."""
    return f"req_{_PROCESS}{next(_NUMBERS):08x}"

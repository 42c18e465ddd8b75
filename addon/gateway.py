"""The only hook class: one method a mitmproxy event, each a few lines, in the order in which a call meets them.

Those of connections, which no call is part of, it has from ``connections.Connections``.

Hooks fail open in mitmproxy: an exception in one is logged and the flow goes on. Here every flow hook runs inside
``_guard``, the one place that catches everything, and ``hop.HopStream`` sends nothing upstream for a call that is not
``DISPATCHED``.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader
from mitmproxy.exceptions import OptionsError

from addon.access_tokens import AccessTokenUnavailable
from addon.attempts import Attempts
from addon.auth import identify, parse_bearer
from addon.books import Books
from addon.call import Call, call_of
from addon.catalog import PublicCatalog
from addon.chat import check_content_type, parse_chat_request
from addon.clients import is_behind
from addon.connections import Connections
from addon.dropped import HEADER as DROPPED_HEADER
from addon.endpoints import Endpoint, allowed_methods, bearer_header, check_size, endpoint_of, slug_in_path
from addon.errors import INTERNAL, LIMITS_UNAVAILABLE, ErrorAnswer, from_refusal, no_access_token
from addon.exchange import Exchange, Stage
from addon.heavy_work import work_off
from addon.hop_wire import catalog_response, json_response
from addon.lifecycle import Lifecycle
from addon.options import mitmproxy_options
from addon.prepare import accept_request, accept_route, client_head, find_route, reader_of
from addon.request_id import new_request_id
from addon.retry_after import with_advice
from addon.settings import Settings, SettingsFiles
from addon.settings_io import SettingsError
from addon.store import StoreUnavailable
from policies.limits import rpm_of
from policies.refusal import Refusal

log = logging.getLogger("tollgate.gateway")

CLOSING_STATUSES = frozenset({408, 413})
"""Refusals after which the rest of the body is not worth waiting for."""


class Gateway(Connections):
    """mitmproxy's addon. ``settings`` are the latest good ones; each call keeps those it began with."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = PublicCatalog({})
        self.lifecycle: Lifecycle | None = None
        self.books: Books | None = None
        self.attempts: Attempts | None = None

    # The process.

    def load(self, loader: Loader) -> None:
        loader.add_option("tollgate_conf", str, "proxy.conf", "Tollgate: the gateway's configuration file.")

    def configure(self, updated: set[str]) -> None:
        if "tollgate_conf" not in updated:
            return
        files = SettingsFiles(Path(ctx.options.tollgate_conf).absolute())
        try:
            settings = files.load()
            self.use(settings, files)
        except (SettingsError, StoreUnavailable) as error:
            raise OptionsError(str(error)) from error
        ctx.options.update(**mitmproxy_options(settings, ctx.options))

    def use(self, settings: Settings, files: SettingsFiles | None) -> None:
        """Begin with ``settings``; ``files`` as for ``Lifecycle``. Raises StoreUnavailable."""
        self.adopt(settings)
        self.lifecycle = Lifecycle(files, settings, self.adopt)
        store, platform_keys = self.lifecycle.store, self.lifecycle.platform_keys
        self.books = Books(store, platform_keys, self.lifecycle.metrics)
        self.attempts = Attempts(store, platform_keys, self.lifecycle.access_tokens)

    async def running(self) -> None:
        """Start under a mitmproxy of somebody else's, which has bound its default port before it read our options."""
        if self.settings and self.settings.conf.listen.workers > 1:
            log.warning("[listen] workers does not apply here: mitmproxy is one process")
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
        if self.books:
            await self.books.close()
        if self.lifecycle:
            await self.lifecycle.stop()

    def adopt(self, settings: Settings) -> None:
        """Use ``settings`` for every call that begins from now on."""
        self.settings, self.catalog = settings, PublicCatalog(settings.models)

    async def drain(self, timeout_s: float) -> None:
        """Let the calls in flight end, then close every client. ``/readyz`` says no, and answers close connections."""
        if self.lifecycle:
            self.lifecycle.draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._books().idle.wait()
                await self.clients.delivered()
        except TimeoutError:
            in_flight = len(self._books().in_flight)
            self._books().cutting_off = True
            self.unrelayed.close()
            log.warning("cut off %d calls that did not end within %g s", in_flight, timeout_s)
        await self.clients.close_all()

    # Calls.

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = self._begin(flow)
            if endpoint_of(flow.request) is not Endpoint.CHAT:
                page, known = self.catalog.page(slug_in_path(flow.request)), flow.request.headers
                answer = catalog_response(*page, known.get("if-none-match", ""))
                flow.response = self._respond(call, answer)
                return
            check_size(flow.request, call.settings.conf.limits.max_request_bytes)
            self._identify(flow, call)
            await self._admit(call)

    async def request(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            if call.refusal:
                raise call.refusal
            if flow.response is None and call.exchange.stage is Stage.ADMITTED:
                headers = flow.request.headers
                check_content_type(headers.get("content-type"), headers.get("content-encoding"))
                content = flow.request.raw_content or b""
                accept_request(call, await work_off(len(content), parse_chat_request, content))
                accept_route(call, await work_off(len(content), find_route, call))
                flow.request = await self._attempts().first(call)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            if flow.response is not None and call.exchange.stage is Stage.DISPATCHED:
                call.relay = reader_of(call, flow.response)
                is_fallback = call.exchange.attempt.is_fallback
                head = client_head(stream=call.exchange.stream, is_fallback=is_fallback)
                flow.response = self._respond(call, head)

    async def read_answer(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            relay = _loaded(call.relay)
            call.last_bytes = await work_off(relay.kept_bytes, relay.finish)

    async def response(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            self._books().attempt_ended(call)
            await self._books().settle(call, 200)

    async def attempt_failed(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            failure = with_advice(call.failure or INTERNAL, call.advice)
            call.lagged = call.lagged or flow.server_conn in self.connecting.lagged
            self._books().attempt_ended(call, failure)
            if call.may_go_on(failure) and (request := await self._attempts().follow(call, failure)):
                flow.request = request
                return
            told = call.answer_with(failure)
            flow.response = self._respond(call, json_response(told))
            await self._books().settle(call, told.status, told.code)

    async def error(self, flow: http.HTTPFlow) -> None:
        with self._guard(flow):
            call = _expect(flow)
            # A flow that was answered without being sent has ended, and its client may go.
            if flow.response is None or call.exchange.was_sent_upstream:
                await self._books().abandon(call)

    # The steps.

    def _books(self) -> Books:
        return _loaded(self.books)

    def _attempts(self) -> Attempts:
        return _loaded(self.attempts)

    def _begin(self, flow: http.HTTPFlow) -> Call:
        exchange = Exchange(new_request_id(), datetime.now(UTC), time.monotonic())
        call = Call(exchange, _loaded(self.settings), client_is_behind=partial(is_behind, flow.client_conn))
        call.attach(flow)
        return call

    def _identify(self, flow: http.HTTPFlow, call: Call) -> None:
        workspace, key = identify(call.settings.keys, parse_bearer(bearer_header(flow.request)))
        call.exchange = call.exchange.advance(Stage.IDENTIFIED, workspace=workspace, key=key)
        self._books().open(call)

    async def _admit(self, call: Call) -> None:
        workspace, _ = call.exchange.caller
        limit_rpm = rpm_of(
            workspace, call.settings.conf.limits.standard_rpm, call.settings.conf.limits.pro_rpm
        )
        if wait_us := await self._books().store.take(workspace.id, limit_rpm):
            message = f"The workspace's limit of {limit_rpm} requests a minute is reached."
            raise Refusal("rate_limit_exceeded", message, retry_after_s=math.ceil(wait_us / 1_000_000))
        call.exchange = call.exchange.advance(Stage.ADMITTED)

    def _refuse(self, flow: http.HTTPFlow, answer: ErrorAnswer) -> None:
        call = call_of(flow)
        close = answer.status in CLOSING_STATUSES or flow.request.method == "CONNECT"
        flow.response = self._respond(call, json_response(answer, close=close))
        if answer.code == "method_not_allowed":
            flow.response.headers["allow"] = allowed_methods(flow.request)
        if call and self.books:
            self.books.settle_beside(call, answer.status, answer.code)
            self.books.refuse(call, answer.status, answer.code)
        elif self.lifecycle:
            self.lifecycle.metrics.call_refused(answer.code)

    def _respond(self, call: Call | None, response: http.Response) -> http.Response:
        """Add what every answer bears."""
        if call:  # An answer without one bears an id already: ``wire.json_response``.
            response.headers["x-request-id"] = call.exchange.id
            if call.dropped:
                response.headers[DROPPED_HEADER] = call.dropped
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
        except AccessTokenUnavailable:
            self._refuse(flow, no_access_token())
        except StoreUnavailable:
            # Logged once by ``MeasuredStore``, not by each call.
            self._refuse(flow, LIMITS_UNAVAILABLE)
        except Exception:
            call = call_of(flow)
            log.exception(
                "a call failed inside the gateway", extra={"id": call.exchange.id} if call else None
            )
            self._refuse(flow, INTERNAL)


def _loaded[Part](part: Part | None) -> Part:
    if part is None:
        raise RuntimeError("a call came before any settings were loaded")
    return part


def _expect(flow: http.HTTPFlow) -> Call:
    call = call_of(flow)
    if call is None:
        raise RuntimeError("a flow without a call")
    return call

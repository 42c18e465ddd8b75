"""The mitmproxy addon: options, start and stop, the layer of each client connection, and the only catch-all.

Every request runs ``serve_stream``. There, a fault in a call becomes ``internal_error``.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader
from mitmproxy.exceptions import OptionsError

from addon.calls.call import begin, fail, serve
from addon.calls.request_id import make_request_ids
from addon.calls.responses import make_error_response
from addon.gateway.flows.shown_calls import ShownCalls
from addon.gateway.lifecycle import Lifecycle
from addon.gateway.options import mitmproxy_options
from addon.runtime.tasks import wait_for_first
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, SettingsFiles
from addon.store.protocol import StoreUnavailable
from addon.text.errors import refusal_error
from addon.text.http_heads import Response
from addon.wire.client_connection import WireConfig
from addon.wire.connection import WireSettings
from addon.wire.hooks import ClientHooks
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.gateway")


class Gateway(ClientHooks):
    """mitmproxy's addon. The hooks of client connections are those of ``ClientHooks``."""

    def __init__(self) -> None:
        config = WireConfig(self.serve_stream, WireSettings(refuse=self._refuse))
        super().__init__(config, self._certificate)
        self._lifecycle: Lifecycle | None = None
        self._new_id = make_request_ids()
        self._shown_calls: ShownCalls | None = None

    def lifecycle(self) -> Lifecycle:
        """Return the running services. Raises RuntimeError before there are settings."""
        if self._lifecycle is None:
            raise RuntimeError("the gateway has no settings yet")
        return self._lifecycle

    # The process.

    def load(self, loader: Loader) -> None:
        loader.add_option("tollgate_conf", str, "proxy.conf", "Tollgate: the gateway's configuration file.")
        self._shown_calls = ShownCalls(loader.master.addons, self.clients.find)

    def configure(self, updated: set[str]) -> None:
        if "tollgate_conf" not in updated:
            return
        files = SettingsFiles(Path(ctx.options.tollgate_conf).absolute())
        try:
            settings = files.load()
            self.use(settings, files)
        except (SettingsError, StoreUnavailable) as error:
            if self._lifecycle:
                raise OptionsError(str(error)) from error
            # mitmproxy shows an exception of a script with its traceback. It also ends after an error that is logged.
            log.critical("the gateway can't start: %s", error)
            return
        ctx.options.update(**mitmproxy_options(settings, ctx.options))

    def use(self, settings: Settings, files: SettingsFiles | None) -> None:
        """Set up the services with ``settings``. For ``files`` see ``Lifecycle``. Raises StoreUnavailable."""
        self._lifecycle = Lifecycle(files, settings, self._new_id, self.clients.connections)

    async def running(self) -> None:
        """Start under mitmdump or mitmweb, which bind their default port before they read our options."""
        if self._lifecycle is None:
            return  # mitmdump ends, because ``configure`` has logged an error.
        if self.lifecycle().deps.settings.conf.listen.workers > 1:
            log.warning("[listen] workers does not apply here: mitmproxy is one process")
        try:
            await self.start()
            await self.lifecycle().open_admin()
            if not await ctx.master.addons.get("proxyserver").setup_servers():
                ctx.master.shutdown()
        except (OSError, StoreUnavailable) as error:
            log.critical("the gateway can't start: %s", error)
            ctx.master.shutdown()

    async def start(self) -> None:
        """Start the services, without the admin port. Raises OSError or StoreUnavailable."""
        await self.lifecycle().start()

    async def done(self) -> None:
        if self._lifecycle:
            await self._lifecycle.stop()
        if self._shown_calls:
            await self._shown_calls.close()

    async def drain(self, timeout_s: float, hurry: asyncio.Event | None = None) -> int:
        """Let the calls in flight end, then close every client. Fail ``/readyz`` at once.

        With ``hurry``, another process serves new connections. Then keep the open ones until their clients have had an
        answer that says that the connection closes, or until ``hurry`` is set. ``/readyz`` does not fail.
        Return how many calls were cut off because they did not end in time.
        """
        if not hurry:
            self.lifecycle().draining = True
            self.clients.announce_end()
        in_flight = self.lifecycle().deps.in_flight
        count, cut = len(in_flight.calls), 0
        fields = {"event": "drain begun", "calls": count, "timeout_s": timeout_s}
        log.info("draining: %d calls in flight, which may take %g s", count, timeout_s, extra=fields)
        try:
            async with asyncio.timeout(timeout_s):
                if hurry:
                    self.clients.retire()
                    await wait_for_first(self.clients.wait_until_gone(), hurry.wait())
                    self.clients.announce_end()
                await in_flight.idle.wait()
                self.clients.close_when_idle()
                await self.clients.wait_until_gone()
        except TimeoutError:
            in_flight.is_drain_over = True
            self.lifecycle().deps.unrelayed.close()
            cut = len(in_flight.calls)
            if cut or not hurry:
                log.warning("cut off %d calls that did not end within %g s", cut, timeout_s)
        await self.clients.close_all()
        return cut

    def _certificate(self) -> Path | None:
        # There may be no settings yet: mitmproxy reads each attribute of an addon when it is added.
        return self._lifecycle.deps.settings.conf.listen.tls_certificate if self._lifecycle else None

    # Calls.

    async def serve_stream(self, stream: Stream) -> None:
        """Serve one request, until its answer has ended and its ledger row is written.

        Answer a fault of ours with ``fail``, unless the client has left.
        """
        deps = self.lifecycle().deps
        call = begin(deps)
        shown = None
        if self._shown_calls is not None and self._shown_calls.viewers.are_present():
            shown = self._shown_calls.begin(stream)
        served = stream if shown is None else shown.stream
        try:
            await serve(call, served, deps)
        except ClientLeft:
            pass
        except Exception:
            log.exception("a call failed inside the gateway", extra={"id": call.exchange.id})
            with suppress(ClientLeft):
                await fail(call, served, deps)
        finally:
            if shown is not None:
                shown.end(call.exchange)

    def _refuse(self, refusal: Refusal) -> Response:
        """Return the answer to a request that never became a call."""
        if self._lifecycle:
            self._lifecycle.metrics.call_refused(refusal.code)
            self._lifecycle.store.count_refusal("", "", refusal.code)
        return make_error_response(refusal_error(refusal), [("x-request-id", self._new_id())], close=True)

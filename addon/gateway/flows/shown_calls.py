"""The calls that are shown to mitmproxy's addons as flows. Without an addon that handles flows, nothing happens.

The hooks of one call run in a task of their own, one after another, in mitmproxy's order. The call never waits for
them. If an addon changes a flow, only other addons see the change.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from operator import is_

from mitmproxy.addonmanager import AddonManager
from mitmproxy.connection import Client
from mitmproxy.hooks import Hook, UpdateHook
from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.layers.http._hooks import (
    HttpErrorHook,
    HttpRequestHeadersHook,
    HttpRequestHook,
    HttpResponseHeadersHook,
    HttpResponseHook,
)

from addon.gateway.flows.flow import (
    comment_of,
    new_flow,
    show_answer_body,
    show_answer_head,
    show_error,
    show_request_body,
)
from addon.gateway.flows.observed_stream import ObservedStream
from addon.gateway.flows.recording import Recording, RecordingBudget
from addon.telemetry.log_limits import LogLimit
from addon.wire.stream import Stream
from policies.exchange import Exchange

log = logging.getLogger("tollgate.flows")

RunHook = Callable[[Hook], Awaitable[None]]

FLOW_HOOKS = ("requestheaders", "request", "responseheaders", "response", "error")
MAX_SHOWN_AT_ONCE = 1_000
"""The most calls that are shown at the same time. Others are served without being shown."""


class Viewers:
    """The addons of mitmproxy that handle flows, looked up again only when the addons change."""

    def __init__(self, addons: AddonManager) -> None:
        self._addons = addons
        self._known: list[object] = []
        self._handle_flows = False

    def are_present(self) -> bool:
        """Return whether any addon of the process handles flows."""
        addons = self._addons.lookup
        if len(addons) != len(self._known) or not all(map(is_, addons.values(), self._known)):
            self._known = list(addons.values())
            self._handle_flows = any(_handles_flows(addon) for addon in self._known)
        return self._handle_flows


def _handles_flows(addon: object) -> bool:
    return any(callable(getattr(addon, name, None)) for name in FLOW_HOOKS)


class ShownCalls:
    """The calls that are being shown. ``find_client`` returns the client connection with the address of its peer."""

    def __init__(self, addons: AddonManager, find_client: Callable[[tuple[str, int]], Client | None]) -> None:
        self._addons = addons
        self.viewers = Viewers(addons)
        self._find_client = find_client
        self._budget = RecordingBudget()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left_out = LogLimit(log, max_lines=1)

    def begin(self, stream: Stream) -> "ShownCall | None":
        """Begin to show a call. Return None when too many calls are shown already, or its client has just left."""
        if len(self._tasks) >= MAX_SHOWN_AT_ONCE:
            message = f"calls are not shown as flows: {MAX_SHOWN_AT_ONCE} are being shown already"
            self._left_out.warning(message, event="calls not shown")
            return None
        client = self._find_client(stream.peer)
        if client is None:
            return None
        call = ShownCall(stream, client, self._budget)
        task = asyncio.get_running_loop().create_task(self._show(call))
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return call

    async def close(self) -> None:
        """Stop showing calls."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self, call: "ShownCall") -> None:
        try:
            await call.show(self._run)
        except Exception:
            log.exception("a call could not be shown as a flow")
        finally:
            call.recording.forget()

    async def _run(self, hook: Hook) -> None:
        """Run one hook of every addon."""
        await self._addons.trigger_event(hook)
        (flow,) = hook.args()
        flow.resume()  # An intercepted flow would look as if its call had to wait.
        await self._addons.trigger_event(UpdateHook([flow]))


class ShownCall:
    """One call that is shown. The call uses ``stream`` in place of the real one, which it wraps."""

    def __init__(self, stream: Stream, client: Client, budget: RecordingBudget) -> None:
        self.recording = Recording(stream.head, budget)
        self.stream = ObservedStream(stream, self.recording, self._note_change)
        self._client = client
        self._changed = asyncio.Event()
        self._ended: Exchange | None = None

    def end(self, exchange: Exchange) -> None:
        """Note that the call has ended and its ledger row is written."""
        self._ended = exchange
        self._changed.set()

    def _note_change(self) -> None:
        self._changed.set()

    async def show(self, run: RunHook) -> None:
        """Show the call step by step, until it has ended. Call ``run`` for each hook."""
        recording = self.recording
        flow = new_flow(recording.head, self._client)
        await run(HttpRequestHeadersHook(flow))
        await self._until(lambda: recording.is_request_whole or recording.answer is not None)
        show_request_body(flow, recording)
        await run(HttpRequestHook(flow))
        await self._until(lambda: recording.answer is not None)
        answered_s = time.time()
        if recording.answer is not None:
            show_answer_head(flow, recording.answer, answered_s)
            await run(HttpResponseHeadersHook(flow))
        await self._until(lambda: False)  # Every call ends.
        await run(self._finish(flow, answered_s))

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds`` is true, or the call has ended."""
        while self._ended is None and not holds():
            self._changed.clear()
            await self._changed.wait()

    def _finish(self, flow: HTTPFlow, answered_s: float) -> Hook:
        """Complete the flow of a call that has ended. Return the last hook to run."""
        recording = self.recording
        flow.error = None
        if recording.answer is not None:
            show_answer_head(flow, recording.answer, answered_s)
            show_answer_body(flow, recording)
        if self._ended is not None:
            flow.comment = comment_of(self._ended, recording.notes())
        if recording.is_answer_whole:
            return HttpResponseHook(flow)
        show_error(flow, self._incomplete_reason())
        return HttpErrorHook(flow)

    def _incomplete_reason(self) -> str:
        if self.stream.is_cut_off:
            return "The gateway cut the client off."
        return "The client left." if self.stream.is_client_gone else "The answer broke off."

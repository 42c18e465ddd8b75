"""The calls in flight, and how each ends: settled, refused or abandoned, exactly once.

| a call ends | when | ledger row | hold |
|---|---|---|---|
| settled | it was sent upstream | one | becomes the cost |
| refused | the gateway refused it before it was sent | none | released |
| abandoned | its client left before it was sent | none | released |

Each has one log line.
"""

import asyncio
import logging
import math
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from addon.calls.attempt import UpstreamAttempt, find_quota_rest_s
from addon.calls.call_state import NO_CHAT, Call
from addon.calls.credential_check import CredentialChecker
from addon.calls.output_medians import OutputMedians
from addon.calls.quota_use import end_quota_use
from addon.calls.request_body import BodyBudget
from addon.calls.settlement import (
    OK,
    compute_outcome,
    find_unpriced_service_tier,
    read_plausible_usage,
)
from addon.runtime.clock import Clock
from addon.runtime.tasks import wait_at_most
from addon.store.protocol import IllegalRowError, Settlement, Store, StoreUnavailable
from addon.telemetry.log_limits import LogLimit
from addon.telemetry.logs import (
    log_call,
    log_implausible_usage,
    log_unpriced_service_tier,
)
from addon.telemetry.metrics import Metrics
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer
from addon.upstream.place_speeds import PlaceSpeeds
from addon.upstream.platform_keys import PlatformKeys
from policies.call_stages import MOVES, Stage, UnsentEnd
from policies.circuit_breaker import circuit_of
from policies.exchange import CLIENT_CLOSED_REQUEST, CLIENT_DISCONNECTED, INTERRUPTED, Exchange, Outcome
from policies.ledger_row import make_ledger_row
from policies.limits import pays_from_wallet
from policies.refusal import Refusal

log = logging.getLogger("tollgate.in_flight")

LAST_BYTES_TIMEOUT_S = 1.0
"""How long the last bytes of a call wait for its ledger row. The store keeps a row that takes longer."""

CLOSING_TIMEOUT_S = 2.0
"""How long the last calls may take to end, after their clients were cut off."""


class InFlightCalls:
    """The calls in flight of one process. A call that ends gives its bytes back to ``bodies``."""

    def __init__(
        self,
        store: Store,
        platform_keys: PlatformKeys,
        speeds: PlaceSpeeds,
        metrics: Metrics,
        bodies: BodyBudget,
        clock: Clock,
    ) -> None:
        self.store = store
        self.platform_keys = platform_keys
        self.speeds = speeds
        self.metrics = metrics
        self.credential_checker = CredentialChecker(metrics)
        self.output_medians = OutputMedians()
        self.calls: set[str] = set()
        self.idle = asyncio.Event()
        self.idle.set()
        self.is_drain_over = False
        self._bodies = bodies
        self._clock = clock
        self._keyless_limit = LogLimit(log)
        """Bounds the log lines of calls without a valid key, which anyone can make."""
        self._by_workspace: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def workspace_calls(self) -> int:
        """The calls in flight, as they are counted for each workspace."""
        return sum(self._by_workspace.values())

    @property
    def tasks(self) -> int:
        """How much work of calls goes on without them. The set may keep what has ended for one more turn."""
        return sum(not task.done() for task in self._tasks)

    async def close(self) -> None:
        """Wait until the calls that were cut off have ended and all rows are written. Then the store may close."""
        try:
            async with asyncio.timeout(CLOSING_TIMEOUT_S):
                await self.idle.wait()
        except TimeoutError:
            log.error("%d calls did not end; their holds end with this process", len(self.calls))
        await asyncio.gather(*self._tasks)

    def add(self, call: Call) -> None:
        """Add an identified call. Raises Refusal ``rate_limit_exceeded`` where its workspace has too many in flight."""
        workspace, limit = call.exchange.workspace.id, call.settings.conf.limits.max_in_flight
        in_flight = self._by_workspace.get(workspace, 0)
        if in_flight >= limit:
            message = f"The workspace has {limit} calls in flight, which is its limit."
            raise Refusal("rate_limit_exceeded", message, retry_after_s=1)
        self._by_workspace[workspace] = in_flight + 1
        if not self.calls:
            self.idle.clear()
        self.calls.add(call.exchange.id)

    def note_attempt_end(
        self, call: Call, attempt: UpstreamAttempt, failure: ErrorAnswer | None = None
    ) -> None:
        """Note how an attempt ended, for the metrics, its platform key and its circuit."""
        attempt.failure, target = failure, call.exchange.target
        if failure:
            self.metrics.attempt_failed(target.model.provider.name, failure.code)
            took_s = self._clock.monotonic_s() - attempt.began_s
            call.exchange = call.exchange.with_attempt_end(failure.status, failure.code, took_s)
            if call.quota_use is not None:
                end_quota_use(call)
        self.platform_keys.record_answer(
            attempt.key_target, failure.status if failure else OK, attempt.retry_after
        )
        if target.has_alternative:
            self._note_place(call, attempt, failure)
        if failure is None and not self.store.known_circuits:
            return  # A success changes no circuit that has nothing to remember.
        if failure is None or (failure.code != INTERNAL_ERROR.code and not attempt.lagged):
            failed = failure is not None and call.has_failed(attempt, failure)
            circuit = circuit_of(target, call.exchange.workspace)
            self.spawn(self.store.record_attempt(circuit, failed=failed))

    def _note_place(self, call: Call, attempt: UpstreamAttempt, failure: ErrorAnswer | None) -> None:
        """Note how fast a place was, and whether its vendor says that its quota is used up."""
        target, exchange = attempt.key_target, call.exchange
        if not attempt.lagged and (failure is None or call.has_failed(attempt, failure)):
            first_byte_s = math.inf
            if failure is None and call.first_byte_s is not None and attempt.sent_s is not None:
                first_byte_s = call.first_byte_s - attempt.sent_s
            self.speeds.note_attempt(target, stream=exchange.stream, first_byte_s=first_byte_s)
        rest_s = find_quota_rest_s(attempt, self._clock.now())
        if rest_s is not None:
            self.platform_keys.note_quota(target, exchange.workspace.id, rest_s)

    async def settle(self, call: Call, status: int, error_code: str | None = None) -> None:
        """End a call that was dispatched. Do nothing for a call that was never dispatched, or has ended already.

        Return when its row is written, or after ``LAST_BYTES_TIMEOUT_S``. The last bytes of its answer follow, so a
        client with a whole answer finds it in the ledger.
        """
        if call.exchange.stage is not Stage.DISPATCHED:
            return
        now_s = self._clock.monotonic_s()
        if 1 < call.exchange.attempts > len(call.exchange.attempt_ends):
            took_s = now_s - call.attempt.began_s
            call.exchange = call.exchange.with_attempt_end(status, error_code, took_s)
        answered = call.exchange.answer(status, error_code)
        call.exchange = answered.settle(self._find_outcome(call, answered, now_s))
        try:
            writing = self.spawn(self._write_row(call, now_s))
            if not writing.done():
                await wait_at_most(writing, LAST_BYTES_TIMEOUT_S)
        finally:
            # The caller sends the last bytes first, so that a drain does not end before they are sent.
            asyncio.get_running_loop().call_soon(self._finish, call, now_s)

    def settle_in_background(self, call: Call, status: int, error_code: str) -> None:
        """Settle a call in which the gateway itself failed. Its answer does not wait for that."""
        self.spawn(self.settle(call, status, error_code))

    def refuse(
        self, call: Call, status: int, error_code: str, request_line: tuple[str, str] | None = None
    ) -> None:
        """End a call that the gateway refused. Do nothing where it was sent upstream or has ended.

        ``request_line`` is for the log, where nothing serves the request.
        """
        self._end_unsent(call, Stage.REFUSED, status, error_code, request_line)

    async def abandon(self, call: Call) -> None:
        """End a call whose client left or was cut off, at any stage."""
        why = INTERRUPTED if self.is_drain_over else CLIENT_DISCONNECTED
        await self.settle(call, CLIENT_CLOSED_REQUEST, why)
        self._end_unsent(call, Stage.ABANDONED, CLIENT_CLOSED_REQUEST, why)

    def end_free(self, call: Call) -> None:
        """End a call that was answered without an attempt: it has no row, and costs nothing."""
        self._remove(call)

    def _end_unsent(
        self,
        call: Call,
        stage: UnsentEnd,
        status: int,
        error_code: str,
        request_line: tuple[str, str] | None = None,
    ) -> None:
        if stage in MOVES[call.exchange.stage]:
            if call.exchange.stage is Stage.HELD:
                self.spawn(self._void(call.exchange.id))
            call.exchange = call.exchange.end_unsent(stage, status, error_code)
            self._remove(call)
            has_key = call.exchange.workspace and error_code != "invalid_api_key"
            if has_key or self._keyless_limit.admit():
                log_call(call.exchange, self._clock.monotonic_s(), event="refusal", request_line=request_line)
            workspace, key, api = call.exchange.workspace, call.exchange.key, call.exchange.api
            self.metrics.call_refused(error_code, api)
            named = (workspace.id if workspace else "", key.id if key else "")
            self.store.count_refusal(*named, error_code, api)

    def _find_outcome(self, call: Call, answered: Exchange, now_s: float) -> Outcome:
        """Return the usage and the cost of a call. If our own code fails here, the call costs nothing."""
        call.exchange = answered
        try:
            reader = call.reader
            counted, implausible = read_plausible_usage(call, reader)
            for name in implausible:
                log_implausible_usage(answered, name)
                self.metrics.count_implausible_usage(answered.target.model.provider.name, name)
            outcome = compute_outcome(call, reader, counted, now_s)
            if outcome.usage.service_tier and (tier := find_unpriced_service_tier(call, outcome.usage)):
                log_unpriced_service_tier(answered, tier)
            return outcome
        except Exception:
            log.exception("the cost of a call can't be found out", extra={"id": answered.id})
            return Outcome()

    def _finish(self, call: Call, now_s: float) -> None:
        try:
            log_call(call.exchange, now_s, event="call")
            self.metrics.call_ended(call.exchange, call.settings.models, now_s)
            workspace, key = call.exchange.workspace, call.exchange.key
            if workspace.tpm or key.tpm or workspace.budgets or call.quota_use is not None:
                self.output_medians.note(call.exchange)
        finally:
            self._remove(call)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` to its end, even where its call ends first. ``close`` waits for it."""
        # Most work ends at once. A loop's own way to make a task costs more than that.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    async def _write_row(self, call: Call, now_s: float) -> None:
        """Write the row of a call. The client gets its answer even if this fails: the store writes the row later."""
        exchange = call.exchange
        try:
            from_wallet = pays_from_wallet(exchange.workspace.plan, exchange.target.mode)
            await self.store.settle(Settlement(make_ledger_row(exchange, now_s), from_wallet))
        except StoreUnavailable as error:
            log.warning("a call can't be recorded now and is kept in memory: %s", error)
        except IllegalRowError:
            log.exception("a ledger row is invalid")
        except Exception:
            log.exception("a call could not be settled, and is kept", extra={"id": call.exchange.id})

    async def _void(self, call_id: str) -> None:
        with suppress(StoreUnavailable):  # The store does it later.
            await self.store.void(call_id)

    def _remove(self, call: Call) -> None:
        call_id, call.chat = call.exchange.id, NO_CHAT
        if call.quota_use is not None:
            end_quota_use(call)
        self._bodies.give_back(call)
        if call_id in self.calls:
            self.calls.discard(call_id)
            workspace = call.exchange.workspace.id
            self._by_workspace[workspace] -= 1
            if not self._by_workspace[workspace]:
                del self._by_workspace[workspace]
        if call_id in self.store.probes and (ending := self.store.end_probe(call_id)):
            self.spawn(ending)
        if not self.calls:
            self.idle.set()

"""``Exchange``: all that the ledger row of one call needs, and the stage of the call. Pure.

It is frozen. Each move returns the next one, and raises where ``MOVES`` does not list it. So a call can't be dispatched
without approval, no attempt can be dispatched without a hold, and no call can be settled twice.
"""

from dataclasses import replace as replace_route
from datetime import datetime
from typing import Any, Final, Literal, Self, get_args

from msgspec import Struct
from msgspec.structs import replace

from policies.attempt_ends import AttemptEnd, make_attempt_end
from policies.call_stages import MOVES, IllegalMoveError, Stage, UnsentEnd
from policies.model import Key, Workspace
from policies.route import Route, Target
from policies.spend import Hold
from policies.trace_context import TraceContext, make_span_id
from policies.usage import Usage

UsageSource = Literal["provider", "estimated", "none"]
type ApiName = Literal["chat", "messages", "responses", "embeddings"]
"""The wire shape that a client speaks."""

KNOWN_APIS: Final[tuple[ApiName, ...]] = get_args(ApiName.__value__)

CLIENT_CLOSED_REQUEST = 499
"""The status of a call whose client left before its answer was whole, as in nginx."""
CLIENT_DISCONNECTED = "client_disconnected"
"""The error code of a call whose client left before it ended."""
INTERRUPTED = "interrupted"
"""The error code of a call that the gateway did not wait for: it stopped, or was killed."""


class NotKnown:
    """The value of a fact that a call does not have. It is false; any other use of it raises ``message``."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise IllegalMoveError(self._message)


NO_WORKSPACE: Final[Any] = NotKnown(f"a call has no workspace before it is {Stage.IDENTIFIED}")
NO_KEY: Final[Any] = NotKnown(f"a call has no key before it is {Stage.IDENTIFIED}")
NO_ROUTE: Final[Any] = NotKnown(f"a call has no route before it is {Stage.ROUTED}")
NO_TARGET: Final[Any] = NotKnown(
    f"a call has no target before it is {Stage.ROUTED} or after its last attempt"
)


class Outcome(Struct, frozen=True):
    """The usage and the cost of a call. By default it used nothing and costs nothing."""

    usage: Usage = Usage()
    usage_source: UsageSource = "none"
    wholesale_nanousd: int = 0
    retail_nanousd: int = 0
    finish_reason: str | None = None
    first_byte_s: float | None = None


class Exchange(Struct, frozen=True):
    """One call.

    | field | is |
    |---|---|
    | ``started_s``, ``first_byte_s`` | readings of one monotonic clock |
    | ``workspace``, ``key``, ``route`` | false before they are known; then any other use of them raises |
    | ``target`` | the target of the attempt that is made now, or of the one that answered |
    | ``next_target`` | the target of the next attempt, false where none may follow |
    | ``position`` | how many targets of the route have had their turn |
    | ``attempts`` | the number of attempts that were made |
    | ``attempt_ends`` | how each attempt ended, the one that is made now left out |
    | ``resends`` | how often a request was sent again, within an attempt |
    | ``hold`` | the hold of the last attempt that was dispatched |
    | ``next_hold`` | the hold of an attempt that is not dispatched yet; it becomes ``hold`` |
    | ``answered_by`` | the attempt, from 1, whose failure is the client's answer, where it is not the last one |
    | ``trace`` | the trace that the client's request belongs to |
    | ``client_request_id`` | the client's own id of the call, without credentials |
    | ``tags`` | ``metadata`` of the request as JSON, without credentials |
    | ``api`` | the API of the request |
    """

    id: str
    created_at: datetime
    started_s: float
    stage: Stage = Stage.RECEIVED
    workspace: Workspace = NO_WORKSPACE
    key: Key = NO_KEY
    requested_model: str | None = None
    end_user: str | None = None
    tags: str | None = None
    stream: bool = False
    route: Route = NO_ROUTE
    target: Target = NO_TARGET
    next_target: Target = NO_TARGET
    position: int = 0
    hold: Hold | None = None
    next_hold: Hold | None = None
    attempts: int = 0
    attempt_ends: tuple[AttemptEnd, ...] = ()
    resends: int = 0
    answered_by: int | None = None
    status: int | None = None
    error_code: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    usage_source: UsageSource = "none"
    wholesale_nanousd: int = 0
    retail_nanousd: int = 0
    first_byte_s: float | None = None
    trace: TraceContext | None = None
    client_request_id: str | None = None
    api: ApiName = "chat"

    def with_api(self, api: ApiName) -> Self:
        """Return the same call with the API of its request."""
        return replace(self, api=api)

    def with_client_ids(self, trace: TraceContext | None, client_request_id: str | None) -> Self:
        """Return the same call with the ids that its client gave it."""
        return replace(self, trace=trace, client_request_id=client_request_id)

    def identify(self, workspace: Workspace, key: Key) -> Self:
        """Return the same call with its caller."""
        if Stage.IDENTIFIED not in MOVES[self.stage]:
            raise self._illegal_move(Stage.IDENTIFIED)
        return replace(self, stage=Stage.IDENTIFIED, workspace=workspace, key=key)

    def admit(self) -> Self:
        """Return the same call, let in by the rate limiter."""
        if Stage.ADMITTED not in MOVES[self.stage]:
            raise self._illegal_move(Stage.ADMITTED)
        return replace(self, stage=Stage.ADMITTED)

    def with_request(
        self, requested_model: str | None, end_user: str | None, tags: str | None = None, *, stream: bool
    ) -> Self:
        """Return the same call with the facts of its body that the ledger row has."""
        return replace(self, requested_model=requested_model, end_user=end_user, tags=tags, stream=stream)

    def with_route(self, route: Route) -> Self:
        """Return the same call with ``route``, at ``ROUTED`` or later. It replaces a route that no attempt has used."""
        stage = Stage.ROUTED if self.stage is Stage.ADMITTED else self.stage
        if stage not in (Stage.ROUTED, Stage.HELD):
            raise IllegalMoveError(f"call {self.id}: no route can be chosen at {stage}")
        first = route.targets[0]
        return replace(self, stage=stage, route=route, target=first, next_target=first, position=0)

    def with_next_target(self, target: Target) -> Self:
        """Return the same call with ``target`` as the next one. It may differ only in its secret and its prices."""
        return replace(self, next_target=target)

    def with_retry(self) -> Self:
        """Return the same call with the target of its last attempt as the next one, once more."""
        position = self.position - 1
        return replace(self, next_target=self.route.targets[position], position=position)

    def with_following(self, targets: tuple[Target, ...]) -> Self:
        """Return the same call with ``targets``, for a prompt that is too long, in place of those that would follow.

        What barred the Safety Net is no reason any more: the failure is not the provider's.
        """
        route = replace_route(
            self.route,
            targets=(*self.route.targets[: self.position], *targets),
            long_prompt_targets=(),
            fallback_refusal=None,
        )
        follows = bool(targets) and self.attempts < route.max_attempts
        return replace(self, route=route, next_target=targets[0] if follows else NO_TARGET)

    def skip_target(self) -> Self:
        """Return the same call without its next target, which is never sent anything."""
        return self._past(self.attempts)

    def _past(self, attempts: int, **changes: Any) -> Self:
        """Return the same call with the target after the next one as the next one."""
        position, route = self.position + 1, self.route
        follows = position < len(route.targets) and attempts < route.max_attempts
        target = route.targets[position] if follows else NO_TARGET
        return replace(self, attempts=attempts, position=position, next_target=target, **changes)

    def with_hold(self, hold: Hold) -> Self:
        """Return the same call with ``hold`` for its next attempt. It replaces the hold of an earlier attempt."""
        if self.stage is Stage.ROUTED:
            return replace(self, stage=Stage.HELD, next_hold=hold)
        if self.stage not in (Stage.HELD, Stage.DISPATCHED):
            raise IllegalMoveError(f"call {self.id}: nothing can be held at {self.stage}")
        return replace(self, next_hold=hold)

    def dispatch(self) -> Self:
        """Return the same call with its next attempt dispatched. Raises ``IllegalMoveError`` where it has no hold."""
        if self.next_hold is None or Stage.DISPATCHED not in MOVES[self.stage]:
            raise IllegalMoveError(f"call {self.id}: nothing is held for its next attempt")
        if not self.next_target:
            raise IllegalMoveError(f"call {self.id}: its route has no other attempt")
        return self._past(
            self.attempts + 1,
            stage=Stage.DISPATCHED,
            hold=self.next_hold,
            next_hold=None,
            target=self.next_target,
        )

    def skip_held_target(self) -> Self:
        """As ``skip_target``, for a target that a hold was placed for. The next one needs a hold of its own."""
        return self._past(self.attempts, next_hold=None)

    def with_attempt_end(self, status: int, error_code: str | None, duration_s: float) -> Self:
        """Return the same call with the end of the attempt that is made now."""
        end = make_attempt_end(self.attempts, self.target, status, error_code, duration_s)
        return replace(self, attempt_ends=(*self.attempt_ends, end))

    def with_resend(self) -> Self:
        """Return the same call with one more request sent, within its attempt."""
        if self.stage is not Stage.DISPATCHED:
            raise IllegalMoveError(f"call {self.id}: nothing can be sent again at {self.stage}")
        return replace(self, resends=self.resends + 1)

    def with_answer_of_first(self, sent: Target) -> Self:
        """Return the same call with the failure of its first attempt as its answer.

        ``sent`` is the target of that attempt, with its prices and its key.
        """
        return replace(self, answered_by=1, target=sent)

    def answer(self, status: int, error_code: str | None) -> Self:
        """Return the same call with its answer, or its failure, final."""
        if Stage.ANSWERED not in MOVES[self.stage]:
            raise self._illegal_move(Stage.ANSWERED)
        return replace(self, stage=Stage.ANSWERED, status=status, error_code=error_code)

    def settle(self, outcome: Outcome) -> Self:
        """Return the same call with what it used and cost."""
        if Stage.SETTLED not in MOVES[self.stage]:
            raise self._illegal_move(Stage.SETTLED)
        return replace(
            self,
            stage=Stage.SETTLED,
            usage=outcome.usage,
            usage_source=outcome.usage_source,
            wholesale_nanousd=outcome.wholesale_nanousd,
            retail_nanousd=outcome.retail_nanousd,
            finish_reason=outcome.finish_reason,
            first_byte_s=outcome.first_byte_s,
        )

    def end_unsent(self, stage: UnsentEnd, status: int, error_code: str) -> Self:
        """Return the same call, ended before anything of it was sent."""
        if stage not in MOVES[self.stage]:
            raise self._illegal_move(stage)
        return replace(self, stage=stage, status=status, error_code=error_code)

    def _illegal_move(self, stage: Stage) -> IllegalMoveError:
        return IllegalMoveError(f"call {self.id}: {self.stage} → {stage}")

    @property
    def was_served_by_fallback(self) -> bool:
        """Whether the answer that the client got, or its beginning, came from a fallback."""
        return self.first_byte_s is not None and self.target.is_fallback

    @property
    def span_id(self) -> str | None:
        """The span id of the attempt of ``target``, None for a call that was not sent or belongs to no trace."""
        if self.trace is None or not self.was_sent_upstream:
            return None
        return make_span_id(self.id, self.answered_by or self.attempts)

    @property
    def was_sent_upstream(self) -> bool:
        """Whether this call owes the ledger a row."""
        return self.stage in (Stage.DISPATCHED, Stage.ANSWERED, Stage.SETTLED)

"""What would happen to a call: the gateway's own steps in its own order, with nothing sent, taken or written.

Every decision is asked of the function that a live call asks; what is told here is what it said. Where a step refuses,
the explanation ends there, as the call would.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal

from pydantic import SecretStr

from addon.calls.attempt import UpstreamAttempt
from addon.calls.authentication import invalid_key_refusal
from addon.calls.call_state import Call
from addon.calls.chat_request import parse_chat_request
from addon.calls.endpoints import Endpoint, check_size
from addon.calls.upstream_request import (
    accept_request,
    accept_route,
    find_route,
    hold_request,
    make_attempt,
    reviewed_cap,
)
from addon.explain.fields import explained_fields
from addon.store.ledger.report import ReadUsed, find_limits
from addon.store.protocol import HoldRequest, StoreUnavailable
from addon.text.errors import INTERNAL, LIMITS_UNAVAILABLE, ErrorAnswer, from_refusal
from addon.text.http_heads import Headers, RequestHead
from addon.text.json_decode import decode_object
from policies.fallback import refusal_after_failure
from policies.field_change import Change
from policies.limits import rpm_of
from policies.model import Attempt
from policies.refusal import Refusal
from policies.spend import Denial, Hold, place_hold, refusal_of

Step = Literal["size", "key", "body", "routing", "policies", "limits", "request"]

BUILT_IN_URL: Final = "http://built-in.invalid/v1"
"""What stands for the address of a builtin provider: it has one only while the gateway runs."""

_NO_CAP: Final = 2**62
_UNSHOWN: Final = SecretStr("-")

type Counted = ReadUsed | StoreUnavailable
"""What reads the counters of limits as they are now, or why nothing can."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What the client would be told, by which step. ``why`` is for the operator alone: what the answer does not say."""

    step: Step
    answer: ErrorAnswer
    why: str | None = None


@dataclass(slots=True)
class Caps:
    """The caps on completion tokens, None where there is none; ``sent`` is what goes upstream, ``won`` whose it is."""

    client: int | None = None
    policies: int | None = None
    catalog: int | None = None
    budget: int | None = None
    sent: int | None = None

    @property
    def won(self) -> str | None:
        """The name of the cap that is sent; of equal ones the first."""
        names = ("client", "policies", "catalog", "budget")
        return next(
            (name for name in names if self.sent is not None and getattr(self, name) == self.sent), None
        )


@dataclass(slots=True)
class ExplainedAttempt:
    """One attempt, as far as it gets. ``limits`` are rows of ``store.ledger.report``; ``body`` is what is sent.

    ``url`` is None for a builtin provider.
    """

    attempt: Attempt
    caps: Caps
    prompt_nanousd: int | None = None
    hold_nanousd: int | None = None
    limits: list[dict[str, Any]] = field(default_factory=list)
    fields: tuple[Change, ...] = ()
    url: str | None = None
    body: dict[str, Any] | None = None
    denial: Denial | None = None
    refused: Refused | None = None


@dataclass(slots=True)
class Explanation:
    """The answer. ``refused`` ends the call before anything is sent.

    ``told_on_failure`` is what the client is told where the first attempt failed and no second can be made, if not of
    that failure itself. ``why_alone`` says why the route has no second one.
    """

    limit_rpm: int
    overage_protection: bool
    requested_model: str | None = None
    stream: bool = False
    decided_by: str | None = None
    attempts: list[ExplainedAttempt] = field(default_factory=list)
    refused: Refused | None = None
    told_on_failure: ErrorAnswer | None = None
    why_alone: str | None = None


class _Stopped(Exception):  # noqa: N818  (an answer, not a fault)
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.answer.code)
        self.refused = refused


def explain(call: Call, content: bytes, counted: Counted) -> Explanation:
    """Return what would happen to a call that the limiter lets in: one at ``ADMITTED``, which advances here.

    Its settings have an address for each builtin provider; no secret of theirs gets into the explanation.
    """
    told = _begun(call)
    try:
        _admit(call, content)
        with _step("body"):
            accept_request(call, parse_chat_request(content))
        told.requested_model, told.stream = call.exchange.requested_model, call.exchange.stream
        with _step("routing"):
            accept_route(call, find_route(call))
    except _Stopped as stopped:
        told.refused = stopped.refused
        return told
    once = counted if isinstance(counted, StoreUnavailable) else cache(counted)
    _explain_route(call, told, decode_object(content), once)
    return told


def _explain_route(call: Call, told: Explanation, given: Mapping[str, Any], counted: Counted) -> None:
    route = call.exchange.routed
    told.decided_by = route.decided_by
    # What is explained is shown, so no secret is in it from here on.
    shown = tuple(replace(attempt, secret=_UNSHOWN) for attempt in route.attempts)
    call.exchange = call.exchange.note(route=replace(route, attempts=shown))
    told.told_on_failure = from_refusal(route.barred) if route.barred else None
    told.why_alone = route.why_alone
    first = _explain_attempt(call, given, counted)
    told.attempts.append(first)
    told.refused = first.refused
    if not first.refused and call.exchange.has_next_attempt:
        second = _explain_attempt(call, given, counted)
        told.attempts.append(second)
        told.told_on_failure = _told_instead(first, second, call.exchange.created_at)


def _admit(call: Call, content: bytes) -> None:
    _, key = call.exchange.caller
    with _step("size"):
        check_size(_head(content), call.settings.conf.limits.max_request_bytes)
    if not key.active:
        raise _Stopped(Refused("key", from_refusal(invalid_key_refusal()), f"key {key.id} is not active"))


def _explain_attempt(call: Call, given: Mapping[str, Any], counted: Counted) -> ExplainedAttempt:
    attempt = call.exchange.next_attempt
    told = ExplainedAttempt(attempt, Caps(catalog=attempt.model.max_completion_tokens))
    try:
        with _step("policies"):
            told.caps.policies, cap_tokens = reviewed_cap(call)
        told.caps.client = call.chat.requested_cap
        with _step("limits"):
            hold = _hold(call, told, cap_tokens, counted)
        with _step("request"):
            _send(call, told, make_attempt(call, attempt, cap_tokens, hold), given)
    except _Stopped as stopped:
        told.refused = stopped.refused
    return told


def _hold(call: Call, told: ExplainedAttempt, cap_tokens: int | None, counted: Counted) -> Hold:
    request = hold_request(call, cap_tokens)
    if isinstance(counted, StoreUnavailable):
        raise counted
    told.prompt_nanousd = request.want.prompt_nanousd
    told.limits = _standings(call, request, counted)
    used = {limit.counter: counted(limit, request.workspace, request.key_id) for limit in request.limits}
    endless = place_hold(replace(request.want, cap_tokens=_NO_CAP), request.limits, used)
    if told.attempt.mode == "payg" and not isinstance(endless, Denial) and endless.cap_tokens < _NO_CAP:
        told.caps.budget = endless.cap_tokens
    decided = place_hold(request.want, request.limits, used)
    if isinstance(decided, Denial):
        told.denial = decided
        raise refusal_of(decided, request.created_at)
    told.hold_nanousd = decided.amount_nanousd
    call.exchange = call.exchange.held(decided)
    return decided


def _standings(call: Call, request: HoldRequest, read_used: ReadUsed) -> list[dict[str, Any]]:
    """Return what is left of each limit of the attempt, in the order in which they are checked."""
    workspace, key = call.exchange.caller
    alone = replace(workspace, keys=(key,))
    rows = {row["limit"]: row for row in find_limits(read_used, [alone], request.created_at).records()}
    return [rows[limit.kind] for limit in request.limits]


def _send(call: Call, told: ExplainedAttempt, sent: UpstreamAttempt, given: Mapping[str, Any]) -> None:
    call.exchange = call.exchange.dispatch()
    model = told.attempt.model
    told.body = json.loads(sent.request.content)
    told.url = None if model.provider.builtin else sent.request.url
    told.caps.sent = sent.sanitized.body.get(model.family.cap_field)
    told.fields = explained_fields(given, sent.sanitized, told.attempt)


def _told_instead(first: ExplainedAttempt, second: ExplainedAttempt, now: datetime) -> ErrorAnswer | None:
    """Return what the client is told where ``first`` failed and ``second`` is refused, None: of the failure."""
    if second.refused and second.refused.answer is INTERNAL:
        return INTERNAL
    if second.denial and (refusal := refusal_after_failure(second.denial, first.attempt, now)):
        return from_refusal(refusal)
    return None


@contextmanager
def _step(step: Step) -> Iterator[None]:
    """Turn whatever goes wrong in a step into what ``calls.call.serve`` would answer."""
    try:
        yield
    except Refusal as refusal:
        raise _Stopped(Refused(step, from_refusal(refusal))) from refusal
    except StoreUnavailable as error:
        raise _Stopped(Refused(step, LIMITS_UNAVAILABLE, str(error))) from error
    except Exception as error:
        raise _Stopped(Refused(step, INTERNAL, f"{type(error).__name__}: {error}")) from error


def _head(content: bytes) -> RequestHead:
    length = ("content-length", str(len(content)))
    return RequestHead("POST", Endpoint.CHAT.value, "1.1", Headers([length]))


def _begun(call: Call) -> Explanation:
    (workspace, _), limits = call.exchange.caller, call.settings.conf.limits
    limit_rpm = rpm_of(workspace, limits.standard_rpm, limits.pro_rpm)
    return Explanation(limit_rpm, workspace.overage_protection)

"""How a call is explained: the gateway's own steps in their own order, with nothing sent, taken or written.

Each step runs the same function as in a live call, and the explanation shows its result. Where a step refuses the call,
the explanation ends there, as the call would.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import structs
from pydantic import SecretStr

from addon.calls.attempt import UpstreamAttempt
from addon.calls.authentication import invalid_key_refusal
from addon.calls.call_state import CHAT, Call
from addon.calls.endpoints import Endpoint
from addon.calls.hold_request import make_hold_request
from addon.calls.request_body import check_size
from addon.calls.upstream_request import (
    accept_request,
    accept_route,
    ask_policies,
    find_route,
    find_window_cap_of,
    make_attempt,
    prepare_next_target,
)
from addon.explain.api_fields import find_given, native_fields, untranslated_fields
from addon.explain.explanation import Caps, ExplainedAttempt, Explanation, Refused, Step
from addon.explain.fields import explained_fields
from addon.explain.following import find_following
from addon.explain.places import KnownStates, find_left_out, find_reasons, find_unknown
from addon.store.money.reports.report import LedgerCounters, ReadUsed, find_limits, make_limit_record
from addon.store.money.reports.wallet_credits import Credit
from addon.store.protocol import HoldRequest, StoreUnavailable
from addon.text.errors import INTERNAL_ERROR, LIMITS_UNAVAILABLE, ErrorAnswer, refusal_error
from addon.text.http_heads import Headers, RequestHead
from policies.completion_cap import find_completion_cap
from policies.dialect_choice import explain_dialect
from policies.fallback import find_refusal_after_failure
from policies.limits import Limit, rpm_of
from policies.refusal import Refusal
from policies.spend import Denial, Hold, make_denial_refusal, place_hold
from policies.token_limits import find_budget_rates, find_excess, make_token_refusal

BUILT_IN_URL: Final = "http://built-in.invalid/v1"
"""A placeholder for the address of a builtin provider, which has one only while the gateway runs."""

_NO_CAP: Final = 2**62
_UNSHOWN: Final = SecretStr("-")

NOTHING_KNOWN: Final = KnownStates()

type Counted = ReadUsed | StoreUnavailable
"""A reader of the current counters of limits, or why they can't be read."""


class _Budgets(NamedTuple):
    """What is used of the limits, and the last credits of wallets."""

    counted: Counted
    credits: Mapping[str, Credit]
    choose: Callable[[Sequence[Limit]], Sequence[Limit]]


class _Stopped(Exception):  # noqa: N818  (an answer, not a fault)
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.answer.code)
        self.refused = refused


def explain(
    call: Call,
    content: bytes,
    counted: Counted,
    credits: Mapping[str, Credit],
    states: KnownStates = NOTHING_KNOWN,
) -> Explanation:
    """Return what would happen to a call at ``ADMITTED``, which the rate limiter has let in. The call advances here.

    Its settings have an address for each builtin provider. ``credits`` as in ``find_limits``. ``states`` is what is
    known of the running gateways. The explanation contains no secret.
    """
    explanation = _begin(call)
    try:
        _admit(call, content)
        with _step("body"):
            accept_request(call, call.api.parse(content, _head(content).headers))
        exchange = call.exchange
        explanation.requested_model, explanation.stream = exchange.requested_model, exchange.stream
        explanation.budget_rates = find_budget_rates(exchange.workspace, exchange.end_user, exchange.tags)
        with _step("routing"):
            accept_route(call, find_route(call))
    except _Stopped as stopped:
        explanation.refused = stopped.refused
        return explanation
    once = counted if isinstance(counted, StoreUnavailable) else cache(counted)
    choose = counted.choose if isinstance(counted, LedgerCounters) else _choose_own
    _explain_route(call, explanation, find_given(call, content), _Budgets(once, credits, choose), states)
    return explanation


def _choose_own(limits: Sequence[Limit]) -> Sequence[Limit]:
    """Return the limits of a call, where it is not known which values of budgets share a counter."""
    return limits


def _explain_route(
    call: Call,
    explanation: Explanation,
    given: Mapping[str, Any],
    budgets: _Budgets,
    states: KnownStates,
) -> None:
    route = call.exchange.route
    explanation.decided_by = route.decided_by
    # The explanation is shown to people, so no secret is in it from here on.
    shown = tuple(replace(target, secret=_UNSHOWN) for target in route.targets)
    longer = tuple(replace(target, secret=_UNSHOWN) for target in route.long_prompt_targets)
    route = replace(route, targets=shown, long_prompt_targets=longer)
    call.exchange = call.exchange.with_route(route)
    explanation.error_on_failure = refusal_error(route.fallback_refusal) if route.fallback_refusal else None
    explanation.no_fallback_reason = route.no_fallback_reason
    explanation.unknown = tuple(find_unknown(call, states))
    first = _explain_attempt(call, given, budgets)
    explanation.attempts.append(first)
    explanation.refused = first.refused
    while not first.refused and call.exchange.next_target:
        following = _explain_attempt(call, given, budgets)
        explanation.attempts.append(following)
        if following.refused:
            call.exchange = call.exchange.skip_target()
            now = call.exchange.created_at
            explanation.error_on_failure = explanation.error_on_failure or _error_instead(
                first, following, now
            )
    for one in explanation.attempts:
        dialect = explain_dialect(one.target.model)
        one.reasons = (*find_reasons(call, one.target, states.circuits), *([dialect] if dialect else ()))
    tried = [one.target for one in explanation.attempts]
    explanation.left_out = () if first.refused else tuple(find_left_out(call, tried))


def _admit(call: Call, content: bytes) -> None:
    key = call.exchange.key
    with _step("size"):
        check_size(_head(content), call.settings.conf.limits.max_request_bytes)
    if reason := key.why_refused(call.exchange.created_at):
        raise _Stopped(Refused("key", refusal_error(invalid_key_refusal()), f"key {key.id} {reason}"))


def _explain_attempt(call: Call, given: Mapping[str, Any], budgets: _Budgets) -> ExplainedAttempt:
    prepare_next_target(call, call.exchange.created_at)
    target = call.exchange.next_target
    explained = ExplainedAttempt(target, Caps(catalog=target.model.max_completion_tokens))
    try:
        with _step("policies"):
            explained.caps.policies, cap_tokens = ask_policies(call)
        explained.caps.client = call.chat.requested_cap
        with _step("limits"):
            explained.caps.window = find_window_cap_of(call, cap_tokens)
            cap_tokens = find_completion_cap(cap_tokens, explained.caps.window)
            hold = _hold(call, explained, cap_tokens, budgets)
        with _step("request"):
            _send(call, explained, make_attempt(call, target, cap_tokens, hold), given)
    except _Stopped as stopped:
        explained.refused = stopped.refused
    return explained


def _hold(call: Call, explained: ExplainedAttempt, cap_tokens: int | None, budgets: _Budgets) -> Hold:
    counted = budgets.counted
    request = make_hold_request(call, cap_tokens)
    if request.tokens is not None:
        explained.tokens = request.tokens.tokens
        if denied := find_excess(request.tokens):
            raise make_token_refusal(denied)
    if isinstance(counted, StoreUnavailable):
        raise counted
    explained.prompt_nanousd = request.max_cost.prompt_nanousd
    request = structs.replace(request, limits=budgets.choose(request.limits))
    explained.limits = _limit_rows(call, request, counted, budgets.credits)
    used = {limit.counter: counted(limit, request.workspace, request.key_id) for limit in request.limits}
    uncapped = place_hold(structs.replace(request.max_cost, cap_tokens=_NO_CAP), request.limits, used)
    if explained.target.mode == "payg" and not isinstance(uncapped, Denial) and uncapped.cap_tokens < _NO_CAP:
        explained.caps.budget = uncapped.cap_tokens
    decided = place_hold(request.max_cost, request.limits, used)
    if isinstance(decided, Denial):
        explained.denial = decided
        raise make_denial_refusal(decided, request.created_at)
    explained.hold_nanousd = decided.amount_nanousd
    call.exchange = call.exchange.with_hold(decided)
    return decided


def _limit_rows(
    call: Call, request: HoldRequest, read_used: ReadUsed, credits: Mapping[str, Credit]
) -> list[dict[str, Any]]:
    """Return what is left of each limit of the attempt, in the order of the checks."""
    with_this_key = replace(call.exchange.workspace, keys=(call.exchange.key,))
    found = find_limits(read_used, [with_this_key], request.created_at, credits).records()
    rows = {row["limit"]: row for row in found}
    if not call.exchange.workspace.budgets:
        return [rows[limit.kind] for limit in request.limits]
    return [
        make_limit_record(request.workspace, limit, read_used(limit, request.workspace, request.key_id))
        if limit.kind == "budget_cap"
        else rows[limit.kind] | {"budget": None, "value": None}
        for limit in request.limits
    ]


def _send(call: Call, explained: ExplainedAttempt, sent: UpstreamAttempt, given: Mapping[str, Any]) -> None:
    call.exchange = call.exchange.dispatch()
    explained.following = tuple(find_following(call, sent))
    model = explained.target.model
    explained.body = json.loads(sent.request.content)
    explained.url = None if model.provider.builtin else sent.request.url
    explained.caps.sent = sent.sanitized.body.get(model.family.cap_field)
    explained.is_native = None if call.api is CHAT else sent.native is not None
    explained.fields = (
        native_fields(call.chat, sent)
        if sent.native
        else (*explained_fields(given, sent.sanitized, explained.target), *untranslated_fields(call))
    )


def _error_instead(first: ExplainedAttempt, second: ExplainedAttempt, now: datetime) -> ErrorAnswer | None:
    """Return the error that the client gets where ``first`` failed and ``second`` is refused.

    None: it gets the failure of ``first``.
    """
    if second.refused and second.refused.answer is INTERNAL_ERROR:
        return INTERNAL_ERROR
    if second.denial is None:
        return None
    refusal = find_refusal_after_failure(second.denial, first.target, second.target, now)
    return refusal_error(refusal) if refusal else None


@contextmanager
def _step(step: Step) -> Iterator[None]:
    """Turn an exception of a step into the error that ``calls.call.serve`` would answer."""
    try:
        yield
    except Refusal as refusal:
        raise _Stopped(Refused(step, refusal_error(refusal))) from refusal
    except StoreUnavailable as error:
        raise _Stopped(Refused(step, LIMITS_UNAVAILABLE, str(error))) from error
    except Exception as error:
        raise _Stopped(Refused(step, INTERNAL_ERROR, f"{type(error).__name__}: {error}")) from error


def _head(content: bytes) -> RequestHead:
    length = ("content-length", str(len(content)))
    return RequestHead("POST", Endpoint.CHAT.value, "1.1", Headers([length]))


def _begin(call: Call) -> Explanation:
    workspace, limits = call.exchange.workspace, call.settings.conf.limits
    limit_rpm = rpm_of(workspace, limits.standard_rpm, limits.pro_rpm)
    return Explanation(
        limit_rpm, workspace.overage_protection, workspace.tpm, call.exchange.key.tpm, call.api.NAME
    )

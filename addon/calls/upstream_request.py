"""From a request body to an upstream request, and from an upstream's head to the reader of its answer. No I/O.

Only what is built here goes upstream: no header and no unknown field of the client's request is among it.
"""

from dataclasses import replace
from datetime import datetime

from addon.answers.context import source_of
from addon.answers.readers import Broken, ErrorRelay, Guarded, Inflated, Relay
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.chat_request import ChatRequest
from addon.calls.dropped_fields import dropped_header, dropped_in
from addon.calls.reviewing import reviewed_call
from addon.dialects import DIALECTS
from addon.dialects.http_request import UpstreamRequest
from addon.store.protocol import HoldRequest
from addon.text.errors import upstream_garbage
from addon.text.http_heads import ResponseHead
from addon.text.masking import bookable
from addon.text.retry_after import parse_retry_advice
from policies.completion_cap import completion_cap
from policies.exchange import Stage
from policies.limits import limits_of
from policies.model import Attempt, Route
from policies.refusal import Refusal
from policies.request_facts import request_facts
from policies.review import review
from policies.routing import choose_route
from policies.sanitize import Sanitized, choices_sent, sanitize
from policies.spend import NOT_METERED, Hold, Want, wanted


def accept_request(call: Call, chat: ChatRequest) -> None:
    """Note what the body of a chat request asks for."""
    call.request = chat
    call.exchange = call.exchange.note(
        requested_model=bookable(chat.model), end_user=bookable(chat.end_user), stream=chat.stream
    )


def find_route(call: Call) -> Route:
    """Return the route of a call. Raises Refusal ``bad_request``, ``invalid_state`` or ``byok_required``."""
    workspace, _ = call.exchange.caller
    asked = request_facts(call.chat.model, call.chat.fields)
    route = choose_route(asked, workspace, call.settings.models, call.settings.providers)
    _check_custom_name(route.attempts[0].model.slug, call)
    return route


def accept_route(call: Call, route: Route) -> None:
    """Let the call go this way."""
    call.exchange = call.exchange.advance(Stage.ROUTED, route=route)


def _check_custom_name(slug: str, call: Call) -> None:
    """Raise Refusal where a name from outside the catalog holds a key: it would go upstream and into the ledger."""
    if slug not in call.settings.models and slug != call.exchange.requested_model:
        raise Refusal(
            "bad_request",
            "The name of the model holds what looks like a credential; have the model added to the catalog.",
            "model",
        )


def reviewed_cap(call: Call) -> tuple[int | None, int | None]:
    """Ask the operators' policies about the next attempt; return their cap on its completion, and the one that applies.

    Both are in tokens, None for no limit. Raises Refusal, or PolicyFailed where a policy fails.
    """
    policies = call.settings.policies
    narrowed_tokens = review(reviewed_call(call), policies) if policies else None
    return narrowed_tokens, completion_cap(call.chat.requested_cap, narrowed_tokens)


def hold_request(call: Call, cap_tokens: int | None) -> HoldRequest:
    """Return what the next attempt of a reviewed call wants held, and under which limits it stands."""
    exchange, attempt, created_at = call.exchange, call.exchange.next_attempt, call.exchange.created_at
    workspace, key = exchange.caller
    return HoldRequest(
        id=exchange.id,
        created_at=created_at,
        workspace=workspace.id,
        key_id=key.id,
        want=_want(call, attempt, cap_tokens, is_protected=workspace.overage_protection),
        limits=limits_of(workspace, key, attempt.mode, created_at),
        interrupted_row=exchange.interrupted_row(),
    )


def _want(call: Call, attempt: Attempt, cap_tokens: int | None, *, is_protected: bool) -> Want:
    model = attempt.model
    if attempt.mode != "payg":
        return NOT_METERED
    if model.max_completion_tokens is None:
        raise RuntimeError(f"call {call.exchange.id}: a metered model is one of the catalog")
    sendable = call.chat.sendable(model.family)
    return wanted(
        model.retail,
        prompt_tokens=call.chat.prompt_tokens(model.family),
        cap_tokens=completion_cap(cap_tokens, model.max_completion_tokens),
        choices=choices_sent(sendable, model.family),
        is_protected=is_protected,
        names_cap=call.chat.requested_cap is not None,
        uncapped_tokens=model.family.uncapped_completion_tokens,
    )


def make_attempt(call: Call, chosen: Attempt, cap_tokens: int | None, hold: Hold) -> UpstreamAttempt:
    """Return the next attempt of a call, ready to be sent; its hold was placed, and ``chosen`` names its key.

    Raises Refusal ``validation_failed`` for what its model can't be sent.
    """
    chat, target = call.chat, call.exchange.next_attempt
    budget_tokens = hold.cap_tokens if target.mode == "payg" else None
    cap = completion_cap(cap_tokens, target.model.max_completion_tokens, budget_tokens)
    sendable = chat.sendable(target.model.family)
    sanitized = sanitize(sendable, target.model, cap, chat.stream)
    request = DIALECTS[target.model.provider.dialect].request(target, sanitized.body)
    dropped = _dropped(chat, sendable, sanitized, request)
    if chat.large is not None:
        request = replace(request, content=chat.large.restore(request.content))
    return UpstreamAttempt(target, chosen, hold, cap_tokens, sanitized, request, dropped)


def _dropped(
    chat: ChatRequest, sendable: dict[str, object], sanitized: Sanitized, request: UpstreamRequest
) -> str | None:
    given = chat.fields.keys() | chat.extras.keys()
    return dropped_header(given, sendable, dropped_in(sanitized.changes), request.left_out)


def note_head(call: Call, attempt: UpstreamAttempt, head: ResponseHead, now: datetime) -> Relay:
    """Take note of the head of an answer; return the reader of the rest."""
    attempt.status, attempt.retry_after = head.status, head.headers.get("retry-after")
    attempt.advice = parse_retry_advice(head.headers, now)
    attempt.reader = reader = _reader_of(call, attempt, head)
    return reader


def _reader_of(call: Call, attempt: UpstreamAttempt, head: ResponseHead) -> Relay:
    dialect = DIALECTS[attempt.target.model.provider.dialect]
    source = source_of(
        attempt.target,
        int(call.exchange.created_at.timestamp()),
        _choices_asked(call),
        call_id=call.exchange.id,
        include_usage=call.chat.include_usage,
    )
    reader: Relay
    if not 200 <= head.status < 300:
        reader = ErrorRelay(head.status, source)
    elif call.exchange.stream:
        reader = dialect.stream(source)
    else:
        reader = dialect.whole(source, call.settings.conf.upstream.max_response_bytes)
    encoding = head.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        reader = Inflated(reader)
    elif encoding not in ("identity", ""):
        unasked = upstream_garbage("it is compressed in a way that was not asked for.")
        reader = Broken(reader.give_up() or unasked)
    return Guarded(reader, attempt.target.secrets)


def _choices_asked(call: Call) -> int:
    family = call.exchange.attempt.model.family
    return choices_sent(call.chat.sendable(family), family)

"""From a chat request to an attempt that is ready to be sent. No I/O.

Each step is a function that live calls and ``tollgate explain`` share: route, operators' policies, hold, request. The
upstream request is built from nothing, so it has no header and no unknown field of the client's request.
"""

from datetime import datetime
from functools import cache, partial

from msgspec.structs import replace

from addon.apis.chat.request import SERVICE_TIER, ChatRequest
from addon.apis.chat_body import check_obstacle
from addon.apis.field_names import rename_in_refusal
from addon.calls.attempt import MadeRequest, UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dropped_fields import format_dropped_header, list_dropped
from addon.calls.native_request import find_native_dialect, make_native_request
from addon.calls.trace_fields import make_trace_fields
from addon.dialects import DIALECTS
from addon.text.masking import recordable
from addon.text.tags import recordable_tags
from addon.upstream.place_speeds import PlaceSpeeds
from policies.budgets import check_required
from policies.completion_cap import find_completion_cap, find_window_cap
from policies.dialect_choice import choose_dialect
from policies.field_change import FieldChange
from policies.key_models import restrict_route
from policies.money import compute_costs_nanousd
from policies.place_order import Measure, order_route
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.review import ReviewedCall, review, reviewed_messages
from policies.route import Route, Target
from policies.sanitize import Sanitized, sanitize
from policies.served_calls import check_serves
from policies.spend import Hold
from policies.token_limits import find_likely_tokens
from policies.usage import Usage


def accept_request(call: Call, chat: ChatRequest) -> None:
    """Note the request of a call, once its body is read and valid.

    Raises Refusal ``validation_failed`` where it lacks a field that a budget of its workspace requires.
    """
    note_request(call, chat)
    if budgets := call.exchange.workspace.budgets:
        try:
            check_required(budgets, call.exchange.end_user, call.exchange.tags)
        except Refusal as refusal:
            raise rename_in_refusal(refusal, call.api.FIELD_NAMES) from None


def note_request(call: Call, chat: ChatRequest) -> None:
    """Note the request of a call, and what its row and its log line have of it."""
    call.chat = chat
    model, end_user = chat.model, chat.end_user
    call.exchange = call.exchange.with_request(
        None if model is None else recordable(model),
        None if end_user is None else recordable(end_user),
        recordable_tags(chat.metadata) if chat.extras else None,
        stream=chat.stream,
    )


def find_route(call: Call, speeds: PlaceSpeeds | None = None) -> Route:
    """Return the route of a call, its places in the order of this call.

    ``speeds`` are those of this process, for models whose order is ``fastest``. Raises Refusal ``bad_request``,
    ``invalid_state`` or ``byok_required``.
    """
    chat, settings, key = call.chat, call.settings, call.exchange.key
    route = settings.routes.find(RequestFacts(chat.model, chat.fields), call.exchange.workspace)
    if route.targets[0].model.slug not in settings.models:
        _check_custom_name(route.targets[0].model.slug, call)
    if route.targets[0].model.serves != call.api.SERVES:
        check_serves(route, call.api.SERVES, settings.models)
    route = route if key.models is None else restrict_route(route, key)
    if not route.has_choice:
        return route
    measures: dict[str, Measure] = {"cheapest": partial(estimate_wholesale_nanousd, call)}
    if speeds:
        measures["fastest"] = speeds.make_measure(route.targets[0], stream=call.chat.stream)
    return order_route(route, call.find_affinity(), measures)


def estimate_wholesale_nanousd(call: Call, target: Target) -> int:
    """Return what a call would cost the platform at a place, with an answer as long as is likely for its cap."""
    chat, model = call.chat, target.at(call.exchange.created_at).model
    cap_tokens = find_completion_cap(chat.requested_cap, model.max_completion_tokens)
    tokens = find_likely_tokens(cap_tokens, chat.choices(model.family))
    usage = Usage(prompt_tokens=chat.prompt_tokens(model.family), completion_tokens=tokens)
    return compute_costs_nanousd(usage, (model.wholesale,), False)[0]


def accept_route(call: Call, route: Route) -> None:
    """Advance a call to ``ROUTED``."""
    call.exchange = call.exchange.with_route(route)


def _check_custom_name(slug: str, call: Call) -> None:
    """Raise Refusal for a name outside the catalog that contains a key. It would go upstream and into the ledger."""
    if slug != call.exchange.requested_model:
        raise Refusal(
            "bad_request",
            "The name of the model contains text that looks like a credential. Have the model added to the catalog.",
            "model",
        )


def prepare_next_target(call: Call, now: datetime) -> None:
    """Give the next attempt of a call the prices that hold ``now``, and the dialect that its fields need.

    Its money is held and charged at these prices.
    """
    target = call.exchange.next_target
    prepared = target.at(now)
    if (model := prepared.model).prefers_responses:
        prepared = choose_dialect(prepared, call.chat.sendable(model.family), call.api.NATIVE_DIALECT)
    if prepared is not target:
        call.exchange = call.exchange.with_next_target(prepared)


def ask_policies(call: Call) -> tuple[int | None, int | None]:
    """Ask operators' policies about the next attempt. Return their cap on its completion, and the cap that applies.

    Both are in tokens, None for no limit. Raises Refusal, or PolicyFailed where a policy fails.
    """
    requested_cap, policies = call.chat.requested_cap, call.settings.policies
    if not policies:
        return None, requested_cap
    policy_cap_tokens = review(make_reviewed_call(call), policies)
    return policy_cap_tokens, find_completion_cap(requested_cap, policy_cap_tokens)


def find_window_cap_of(call: Call, cap_tokens: int | None) -> int | None:
    """Return the cap that the window of the next attempt's model sets, as ``find_window_cap``."""
    chat, model = call.chat, call.exchange.next_target.model
    return find_window_cap(model, cap_tokens, chat.body_bytes, lambda: chat.prompt_tokens(model.family))


def make_reviewed_call(call: Call) -> ReviewedCall:
    """Return the next attempt of a routed call as operators' policies see it."""
    chat, exchange = call.chat, call.exchange
    target, workspace = exchange.next_target, exchange.workspace
    model = target.model
    messages = reviewed_messages(chat.fields["messages"])
    facts = RequestFacts(chat.model, chat.fields)
    return ReviewedCall(
        workspace=workspace.id,
        plan=workspace.plan,
        key_id=exchange.key.id,
        end_user=chat.end_user,
        requested_model=chat.model,
        model_slug=model.slug,
        provider=model.provider.name,
        mode=target.mode,
        is_fallback=target.is_fallback,
        decided_by=exchange.route.decided_by,
        stream=chat.stream,
        requested_cap_tokens=chat.requested_cap,
        choices=chat.choices(model.family),
        messages=messages,
        last_user_text=next((message.text for message in reversed(messages) if message.role == "user"), ""),
        has_images=facts.has_images,
        has_tools=facts.has_tools,
        wants_json=facts.wants_json,
        prompt_tokens=cache(partial(chat.prompt_tokens, model.family)),
    )


def make_attempt(call: Call, key_target: Target, cap_tokens: int | None, hold: Hold) -> UpstreamAttempt:
    """Return the next attempt of a call, whose ``hold`` is placed, ready to be sent.

    ``key_target`` is as for ``UpstreamAttempt``. Raises Refusal ``validation_failed`` for a field that the model does
    not accept, or that can't go through chat.
    """
    chat, target = call.chat, call.exchange.next_target
    model = target.model
    budget_tokens = hold.cap_tokens if target.mode == "payg" else None
    cap = find_completion_cap(cap_tokens, model.max_completion_tokens, budget_tokens)
    dialect = None if chat.native is None else find_native_dialect(call, model)
    made = make_native_request(call, dialect, cap) if dialect else _make_chat_request(call, cap)
    request, prompt_tokens, prepared = made.request, 0, None
    if chat.native is not None and dialect is None:
        prompt_tokens, prepared = chat.prompt_tokens(model.family), call.api.prepare(chat.native.body)
    if chat.large is not None:
        request = replace(request, content=chat.large.restore(request.content))
    return UpstreamAttempt(
        target,
        key_target,
        hold,
        cap_tokens,
        made.sanitized,
        request,
        made.dropped,
        made.streams,
        made.native,
        trace_fields=make_trace_fields(call.exchange) if call.exchange.trace else b"",
        prompt_tokens=prompt_tokens,
        prepared=prepared,
    )


def _make_chat_request(call: Call, cap: int | None) -> MadeRequest:
    """Return the request of a call that goes through chat, with the names of what is not in it."""
    chat, target = call.chat, call.exchange.next_target
    model = target.model
    if chat.native is not None:
        check_obstacle(chat.obstacle)
    sendable = chat.sendable_to(model)
    taken_by = model.without_reasoning_details if call.is_without_reasoning else model
    try:
        sanitized = _with_service_tier(sanitize(sendable, taken_by, cap, chat.stream), chat, target)
        request = DIALECTS[model.dialect].request(target, sanitized.body)
    except Refusal as refusal:
        if chat.native is None:
            raise
        raise rename_in_refusal(refusal, call.api.FIELD_NAMES, chat.sources) from None
    dropped = None
    has_all = len(sendable) == len(chat.fields) + len(chat.extras) and not chat.untranslated
    if request.unsent_fields or not sanitized.is_plain or not has_all:
        given = chat.fields.keys() | chat.extras.keys()
        reports = list_dropped(sanitized.changes), request.unsent_fields
        dropped = format_dropped_header(
            given, sendable, *reports, untranslated=chat.untranslated, names=call.api.FIELD_NAMES
        )
    return MadeRequest(sanitized, request, dropped, "stream" in sanitized.body)


def _with_service_tier(sanitized: Sanitized, chat: ChatRequest, target: Target) -> Sanitized:
    """Return the body with the service tier of the provider, where the client's is not in it."""
    tier, provider = chat.service_tier(target), target.model.provider
    if tier is None or SERVICE_TIER in sanitized.body:
        return sanitized
    change = FieldChange(
        SERVICE_TIER,
        "replaced" if chat.extras.get(SERVICE_TIER) is not None else "set",
        f"{provider.name} is asked for this service where no other one with a price is asked for",
        f"providers.toml [{provider.name}] service_tier",
    )
    return replace(
        sanitized,
        body={**sanitized.body, SERVICE_TIER: tier},
        list_changes=lambda: (*sanitized.changes, change),
    )

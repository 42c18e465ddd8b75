"""The request to a provider that speaks the client's API: the body goes as the client wrote it. No I/O."""

from functools import partial

from msgspec.structs import replace

from addon.apis.chat.request import SERVICE_TIER
from addon.calls.attempt import MadeRequest
from addon.calls.call_state import Call
from addon.calls.dropped_fields import format_dropped_header
from addon.dialects import NATIVE_DIALECTS
from addon.dialects.native_request import NativeDialect, NativeRequest
from policies.field_change import FieldChange
from policies.hosted_tools import find_search_bound
from policies.model import Model
from policies.sanitize import Sanitized


def find_native_dialect(call: Call, model: Model) -> NativeDialect | None:
    """Return the dialect that speaks the API of a call at the place of ``model``, None where it goes through chat."""
    name = call.api.NATIVE_DIALECT
    return NATIVE_DIALECTS[name] if name is not None and name == model.dialect else None


def find_hosted_tools(call: Call, model: Model) -> frozenset[str]:
    """Return the tools of its provider that may run in a call: those with a price that its workspace allows."""
    return model.hosted_tools & call.exchange.workspace.hosted_tools


def find_max_searches(call: Call, model: Model) -> int:
    """Return how many searches the provider of ``model`` may charge for in a call."""
    native = call.chat.native
    if not model.hosted_tools or native is None or find_native_dialect(call, model) is None:
        return model.max_unasked_searches
    return find_search_bound(native.body, find_hosted_tools(call, model), model.max_searches)


def make_native_request(call: Call, dialect: NativeDialect, cap_tokens: int | None) -> MadeRequest:
    """Return a request whose body is the client's own, but for the fields that are the gateway's to set.

    ``cap_tokens`` is what is sent. Raises Refusal ``validation_failed``.
    """
    chat, target, streams = call.chat, call.exchange.next_target, call.exchange.stream
    if chat.native is None:
        raise RuntimeError(f"call {call.exchange.id}: it has no request of its own API")
    tier, asked_tier = chat.service_tier(target), chat.extras.get(SERVICE_TIER)
    given = _with_own_service_tier(chat.native, tier)
    if call.is_without_reasoning:
        given = replace(given, has_foreign_reasoning=True)
    request = dialect.request(
        target, given, cap_tokens, streams=streams, hosted_tools=find_hosted_tools(call, target.model)
    )
    unsent = request.unsent_fields if asked_tier in (None, tier) else (*request.unsent_fields, SERVICE_TIER)
    sanitized = Sanitized(
        {target.model.family.cap_field: cap_tokens},
        partial(_list_native_changes, unsent, call.api.NAME),
    )
    dropped = format_dropped_header((), (), untranslated=unsent)
    return MadeRequest(sanitized, request, dropped, streams, dialect)


def _with_own_service_tier(native: NativeRequest, tier: str | None) -> NativeRequest:
    """Return the request with the service tier whose price is held, without one where it is the account's."""
    body = {name: value for name, value in native.body.items() if name != SERVICE_TIER}
    return replace(native, body=body if tier is None else {**body, SERVICE_TIER: tier})


def _list_native_changes(unsent: tuple[str, ...], api: str) -> tuple[FieldChange, ...]:
    reason = "the provider speaks the client's API, but does not know the field, or may not get it"
    return tuple(FieldChange(name, "dropped", reason, f"docs/apis-{api}.md") for name in unsent)

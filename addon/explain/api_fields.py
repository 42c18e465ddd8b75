"""What becomes of the fields of a request in another API than chat."""

from collections.abc import Mapping
from typing import Any

from addon.apis.chat.request import ChatRequest
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import CHAT, Call
from addon.text.json_decode import decode_object
from policies.field_change import FieldChange
from policies.sanitize import name_model_change


def find_given(call: Call, content: bytes) -> Mapping[str, Any]:
    """Return the fields that a chat request has: those of the body, or of its translation."""
    if call.api is CHAT:
        return decode_object(content)
    return {**call.chat.fields, **call.chat.extras}


def native_fields(chat: ChatRequest, sent: UpstreamAttempt) -> tuple[FieldChange, ...]:
    """Return what becomes of each field of a body that goes to a provider as its client wrote it."""
    left_out = {change.field.partition(".")[0] for change in sent.sanitized.changes}
    given = chat.native.body if chat.native else {}
    reason = "the provider speaks the client's API"
    named = left_out | {"model"}
    kept = [FieldChange(name, "kept", reason, "docs/ARCHITECTURE.md") for name in given if name not in named]
    return (name_model_change(sent.target.model), *kept, *sent.sanitized.changes)


def untranslated_fields(call: Call) -> list[FieldChange]:
    """Return the fields of the client's API that a chat request can't carry."""
    page = f"docs/apis-{call.api.NAME}.md"
    reason = "a chat request, through which it goes to this provider, can't carry it"
    return [FieldChange(name, "dropped", reason, page) for name in call.chat.untranslated]

"""One ledger row in words. Pure.

Texts of others are in the sentences as they are: the template shows them without control characters.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from addon.text.error_meanings import explain_error

_FINISH: Final = {
    "stop": "The model ended its answer by itself.",
    "length": "The answer reached its completion cap, or the model's own limit.",
    "tool_calls": "The model asked for tools.",
    "function_call": "The model asked for a function.",
    "content_filter": "The provider's filter cut the answer off.",
}
_COUNTED: Final = {
    "provider": "The provider reported the tokens.",
    "estimated": "The provider did not report all tokens. The gateway estimated the rest.",
    "none": "No tokens were counted, so the call costs nothing.",
}
_MODES: Final = {
    "payg": "The call had the platform's key. The workspace pays the retail price.",
    "byok": "The call had the customer's own key. The customer pays the provider, so the cost is 0 here.",
}


def describe_route(call: Mapping[str, Any]) -> Iterator[str]:
    """Return sentences about the model, the key and the attempts."""
    asked, slug = call["requested_model"], call["model_slug"]
    if asked is None:
        yield f"The request named no model. The workspace's routing chose {slug}."
    elif asked.strip().lower() == slug.lower():
        yield f"The client asked for {slug}."
    else:
        yield f"The client asked for {asked}. The workspace's routing, or a fallback, chose {slug}."
    yield _MODES[call["mode"]]
    yield _describe_attempts(call["attempts"], bool(call["fallback"]))


def _describe_attempts(attempts: int, is_fallback: bool) -> str:
    if is_fallback and attempts == 1:
        return "The gateway skipped a failing provider. The fallback answered."
    if is_fallback:
        return "The first attempt failed. The fallback answered."
    if attempts > 1:
        return f"{attempts} attempts were made. No answer of a fallback reached the client."
    return "One attempt was made."


def describe_end(call: Mapping[str, Any]) -> Iterator[str]:
    """Return sentences about how the call ended."""
    if call["error_code"] is not None:
        yield f"{call['error_code']}: {explain_error(call['error_code'])}"
    elif call["status"] < 400:
        yield "The client got its whole answer."
    if call["finish_reason"] is not None:
        reason = call["finish_reason"]
        yield f"{reason}: {_FINISH.get(reason, 'the reason to end, as the provider wrote it.')}"
    yield _COUNTED[call["usage_source"]]

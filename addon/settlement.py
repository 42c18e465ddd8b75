"""What a call cost: the provider's counts where there are any, else an estimate of what was relayed.

Decided from the call alone: no I/O, no clock.
"""

from dataclasses import replace
from typing import Any

from addon.call import Call
from addon.chat import ChatRequest
from addon.exchange import UsageSource
from addon.mask import bookable
from policies.caps import completion_cap
from policies.estimate import estimate_completion_tokens
from policies.facts import Usage
from policies.money import cost_nanousd
from policies.sanitize import choices_sent

OK = 200


def outcome(call: Call) -> dict[str, Any]:
    """Return the fields of the exchange that are known once the answer, or its failure, is final."""
    usage, source = _usage(call)
    model = call.exchange.attempt.model
    beside = model.family.reasoning_beside_completion
    secrets = call.exchange.attempt.secrets
    metered = call.exchange.attempt.mode == "payg"
    return {
        "first_byte_s": call.first_byte_s,
        "finish_reason": bookable(call.relay.finish_reason, secrets) if call.relay else None,
        "usage": usage,
        "usage_source": source,
        "wholesale_nanousd": cost_nanousd(usage, model.wholesale, beside) if metered else 0,
        "retail_nanousd": cost_nanousd(usage, model.retail, beside) if metered else 0,
    }


def _usage(call: Call) -> tuple[Usage, UsageSource]:
    """A provider's zero stays zero, where its answer ended; what it never counted is estimated; nothing relayed is
    nothing used."""
    relay = call.relay
    if relay is None:
        return Usage(), "none"
    counted = relay.usage or Usage()
    # Some report nought in every chunk until the last, which a client that left early never let come.
    is_counted = _has_output(counted) if call.exchange.status == OK else bool(counted.completion_tokens)
    if is_counted or (relay.usage and not relay.relayed_text_chars):
        return counted, "provider"
    if not relay.relayed_text_chars or call.request is None:
        return Usage(), "none"
    family = call.exchange.attempt.model.family
    estimator = family.estimator
    prompt_tokens = counted.prompt_tokens
    if prompt_tokens is None:
        prompt_tokens = call.request.prompt_tokens(family)
    estimate = estimate_completion_tokens(relay.relayed_text_chars, estimator)
    # What is billed beside the completion is under the same cap.
    beside_tokens = counted.reasoning_tokens or 0 if family.reasoning_beside_completion else 0
    most_tokens = _most_tokens(call, call.request)
    completion_tokens = (
        estimate if most_tokens is None else min(estimate, max(most_tokens - beside_tokens, 0))
    )
    total_tokens = prompt_tokens + completion_tokens + beside_tokens
    return replace(
        counted,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=total_tokens,
    ), "estimated"


def _has_output(counted: Usage) -> bool:
    """Tell whether a provider said how much its whole answer is, if only in its total."""
    return counted.completion_tokens is not None or counted.total_tokens is not None


def _most_tokens(call: Call, request: ChatRequest) -> int | None:
    """All that the answer may have had, None where nothing bounds it: an estimate is no reason to bill more."""
    model = call.exchange.attempt.model
    cap_tokens = completion_cap(call.cap_tokens, model.max_completion_tokens)
    if call.exchange.hold and call.exchange.attempt.mode == "payg":
        cap_tokens = call.exchange.hold.cap_tokens
    if cap_tokens is None:
        return None
    each_tokens = cap_tokens + model.family.uncapped_completion_tokens
    return each_tokens * choices_sent(request.fields, model.family)

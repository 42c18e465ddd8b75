"""The usage and the cost of a call: the provider's counts where it sent any, else an estimate of what was relayed.

Decided from the call alone: no I/O, no clock. Source: docs/limits.md, "Calls that end early".
"""

from typing import Final

from msgspec.structs import replace

from addon.answers.normalize.finish_reason import STANDARD_WORDS
from addon.answers.reader import AnswerReader
from addon.calls.call_state import Call
from addon.text.masking import recordable
from policies.completion_cap import find_completion_cap
from policies.estimate import estimate_completion_tokens, estimate_unseen_tokens
from policies.exchange import CLIENT_DISCONNECTED, Outcome, UsageSource
from policies.money import compute_call_costs_nanousd, compute_costs_nanousd, limit_estimate
from policies.plausible_usage import FACTOR, keep_plausible
from policies.prices import NORMAL_SERVICE_TIERS
from policies.usage import Usage

OK = 200
NOTHING: Final = Usage()


def compute_outcome(call: Call, reader: AnswerReader | None, counted: Usage, now_s: float) -> Outcome:
    """Return what a call used and cost, once its answer, or its failure, is final.

    ``reader`` is the one of the answer that the client gets, and ``counted`` are its plausible counts. ``now_s`` is a
    reading of the clock of ``exchange.started_s``.
    """
    target = call.exchange.target
    usage, source = _usage(call, reader, counted, now_s)
    costs_nanousd = [0, 0]
    if target.mode == "payg":
        costs_nanousd = compute_call_costs_nanousd(usage, target.model.price_set)
    finish_reason = reader.finish_reason if reader else None
    if finish_reason not in STANDARD_WORDS:  # A provider's own word may hold any text.
        finish_reason = recordable(finish_reason, target.secrets)
    return Outcome(usage, source, costs_nanousd[0], costs_nanousd[1], finish_reason, call.first_byte_s)


def read_plausible_usage(call: Call, reader: AnswerReader | None) -> tuple[Usage, tuple[str, ...]]:
    """Return the provider's counts that are plausible, and the names of those that are not."""
    if reader is None or (reported := reader.usage) is None:
        return NOTHING, ()
    model = call.exchange.target.model
    counted, implausible = keep_plausible(
        reported, model, lambda: call.chat.choices(model.family), lambda: _prompt_tokens(call)
    )
    is_charged = model.cost == "reported" and call.exchange.target.mode == "payg"
    if is_charged and _is_reported_too_high(call, counted.reported_nanousd or 0):
        return replace(counted, reported_nanousd=None), (*implausible, "reported_nanousd")
    return counted, implausible


def _is_reported_too_high(call: Call, reported_nanousd: int) -> bool:
    """Return whether a reported cost is more than ten times the hold. The provider's own counts do not matter."""
    model, hold = call.exchange.target.model, call.exchange.hold
    if hold is None:
        return True
    most_nanousd = hold.amount_nanousd
    if not call.exchange.workspace.overage_protection:  # Then only the prompt is held.
        capped = Usage(completion_tokens=hold.cap_tokens * call.chat.choices(model.family))
        most_nanousd += compute_costs_nanousd(capped, (model.retail,), False)[0]
    return reported_nanousd > FACTOR * most_nanousd


def find_unpriced_service_tier(call: Call, usage: Usage) -> str | None:
    """Return the service tier that a metered answer names, where the catalog has no price of it, fit for a log."""
    target, tier = call.exchange.target, usage.service_tier
    is_usual = tier is None or tier in NORMAL_SERVICE_TIERS
    if is_usual or target.mode != "payg" or target.model.wholesale.find_service_tier(tier) is not None:
        return None
    return recordable(tier, target.secrets)


def _usage(
    call: Call, reader: AnswerReader | None, counted: Usage, now_s: float
) -> tuple[Usage, UsageSource]:
    """Return the usage of a call, and where it comes from.

    A provider's zero stays zero where its answer ended. Tokens that it never counted are estimated. An error, or a call
    without any answer, used nothing.
    """
    is_final = reader is not None and (call.exchange.status == OK or reader.is_done)
    if not is_final and call.exchange.error_code == CLIENT_DISCONNECTED:
        return _usage_after_leaving(call, counted, now_s)
    if reader is None:
        return NOTHING, "none"
    # Some report zero in every chunk but the last one, and a stream that was cut has no last one.
    if is_final:  # Some count their whole answer only in the total.
        is_counted = counted.completion_tokens is not None or counted.total_tokens is not None
    else:
        is_counted = bool(counted.completion_tokens)
    if is_counted or (_has_counts(reader.usage) and not reader.relayed_text_chars):
        return _with_prompt(call, counted)
    if not reader.relayed_text_chars:
        return NOTHING, "none"
    return _estimated(call, counted, _relayed_tokens(call))


def _has_counts(reported: Usage | None) -> bool:
    return reported is not None and replace(reported, service_tier=None) != NOTHING


def _usage_after_leaving(call: Call, counted: Usage, now_s: float) -> tuple[Usage, UsageSource]:
    """Return the usage of a call whose client left, and whose answer was not read to its end."""
    attempt, reader = call.attempt, call.reader
    if not attempt.is_sent:
        return NOTHING, "none"
    has_failed = attempt.failure or (reader and (reader.failure or reader.error_so_far()))
    if has_failed and not (reader and reader.relayed_text_chars):
        return NOTHING, "none"
    tokens = max(_relayed_tokens(call), _unseen_tokens(call, now_s))
    if reader and reader.has_finished and counted.completion_tokens:
        return _with_prompt(call, counted)
    if counted.completion_tokens and counted.completion_tokens >= tokens:
        return _with_prompt(call, counted)
    return _estimated(call, counted, tokens)


def _with_prompt(call: Call, counted: Usage) -> tuple[Usage, UsageSource]:
    """Return the counts, with a prompt if the provider counted only the completion.

    A missing prompt count must not make the prompt free.
    """
    if counted.prompt_tokens is not None or counted.completion_tokens is None:
        return counted, "provider"
    separate_tokens = _separate_reasoning_tokens(call, counted)
    output_tokens = counted.completion_tokens + separate_tokens
    if counted.total_tokens is not None and counted.total_tokens >= output_tokens:
        return replace(counted, prompt_tokens=counted.total_tokens - output_tokens), "provider"
    prompt_tokens = _billed_prompt_tokens(call, counted)
    total_tokens = prompt_tokens + output_tokens
    # A reported cost is that of the reported counts.
    estimate = replace(counted, prompt_tokens=prompt_tokens, total_tokens=total_tokens, reported_nanousd=None)
    return estimate, "estimated"


def _estimated(call: Call, counted: Usage, tokens: int) -> tuple[Usage, UsageSource]:
    """Return the counts, with ``tokens`` of completion, but at most the cap of the call."""
    prompt_tokens = counted.prompt_tokens
    if prompt_tokens is None:
        prompt_tokens = _billed_prompt_tokens(call, counted)
    # Reasoning that is billed separately is under the same cap.
    separate_tokens = _separate_reasoning_tokens(call, counted)
    most_tokens = _most_tokens(call)
    if most_tokens is not None:
        tokens = min(tokens, max(most_tokens - separate_tokens, 0))
    total_tokens = prompt_tokens + tokens + separate_tokens
    estimate = replace(
        counted,
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        total_tokens=total_tokens,
        reported_nanousd=None,  # It was the cost of what had come until then.
    )
    return estimate, "estimated"


def _prompt_tokens(call: Call) -> int:
    return call.chat.prompt_tokens(call.exchange.target.model.family)


def _billed_prompt_tokens(call: Call, counted: Usage) -> int:
    """Return the estimate of a prompt that the provider did not count."""
    target, tokens = call.exchange.target, _prompt_tokens(call)
    if target.mode != "payg":
        return tokens
    return limit_estimate(tokens, target.model.wholesale.of_service(counted.service_tier))


def _relayed_tokens(call: Call) -> int:
    chars = call.reader.relayed_text_chars if call.reader else 0
    return estimate_completion_tokens(chars, call.exchange.target.model.family.estimator)


def _unseen_tokens(call: Call, now_s: float) -> int:
    """Return the hidden reasoning tokens that may have been generated since the head of the answer.

    There are none without a head, nor for a call that the gateway cut off.
    """
    head_s = call.attempt.head_s
    if head_s is None or call.has_stalled_client:
        return 0
    return estimate_unseen_tokens(call.exchange.target.model.family, now_s - head_s)


def _separate_reasoning_tokens(call: Call, counted: Usage) -> int:
    is_separate = call.exchange.target.model.family.reasoning_beside_completion
    return counted.reasoning_tokens or 0 if is_separate else 0


def _most_tokens(call: Call) -> int | None:
    """Return the most tokens that the answer may have, None where nothing bounds it. An estimate never bills more."""
    model = call.exchange.target.model
    cap_tokens = find_completion_cap(call.attempt.cap_tokens, model.max_completion_tokens)
    if call.exchange.hold and call.exchange.target.mode == "payg":
        cap_tokens = call.exchange.hold.cap_tokens
    if cap_tokens is None:
        return None
    each_tokens = cap_tokens + model.family.uncapped_completion_tokens
    return each_tokens * call.chat.choices(model.family)

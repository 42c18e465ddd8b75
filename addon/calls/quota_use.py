"""What the attempts of a call take of the quotas of places. A call has the use of one attempt at most.

It begins when the target of an attempt is chosen, in one step with the look whether its place is full. It ends with the
attempt, when another one begins, or with the call: so all is given back on every path. A place without a quota costs
nothing of this.
"""

from addon.calls.call_state import Call
from addon.calls.hold_request import estimate_tokens
from addon.calls.output_medians import OutputMedians
from addon.runtime.heavy_work import run_heavy_work
from addon.upstream.place_quotas import PlaceQuotas
from policies.call_stages import Stage
from policies.token_limits import count_tokens


async def estimate_for_quotas(call: Call, medians: OutputMedians) -> None:
    """Estimate once how many tokens an attempt of a routed call likely uses, if any place has a limit of them."""
    route = call.exchange.route
    for target in (*route.targets, *route.long_prompt_targets):
        model = target.model
        if model.quota is not None and model.quota.tpm is not None:
            typical_tokens = medians.find(model.slug)
            cap_tokens, body_bytes = call.chat.requested_cap, call.chat.body_bytes
            call.quota_tokens = await run_heavy_work(
                body_bytes, estimate_tokens, call, model, cap_tokens, typical_tokens
            )
            return


def begin_quota_use(call: Call, quotas: PlaceQuotas) -> None:
    """Take what the next attempt of a call likely uses of its place. That of another attempt ends."""
    if call.quota_use is not None:
        end_quota_use(call)
    call.quota_use = quotas.take(call.exchange.next_target, call.quota_tokens)


def end_quota_use(call: Call) -> None:
    """End the use of a call, if it has one: it was not sent, its attempt has failed, or the call is settled."""
    use, call.quota_use = call.quota_use, None
    if use is None:
        return
    if use.is_dispatched and call.attempt.is_sent:
        use.end(_find_used_tokens(call))
    else:
        use.cancel()


def _find_used_tokens(call: Call) -> int | None:
    """Return the tokens of the last attempt, None where nobody knows. One that its vendor refused used none."""
    status, exchange = call.attempt.status, call.exchange
    if status is not None and status >= 300:
        return 0
    if exchange.stage is not Stage.SETTLED or exchange.usage_source == "none":
        return None
    usage = exchange.usage
    return count_tokens(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)

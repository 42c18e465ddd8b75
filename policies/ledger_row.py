"""The row of the ledger that a call has in the end, and the one that is kept while it runs. Pure.

Source: docs/ledger.md.
"""

from typing import Any, Final

from msgspec.structs import replace

from policies.attempt_ends import ATTEMPT_ENDS
from policies.exchange import CLIENT_CLOSED_REQUEST, INTERRUPTED, Exchange
from policies.utc_time import format_utc

PRICE_SET_CONTENT: Final = "price_set_content"
"""What a ledger row carries to the table ``prices``. So a row can be priced wherever it is written."""


def make_interrupted_row(exchange: Exchange) -> dict[str, Any]:
    """Return the row of a call if its process ends during the next attempt. It costs nothing."""
    interrupted = replace(
        exchange,
        attempts=exchange.attempts + 1,
        target=exchange.next_target,
        status=CLIENT_CLOSED_REQUEST,
        error_code=INTERRUPTED,
        hold=None,
    )
    if exchange.attempts:
        interrupted = interrupted.with_attempt_end(CLIENT_CLOSED_REQUEST, INTERRUPTED, 0)
    return make_ledger_row(interrupted, exchange.started_s)


def make_ledger_row(exchange: Exchange, now_s: float) -> dict[str, Any]:
    """Return the row of the ``usage`` table, the content of its price set, and its attempts.

    ``now_s`` is of the same clock as ``started_s``.
    """
    target, usage, first_byte_s = exchange.target, exchange.usage, exchange.first_byte_s
    model, started_s = target.model, exchange.started_s
    # A customer's own key is charged by the customer's provider: no price of ours applies.
    prices = model.price_set if target.mode == "payg" else None
    return {
        "id": exchange.id,
        "created_at": format_utc(exchange.created_at),
        "workspace": exchange.workspace.id,
        "key_id": exchange.key.id,
        "requested_model": exchange.requested_model,
        "model_slug": model.slug,
        "provider": model.provider.name,
        "upstream_model_id": model.upstream_model_id,
        "mode": target.mode,
        "fallback": int(target.is_fallback and exchange.was_served_by_fallback),
        "attempts": exchange.attempts,
        "stream": int(exchange.stream),
        "status": exchange.status,
        "error_code": exchange.error_code,
        "finish_reason": exchange.finish_reason,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_source": exchange.usage_source,
        "wholesale_nanousd": exchange.wholesale_nanousd,
        "retail_nanousd": exchange.retail_nanousd,
        "first_byte_ms": None if first_byte_s is None else round((first_byte_s - started_s) * 1000),
        "duration_ms": round((now_s - started_s) * 1000),
        "end_user": exchange.end_user,
        "cache_write_tokens": usage.cache_write_tokens,
        "client_request_id": exchange.client_request_id,
        "resends": exchange.resends,
        "reported_nanousd": usage.reported_nanousd,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "audio_input_tokens": usage.audio_input_tokens,
        "cached_audio_tokens": usage.cached_audio_tokens,
        "image_input_tokens": usage.image_input_tokens,
        "audio_output_tokens": usage.audio_output_tokens,
        "searches": usage.searches,
        "service_tier": usage.service_tier,
        "price_set": prices and prices.hash,
        "platform_key": target.platform_key,
        "tags": exchange.tags,
        "deployment": model.deployment,
        "budgets": exchange.hold and exchange.hold.budgets,
        "api": exchange.api,
        PRICE_SET_CONTENT: prices and prices.content,
        ATTEMPT_ENDS: exchange.attempt_ends if exchange.attempts > 1 else None,
    }

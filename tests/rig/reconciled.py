"""Ledgers that agree with the samples of vendors' exports, and their comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from addon.reconcile.causes import ROUNDING
from addon.reconcile.comparison import Catalog, Comparison, compare
from addon.reconcile.export_line import Export, Tokens
from addon.reconcile.ledger_call import LedgerCall, ModelPrices
from addon.reconcile.plan import make_plan
from addon.reconcile.vendor_sums import compute_nanousd
from rig.vendor_exports import SAMPLES_READ

# The prices that the samples are made with, in micro-USD per million tokens.
PRICES = {
    "gpt-5.6-terra": Tokens(2_000_000, 200_000, 2_500_000, 12_000_000),
    "gpt-5.4": Tokens(2_500_000, 250_000, 2_500_000, 15_000_000),
    "claude-sonnet-5-5": Tokens(2_000_000, 100_000, 2_500_000, 10_000_000),
    "claude-haiku-5-5": Tokens(100_000, 10_000, 125_000, 500_000),
    "gemini-3.8-flash": Tokens(750_000, 75_000, 750_000, 3_750_000),
    "nousresearch/hermes-4-405b": Tokens(1_000_000, 200_000, 1_000_000, 3_000_000),
    "deepseek-flash": Tokens(300_000, 6_000, 300_000, 1_200_000),
}


def call(model: str, tokens: Tokens, cost_nanousd: int | None = None, **changes: Any) -> LedgerCall:
    """Return a call of 2026-10-14 at the prices of its model."""
    facts: dict[str, Any] = {
        "created_at": "2026-10-14T17:00:00.000+00:00",
        "duration_ms": 1_000,
        "model_slug": f"our-{model}",
        "upstream_model_id": model,
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "cached_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "reasoning_tokens": None,
        "usage_source": "provider",
        "status": 200,
        "error_code": None,
        "resends": 0,
        "wholesale_nanousd": compute_nanousd(tokens, PRICES[model]) if cost_nanousd is None else cost_nanousd,
    }
    return LedgerCall(**facts | changes)


TERRA_A = call("gpt-5.6-terra", Tokens(1_200_000, 800_000, 200_000, 150_000))
TERRA_B = call("gpt-5.6-terra", Tokens(50_000, 0, 0, 10_000), 440_000_000)
LONG = call("gpt-5.4", Tokens(300_000, 0, 0, 1_000), 1_522_500_000)
SONNET = call("claude-sonnet-5-5", Tokens(1_500_000, 2_000_000, 400_000, 200_000), 6_350_000_000)
HAIKU = call("claude-haiku-5-5", Tokens(150_000, 0, 0, 2_000), 80_000_000)
FLASH = [
    call("gemini-3.8-flash", Tokens(1_000_000, 400_000, 0, 120_000)),
    call("gemini-3.8-flash", Tokens(0, 0, 0, 8_000), 15_000_000),
]
HERMES = [
    call("nousresearch/hermes-4-405b", Tokens(1_000, 0, 0, 200)),
    call("nousresearch/hermes-4-405b", Tokens(400, 500, 0, 0)),
]
DEEPSEEK = [call("deepseek-flash", Tokens(2_000, 1_000, 0, 500))]

_VENDORS: Mapping[str, Sequence[LedgerCall]] = {
    "openai": [TERRA_A, TERRA_B, LONG],
    "anthropic": [SONNET, HAIKU],
    "google": FLASH,
    "openrouter": HERMES,
    "deepseek": DEEPSEEK,
}
LEDGERS = {name: _VENDORS[name.partition("_")[0]] for name in SAMPLES_READ}


def compared(
    calls: Sequence[LedgerCall],
    *exports: Export,
    month: str | None = None,
    keys: Sequence[str] | Mapping[str, int | None] = (),
    **more: Any,
) -> Comparison:
    prices = {f"our-{model}": ModelPrices(base) for model, base in PRICES.items()} | more.get("prices", {})
    places = {model: f"our-{model}" for model in PRICES}
    plan = make_plan(exports, month, keys if isinstance(keys, Mapping) else dict.fromkeys(keys))
    catalog = Catalog(prices, places, more.get("sets", {}))
    return compare(exports, calls, plan, catalog, more.get("aliases", {}), more.get("attempts", ()))


def causes_of(comparison: Comparison) -> dict[str, int]:
    return {cause: amount for cause, (amount, _) in comparison.sum_causes().items()}


def without_rounding(comparison: Comparison) -> dict[str, int]:
    return {cause: amount for cause, amount in causes_of(comparison).items() if cause != ROUNDING}

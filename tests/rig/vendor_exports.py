"""The samples of vendors' exports in ``tests/unit/reconcile/samples``, and what is in each."""

from addon.reconcile.export_line import Export, Tokens
from addon.reconcile.formats import read_export
from addon.reconcile.mapped_export import parse_mapping
from rig.configuration import ROOT

SAMPLES = ROOT / "tests" / "unit" / "reconcile" / "samples"
_AMOUNT = """
[columns]
day = "start_time_iso"
model = "model"
key = "api_key_name"
kind = "type"
amount = "amount"
unit_price_usd = "price"
[kinds]
request_count = "requests"
input_cache_hit_tokens = "cached_input"
input_cache_miss_tokens = "input"
output_tokens = "output"
"""
_COST = """
[columns]
day = "start_time_iso"
model = "model"
cost_usd = "cost"
currency = "currency"
"""
MAPPING_TEXTS = {"deepseek_amount.csv": _AMOUNT, "deepseek_cost.csv": _COST}
MAPPINGS = {name: parse_mapping(text) for name, text in MAPPING_TEXTS.items()}


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def read(name: str) -> Export:
    return read_export(sample(name), MAPPINGS.get(name))


_OPENAI = Tokens(1_550_000, 800_000, 200_000, 161_000)
_ANTHROPIC = Tokens(1_650_000, 2_000_000, 400_000, 202_000)
_GOOGLE = Tokens(1_000_000, 400_000, 0, 128_000)
_ROUTED = Tokens(1_900, 0, 0, 200)
_NO_TOKENS = Tokens()

# The format, the nano-USD, the tokens and the calls of each sample.
SAMPLES_READ = {
    "openai_usage_completions.json": ("OpenAI usage (JSON)", 0, _OPENAI, 433),
    "openai_completions_usage.csv": ("OpenAI usage (CSV)", 0, _OPENAI, 433),
    "openai_costs.json": ("OpenAI costs (JSON)", 6_822_500_000, _OPENAI, 0),
    "openai_cost.csv": ("OpenAI costs (CSV)", 6_822_500_000, _OPENAI, 0),
    "anthropic_usage_messages.json": ("Anthropic usage report (JSON)", 0, _ANTHROPIC, 0),
    "anthropic_tokens.csv": ("Anthropic usage (CSV)", 0, _ANTHROPIC, 0),
    "anthropic_cost_report.json": ("Anthropic cost report (JSON)", 6_550_000_000, _NO_TOKENS, 0),
    "anthropic_cost.csv": ("Anthropic costs (CSV)", 6_440_000_000, _NO_TOKENS, 0),
    "google_cost_table.csv": ("Google cost table (CSV)", 1_245_000_000, _GOOGLE, 0),
    "google_reports.csv": ("Google report (CSV)", 1_245_000_000, _GOOGLE, 0),
    "openrouter_activity.json": ("OpenRouter activity (JSON)", 2_100_000, _ROUTED, 2),
    "openrouter_activity_by_day.csv": ("OpenRouter activity (CSV)", 2_100_000, _ROUTED, 2),
    "openrouter_activity.csv": ("OpenRouter generations (CSV)", 2_100_000, Tokens(1_400, 500, 0, 200), 2),
    "deepseek_amount.csv": ("mapped columns", 1_206_000, Tokens(2_000, 1_000, 0, 500), 3),
    "deepseek_cost.csv": ("mapped columns", 1_206_000, _NO_TOKENS, 0),
}

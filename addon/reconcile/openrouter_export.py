"""OpenRouter: the activity by day, of its API and as CSV, and the CSV of each generation. Pure.

Days are UTC. Source: openrouter.ai/docs/api/api-reference/analytics/get-user-activity.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from addon.reconcile.export_line import ExportLine, Tokens, name_tier
from addon.reconcile.records import Record

ACTIVITY_JSON: Final = frozenset({"date", "model", "usage", "prompt_tokens"})
ACTIVITY_CSV: Final = frozenset({"Date", "Slug", "Usage", "Prompt Tokens"})
GENERATIONS: Final = frozenset({"generation_id", "created_at", "cost_total", "model_permaslug"})


def read_activity(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the activity of each day. It does not say which tokens were cached."""
    for record in records:
        yield ExportLine(
            record.day("date", "Date"),
            record.text("model", "Slug") or None,
            tokens=Tokens(
                input=record.count("prompt_tokens", "Prompt Tokens"),
                output=record.count("completion_tokens", "Completion Tokens"),
            ),
            cost_nanousd=record.amount("usage", "Usage"),
            requests=record.count("requests", "Requests"),
            splits_input=False,
        )


def read_generations(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield each generation. Reasoning is part of the completion."""
    for record in records:
        prompt = record.count("tokens_prompt")
        cached = min(record.count("tokens_cached"), prompt)
        yield ExportLine(
            record.day("created_at"),
            record.text("model_permaslug") or None,
            record.text("api_key_name") or None,
            name_tier(record.text("variant")),
            tokens=Tokens(
                input=prompt - cached, cached_input=cached, output=record.count("tokens_completion")
            ),
            cost_nanousd=record.amount("cost_total"),
            requests=1,
            splits_input="tokens_cached" in record.values,
        )

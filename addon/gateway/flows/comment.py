"""The comment of a call's flow: its workspace, model, tokens and cost. Pure."""

from collections.abc import Iterable

from policies.exchange import Exchange
from policies.money import format_nanousd


def comment_of(exchange: Exchange, notes: Iterable[str]) -> str:
    """Return the comment of a call that has ended: workspace, slug, provider, tokens, cost, error code, ``notes``.

    Parts that are not known are left out. There are no labels, because mitmweb's list shows only some words.
    """
    return ", ".join([*_parties(exchange), *_outcome(exchange), *notes])


def _parties(exchange: Exchange) -> Iterable[str]:
    if exchange.workspace:
        yield exchange.workspace.id
    if exchange.route:
        yield exchange.attempt.model.slug
    if exchange.was_sent_upstream:
        yield exchange.attempt.model.provider.name


def _outcome(exchange: Exchange) -> Iterable[str]:
    if exchange.was_sent_upstream:
        yield _tokens(exchange)
        yield f"{format_nanousd(exchange.retail_nanousd)} USD"
    if exchange.error_code:
        yield f"error {exchange.error_code}"


def _tokens(exchange: Exchange) -> str:
    usage = exchange.usage
    if exchange.usage_source == "none" or usage.total_tokens is None:
        return "no tokens counted"
    parts = f"{usage.prompt_tokens or 0} in, {usage.completion_tokens or 0} out"
    estimated = ", estimated" if exchange.usage_source == "estimated" else ""
    return f"{usage.total_tokens} tokens ({parts}{estimated})"

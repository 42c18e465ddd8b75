"""The lines of a request's head that carry the client's trace to a provider. No I/O."""

from policies.exchange import Exchange
from policies.trace_context import make_span_id


def make_trace_fields(exchange: Exchange) -> bytes:
    """Return the lines of the next attempt's head that carry the client's trace. Each attempt is a span of its own."""
    if exchange.trace is None or "traceparent" in exchange.next_target.model.provider.headers:
        return b""
    return exchange.trace.sent_fields(make_span_id(exchange.id, exchange.attempts + 1))

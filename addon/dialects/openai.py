"""The OpenAI chat-completion shape, which most providers accept. Pure."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from addon.relay import ErrorRelay, Relay, WholeRelay
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt


def request(attempt: Attempt, body: dict[str, object]) -> UpstreamRequest:
    """``POST {base_url}/chat/completions`` with the attempt's own key."""
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    headers = (
        ("authorization", f"Bearer {attempt.secret.get_secret_value()}"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if body.get("stream") else "application/json"),
        # A compressed answer could not be read event by event.
        ("accept-encoding", "identity"),
        ("user-agent", "tollgate"),
    )
    return UpstreamRequest(f"{attempt.model.provider.base_url}/chat/completions", headers, content)


def stream(attempt: Attempt) -> Relay:
    """Server-sent events whose model is rewritten."""
    return StreamRelay(attempt.model.slug, _names(attempt), secrets=_secrets(attempt))


def whole(attempt: Attempt, max_bytes: int) -> Relay:
    """One JSON object whose model is rewritten."""
    return WholeRelay(attempt.model.slug, _names(attempt), _secrets(attempt), max_bytes)


def error(attempt: Attempt, status: int) -> Relay:
    """Any body at all."""
    return ErrorRelay(status, _names(attempt), _secrets(attempt))


def _names(attempt: Attempt) -> Mapping[str, str]:
    """The vendor's own name for the model, which the client knows by its slug alone."""
    return MappingProxyType({attempt.model.upstream_model_id: attempt.model.slug})


def _secrets(attempt: Attempt) -> tuple[str, ...]:
    return (attempt.secret.get_secret_value(),)

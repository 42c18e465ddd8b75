"""The log line of a call as JSON. It never has a body, a header or a key."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quote

from addon.text.masking import mask_credentials
from policies.exchange import Exchange
from policies.utc_time import format_utc

_CALL_LINE = (
    '{"time": "%s", "level": "info", "logger": "tollgate.call", "message": "%s"%s, "id": %s, "workspace": %s, '
    '"key_id": %s, "api": "%s", "slug": %s, "provider": %s, "deployment": %s, "mode": %s, "platform_key": %s, '
    '"decided_by": %s, "attempts": %s, "attempt_ends": %s, "resends": %s, "fallback": %s, "status": %s, '
    '"error_code": %s, "stream": %s, "finish_reason": %s, "prompt_tokens": %s, "completion_tokens": %s, '
    '"first_byte_ms": %s, "duration_ms": %s, "client_request_id": %s, "trace_id": %s, "parent_span_id": %s, '
    '"span_id": %s, "event": "%s"}'
)


def format_call_line(exchange: Exchange, now_s: float, event: str, first_fields: str) -> str:
    """Return the line of a call, as ``JsonFormatter`` makes it of the same fields, in a tenth of its time."""
    workspace, key, route, usage = exchange.workspace, exchange.key, exchange.route, exchange.usage
    target = exchange.target if route else None
    started_s, first_byte_s = exchange.started_s, exchange.first_byte_s
    trace, client_request_id = exchange.trace, exchange.client_request_id
    span_id = exchange.span_id if trace else None
    return _CALL_LINE % (
        format_utc(datetime.now(UTC)),
        event,
        first_fields,
        _quote(exchange.id),
        _show(workspace.id if workspace else None),
        _show(key.id if key else None),
        exchange.api,
        _show(target.model.slug if target else None),
        _show(target.model.provider.name if target else None),
        _show(target.model.deployment if target else None),
        _show(target.mode if target else None),
        "null" if target is None or target.platform_key is None else target.platform_key,
        _show(route.decided_by if route else None),
        exchange.attempts,
        "null" if exchange.attempts < 2 else _format_attempts(exchange),
        exchange.resends,
        "true" if target and target.is_fallback and exchange.was_served_by_fallback else "false",
        "null" if exchange.status is None else exchange.status,
        _show(exchange.error_code),
        "true" if exchange.stream else "false",
        _show(exchange.finish_reason),
        "null" if usage.prompt_tokens is None else usage.prompt_tokens,
        "null" if usage.completion_tokens is None else usage.completion_tokens,
        "null" if first_byte_s is None else round((first_byte_s - started_s) * 1000, 3),
        round((now_s - started_s) * 1000, 3),
        # Each call has its own ids, so they are not kept by ``_show``.
        "null" if client_request_id is None else _quote(mask_credentials(client_request_id)),
        f'"{trace.trace_id}"' if trace else "null",
        f'"{trace.parent_span_id}"' if trace else "null",
        f'"{span_id}"' if span_id else "null",
        event,
    )


def _format_attempts(exchange: Exchange) -> str:
    shown = [
        {
            "place": mask_credentials(end.deployment),
            "platform_key": end.platform_key,
            "status": end.status,
            "duration_ms": end.duration_ms,
        }
        for end in exchange.attempt_ends
    ]
    return json.dumps(shown)


@lru_cache(maxsize=4096)
def _show(text: str | None) -> str:
    """Return a text as JSON, without a credential. Most calls have the texts of earlier ones."""
    return "null" if text is None else _quote(mask_credentials(text))

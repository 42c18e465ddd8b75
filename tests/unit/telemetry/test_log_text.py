"""A log line for people has what the JSON says, and nothing that controls their terminal."""

import json
from typing import Any

import pytest

from addon.telemetry.log_text import format_line

HEAD = {
    "time": "2026-01-31T12:00:00.000+00:00",
    "level": "info",
    "logger": "tollgate.call",
    "message": "call",
}
CALL = HEAD | {
    **{"id": "req-1", "workspace": "acme", "key_id": "ci", "slug": "gpt", "fallback": False, "status": 200},
    **{"error_code": None, "prompt_tokens": 9, "completion_tokens": 12, "duration_ms": 31.4, "event": "call"},
}
STRANGER = CALL | dict.fromkeys(("workspace", "key_id", "slug", "prompt_tokens", "completion_tokens"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (CALL, "12:00:00 200 acme/ci gpt 9+12 tokens 0.03 s (id req-1)"),
        (
            CALL | {"fallback": True, "prompt_tokens": None, "worker": 2},
            "12:00:00 [worker 2] 200 acme/ci gpt (fallback) 0+12 tokens 0.03 s (id req-1)",
        ),
        (
            STRANGER
            | {"event": "refusal", "status": 404, "error_code": "not_found", "method": "GET", "path": "/v2"},
            "12:00:00 404 GET /v2 not_found 0.03 s (id req-1)",
        ),
        (
            HEAD | {"level": "warning", "message": "no key", "event": "settings warning"},
            "12:00:00 warning no key",
        ),
        (HEAD | {"message": "withheld", "source": "loop:7"}, "12:00:00 withheld (source loop:7)"),
        (HEAD | {"message": "a\nb\x1b[2J", "id": "req-1"}, r"12:00:00 a\nb\x1b[2J (id req-1)"),
        (
            HEAD | {"level": "error", "message": "failed", "exception": "Traceback\n  x"},
            "12:00:00 error failed\nTraceback\n  x",
        ),
    ],
)
def test_a_line_for_people(line: dict[str, Any], text: str) -> None:
    assert format_line(json.loads(json.dumps(line))) == text

"""An error as clients of the Responses API get it: the contract's object, or the end of a stream. Pure.

In a stream OpenAI sends ``error`` and then ``response.failed``. Some clients read the one, some the other.
Source: OpenAI, "Streaming events" (error, response.failed); recorded streams.
"""

from dataclasses import replace
from typing import Any, Final

from addon.apis.responses.events import EventLog
from addon.apis.responses.response import ResponseForm
from addon.apis.writer import WriterContext
from addon.text.errors import ErrorAnswer
from addon.text.retry_after import MAX_SDK_WAIT_S

# The codes that the SDK's types allow in a failed response.
_RATE_LIMIT: Final = "rate_limit_exceeded"
_SERVER_ERROR: Final = "server_error"
_INVALID_REQUEST: Final = "invalid_prompt"


def advise(error: ErrorAnswer) -> ErrorAnswer:
    """Return an error without a long wait: Codex sleeps until a budget resets, and says nothing."""
    if (error.retry_after_s or 0) <= MAX_SDK_WAIT_S:
        return error
    return replace(error, retry_after_s=None, should_retry=False)


def error_body(error: ErrorAnswer, _request_id: str) -> bytes:
    """Return the nested error object of the contract."""
    return error.body()


def error_event(
    error: ErrorAnswer, request_id: str, context: WriterContext | None, events_sent: int
) -> bytes:
    """Return the end of a stream in which ``events_sent`` events were sent: the error, and the failed response.

    A stream without events begins as each stream does. Without ``context`` the response repeats nothing of its request.
    """
    form = ResponseForm(context or WriterContext(request_id, "", 0, 0, {}))
    log = EventLog()
    log.sent = events_sent
    begun = b""
    if not events_sent:
        response = form.encode("in_progress")
        begun = b"".join(
            [log.add_response(f"response.{kind}", response) for kind in ("created", "in_progress")]
        )
    said: dict[str, Any] = {"code": error.code, "message": error.message, "param": error.param}
    # The published schema has the members of the error in the event, the recorded streams in an object.
    event = log.add("error", **said, error={**said, "type": error.type})
    failed = form.encode("failed", error={"code": _failure_code(error), "message": error.message})
    return begun + event + log.add_response("response.failed", failed)


def _failure_code(error: ErrorAnswer) -> str:
    if error.status == 429:
        return _RATE_LIMIT
    return _INVALID_REQUEST if error.status < 500 else _SERVER_ERROR

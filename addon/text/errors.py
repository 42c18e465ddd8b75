"""Every failure's face: the only place that knows which status and type an error code has.

Source: contract, "Errors". What a provider says is never passed on as it stands: ``from_upstream`` takes the
human-readable sentence out of it, without credentials, control characters or upstream model ids. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Literal
from urllib.parse import unquote

from addon.text.masking import mask_credentials, mask_fragments
from addon.text.provider_error import Found, read_body, read_payload
from policies.refusal import Refusal, RefusalCode

ErrorType = Literal[
    "invalid_request_error", "authentication_error", "permission_denied", "rate_limit_error", "api_error"
]

MAX_MESSAGE_CHARS = 2_000
# More than any masking makes short enough to be shown.
MAX_READ_CHARS = 65_536
MAX_PARAM_CHARS = 200
# Soft hyphens, zero-width spaces and joiners, directions, byte order marks.
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_STANDARD_STATUSES = frozenset(status.value for status in HTTPStatus)
NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """One error as the client sees it. ``message`` bears no secret. Source: contract, "Errors".

    ``retry_after_s`` and ``should_retry`` are as those of ``Refusal``; they become headers.
    """

    status: int
    type: ErrorType
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    should_retry: bool | None = None

    def body(self) -> bytes:
        """Return ``{"error": {"message", "type", "param", "code"}}`` as JSON on one line, in UTF-8."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")

    def sse_event(self) -> bytes:
        """Return the same error as one event of a stream that has already begun."""
        return b"data: " + self.body() + b"\n\n"


# Source: contract, "Gateway-generated errors"; from 404 to 431 beyond it: docs/errors.md.
REFUSALS: Mapping[RefusalCode, tuple[int, ErrorType]] = MappingProxyType(
    {
        "bad_request": (400, "invalid_request_error"),
        "invalid_state": (400, "invalid_request_error"),
        "validation_failed": (400, "invalid_request_error"),
        "invalid_api_key": (401, "authentication_error"),
        "payment_required": (402, "invalid_request_error"),
        "byok_required": (403, "permission_denied"),
        "not_found": (404, "invalid_request_error"),
        "model_not_found": (404, "invalid_request_error"),
        "method_not_allowed": (405, "invalid_request_error"),
        "request_timeout": (408, "invalid_request_error"),
        "request_too_large": (413, "invalid_request_error"),
        "unsupported_media_type": (415, "invalid_request_error"),
        "request_header_fields_too_large": (431, "invalid_request_error"),
        "rate_limit_exceeded": (429, "rate_limit_error"),
        "internal_error": (500, "api_error"),
        "rate_limit_unavailable": (503, "api_error"),
    }
)

# Source: contract, "Normalized upstream errors".
UPSTREAM: Mapping[int, tuple[ErrorType, str]] = MappingProxyType(
    {
        401: ("authentication_error", "invalid_api_key"),
        403: ("permission_denied", "permission_denied"),
        404: ("invalid_request_error", "model_not_found"),
        429: ("rate_limit_error", "rate_limit_exceeded"),
    }
)

SERVER_ERROR: tuple[ErrorType, str] = ("api_error", "upstream_error")  # every 5xx
REQUEST_ERROR: tuple[ErrorType, str] = ("invalid_request_error", "invalid_request_error")  # every other 4xx

INTERNAL = ErrorAnswer(500, "api_error", "internal_error", "The gateway failed to handle this request.")


def from_refusal(refusal: Refusal) -> ErrorAnswer:
    """Return the answer to a call that the gateway itself turned down. An ``internal_error`` tells nothing."""
    if refusal.code == "internal_error":
        return INTERNAL
    status, type_ = REFUSALS[refusal.code]
    return ErrorAnswer(
        status,
        type_,
        refusal.code,
        _one_line(refusal.message),
        refusal.param,
        refusal.retry_after_s,
        refusal.should_retry,
    )


def from_upstream(
    status: int, body: bytes, names: Mapping[str, str] = NO_NAMES, secrets: Sequence[str] = ()
) -> ErrorAnswer:
    """Return the normalized form of a provider's non-success answer, whatever its body.

    ``names`` maps upstream model ids to catalog slugs; ``secrets`` are the credentials that the call was made with.
    """
    return _normalized(status, read_body(body), names, secrets)


def from_upstream_payload(
    payload: object, names: Mapping[str, str] = NO_NAMES, secrets: Sequence[str] = ()
) -> ErrorAnswer:
    """Return the normalized form of an error that came inside a success, decoded from JSON.

    Its status is the standard one that the payload itself states as an integer, else 502.
    """
    return _normalized(_stated_status(payload) or 502, read_payload(payload), names, secrets)


def unreachable() -> ErrorAnswer:
    """No connection to the provider, or one that broke before its answer began."""
    return _upstream_error(502, "The provider could not be reached.")


def no_access_token() -> ErrorAnswer:
    """The provider wants an access token for the account that it is called with, and none could be had."""
    return _upstream_error(502, "No access token for the provider could be had.")


def timed_out() -> ErrorAnswer:
    """The provider was silent for longer than it may be."""
    return _upstream_error(504, "The provider did not answer in time.")


def upstream_garbage(reason: str) -> ErrorAnswer:
    """A success that is no chat completion; ``reason`` says why, in the gateway's own words."""
    return _upstream_error(502, f"The provider's answer could not be understood: {reason}")


def stream_interrupted() -> ErrorAnswer:
    """The provider ended a stream before the answer was complete."""
    return _upstream_error(502, "The provider's stream ended before the answer was complete.")


def is_error_payload(payload: object) -> bool:
    """Tell whether a decoded success body, or chunk of a stream, is in truth an error.

    An ``error`` beside ``choices`` counts, unless it is null or empty; the flat shapes count only without choices.
    """
    if isinstance(payload, list):
        return any(isinstance(item, dict) and bool(item.get("error")) for item in payload)
    if not isinstance(payload, dict):
        return False
    if payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error":
        return True
    if isinstance(payload.get("choices"), list):
        return False
    flat = any(payload.get(key) for key in ("detail", "fault", "errors"))
    return flat or isinstance(payload.get("message"), str)


def _upstream_error(status: int, message: str) -> ErrorAnswer:
    return ErrorAnswer(status, *SERVER_ERROR, _bounded(_one_line(message), MAX_MESSAGE_CHARS))


def _normalized(
    status: int, found: Found | None, names: Mapping[str, str], secrets: Sequence[str]
) -> ErrorAnswer:
    message = _shown(found.message, names, secrets) if found else ""
    message = message or f"The provider reported an error (status {status}) without a readable explanation."
    param = _shown(found.param, names, secrets) if found and found.param else ""
    if not _is_standard_error(status):
        status = 502
    type_, code = UPSTREAM.get(status) or (SERVER_ERROR if status >= 500 else REQUEST_ERROR)
    bounded_param = _bounded(param, MAX_PARAM_CHARS) or None
    return ErrorAnswer(status, type_, code, _bounded(message, MAX_MESSAGE_CHARS), bounded_param)


def _is_standard_error(status: int) -> bool:
    return status >= 400 and status in _STANDARD_STATUSES


def _stated_status(payload: object) -> int | None:
    """Return the standard status that a payload states; an inner ``error`` knows better than its wrapper."""
    outer = payload[0] if isinstance(payload, list) and payload else payload
    inner = outer.get("error") if isinstance(outer, dict) else None
    nodes = [node for node in (inner, outer) if isinstance(node, dict)]
    stated = [node.get(key) for node in nodes for key in ("code", "status", "status_code")]
    return next((value for value in stated if isinstance(value, int) and _is_standard_error(value)), None)


def _shown(text: str, names: Mapping[str, str], secrets: Sequence[str]) -> str:
    text = _one_line(text[:MAX_READ_CHARS])
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = mask_fragments(text, secret)
        if "%" in text and (hidden := mask_fragments(unquote(text), secret)) != unquote(text):
            text = hidden
    return _renamed(mask_credentials(text), names)


def _one_line(text: str) -> str:
    """Return ``text`` on one line, white space collapsed, without control characters and what no reader sees."""
    text = _UNSEEN.sub("", text.encode("utf-8", "replace").decode())
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Replace upstream model ids that stand as whole tokens: ``gpt-4`` is not found in ``gpt-4.1`` or ``gpt-4-x``."""
    if not names:
        return text
    ids = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.@-])(?:{ids})(?!\w|[-./:@]\w)", lambda match: names[match[0]], text)


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


LIMITS_UNAVAILABLE = from_refusal(
    Refusal(
        "rate_limit_unavailable",
        "Limits can't be checked at the moment, so no call is let through; try again shortly.",
    )
)
NO_CONNECTION_FREE = from_refusal(
    Refusal(
        "rate_limit_unavailable",
        "All connections to the provider that may be open are in use; try again in a moment.",
        retry_after_s=1,
    )
)

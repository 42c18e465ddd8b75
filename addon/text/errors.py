"""Every error as the client sees it: the only place that knows the status and the type of each error code.

A provider's own error is never passed on unchanged. ``upstream_error`` takes the readable message out of it, without
credentials, control characters or upstream model ids. Source: contract, "Errors". Pure.
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
from addon.text.provider_error import FoundMessage, find_in_body, find_in_payload
from policies.refusal import Refusal, RefusalCode

ErrorType = Literal[
    "invalid_request_error", "authentication_error", "permission_denied", "rate_limit_error", "api_error"
]

MAX_MESSAGE_CHARS = 2_000
# A longer text can't fit, even after masking.
MAX_READ_CHARS = 65_536
MAX_PARAM_CHARS = 200
# Soft hyphens, zero-width spaces and joiners, directions, byte order marks.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_STANDARD_STATUSES = frozenset(status.value for status in HTTPStatus)
NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """One error as the client sees it. ``message`` holds no secret. Source: contract, "Errors".

    ``retry_after_s`` and ``should_retry`` are those of ``Refusal``; they become headers.
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


# Source: contract, "Gateway-generated errors"; docs/errors.md for the ones that the contract does not list.
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
UPSTREAM_ERRORS: Mapping[int, tuple[ErrorType, str]] = MappingProxyType(
    {
        401: ("authentication_error", "invalid_api_key"),
        403: ("permission_denied", "permission_denied"),
        404: ("invalid_request_error", "model_not_found"),
        429: ("rate_limit_error", "rate_limit_exceeded"),
    }
)

SERVER_ERROR: tuple[ErrorType, str] = ("api_error", "upstream_error")  # every 5xx
REQUEST_ERROR: tuple[ErrorType, str] = ("invalid_request_error", "invalid_request_error")  # every other 4xx

INTERNAL_ERROR = ErrorAnswer(500, "api_error", "internal_error", "The gateway failed to handle this request.")


def refusal_error(refusal: Refusal) -> ErrorAnswer:
    """Return the answer to a call that the gateway itself refused. An ``internal_error`` gives no details."""
    if refusal.code == "internal_error":
        return INTERNAL_ERROR
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


def upstream_error(
    status: int, body: bytes, names: Mapping[str, str] = NO_NAMES, secrets: Sequence[str] = ()
) -> ErrorAnswer:
    """Return the normalized form of a provider's error answer, whatever its body is.

    ``names`` maps upstream model ids to catalog slugs. ``secrets`` are the credentials of the call.
    """
    return _normalized(status, find_in_body(body), names, secrets)


def upstream_error_in_success(
    payload: object, names: Mapping[str, str] = NO_NAMES, secrets: Sequence[str] = ()
) -> ErrorAnswer:
    """Return the normalized form of an error that came in a success, decoded from JSON.

    Its status is the standard one in the payload (an integer), else 502.
    """
    return _normalized(_status_in(payload) or 502, find_in_payload(payload), names, secrets)


def provider_unreachable() -> ErrorAnswer:
    """Return the error of a connection to the provider that failed, or broke before the answer began."""
    return _provider_failure(502, "The provider could not be reached.")


def no_access_token() -> ErrorAnswer:
    """Return the error of a call whose provider requires an access token, when there is none."""
    return _provider_failure(502, "The gateway could not get an access token for the provider.")


def provider_timed_out() -> ErrorAnswer:
    """Return the error of a provider that was silent for too long."""
    return _provider_failure(504, "The provider did not answer in time.")


def unreadable_answer(reason: str) -> ErrorAnswer:
    """Return the error of a success that is not a chat completion; ``reason`` says why, in the gateway's words."""
    return _provider_failure(502, f"The provider's answer could not be understood: {reason}")


def stream_interrupted() -> ErrorAnswer:
    """Return the error of a stream that ended before the answer was complete."""
    return _provider_failure(502, "The provider's stream ended before the answer was complete.")


def is_error_payload(payload: object) -> bool:
    """Return whether a decoded success body, or a chunk of a stream, is an error.

    An ``error`` next to ``choices`` counts, unless it is null or empty. The flat shapes count only without choices.
    """
    if isinstance(payload, list):
        return any(isinstance(item, dict) and bool(item.get("error")) for item in payload)
    if not isinstance(payload, dict):
        return False
    if payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error":
        return True
    if isinstance(payload.get("choices"), list):
        return False
    is_flat = payload.get("detail") or payload.get("fault") or payload.get("errors")
    return bool(is_flat) or isinstance(payload.get("message"), str)


def _provider_failure(status: int, message: str) -> ErrorAnswer:
    return ErrorAnswer(status, *SERVER_ERROR, _shortened(_one_line(message), MAX_MESSAGE_CHARS))


def _normalized(
    status: int, found: FoundMessage | None, names: Mapping[str, str], secrets: Sequence[str]
) -> ErrorAnswer:
    message = _cleaned(found.message, names, secrets) if found else ""
    message = message or f"The provider reported an error (status {status}) without a readable explanation."
    param = _cleaned(found.param, names, secrets) if found and found.param else ""
    if not _is_standard_error(status):
        status = 502
    type_, code = UPSTREAM_ERRORS.get(status) or (SERVER_ERROR if status >= 500 else REQUEST_ERROR)
    short_param = _shortened(param, MAX_PARAM_CHARS) or None
    return ErrorAnswer(status, type_, code, _shortened(message, MAX_MESSAGE_CHARS), short_param)


def _is_standard_error(status: int) -> bool:
    return status >= 400 and status in _STANDARD_STATUSES


def _status_in(payload: object) -> int | None:
    """Return the standard status in a payload. The inner ``error`` comes before its wrapper."""
    outer = payload[0] if isinstance(payload, list) and payload else payload
    inner = outer.get("error") if isinstance(outer, dict) else None
    nodes = [node for node in (inner, outer) if isinstance(node, dict)]
    values = [node.get(key) for node in nodes for key in ("code", "status", "status_code")]
    return next((value for value in values if isinstance(value, int) and _is_standard_error(value)), None)


def _cleaned(text: str, names: Mapping[str, str], secrets: Sequence[str]) -> str:
    text = _one_line(text[:MAX_READ_CHARS])
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = mask_fragments(text, secret)
        if "%" in text and (hidden := mask_fragments(unquote(text), secret)) != unquote(text):
            text = hidden
    return _renamed(mask_credentials(text), names)


def _one_line(text: str) -> str:
    """Return ``text`` on one line, with single spaces, without control characters and invisible ones."""
    text = _INVISIBLE.sub("", text.encode("utf-8", "replace").decode())
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Replace upstream model ids that are whole tokens: ``gpt-4`` is not found in ``gpt-4.1`` or ``gpt-4-x``."""
    if not names:
        return text
    ids = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.@-])(?:{ids})(?!\w|[-./:@]\w)", lambda match: names[match[0]], text)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


LIMITS_UNAVAILABLE = refusal_error(
    Refusal(
        "rate_limit_unavailable",
        "Limits can't be checked at the moment, so no call is allowed; try again shortly.",
    )
)
NO_CONNECTION_FREE = refusal_error(
    Refusal(
        "rate_limit_unavailable",
        "The limit of connections to the provider is reached; try again in a moment.",
        retry_after_s=1,
    )
)

"""Errors as Anthropic words them. Pure.

The HTTP status is the contract's; the type says the same in the words that clients of this API know. Source: Anthropic,
API reference, "Errors"; ``types.shared`` of its Python SDK 2.12.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.text.errors import INTERNAL_ERROR, ErrorAnswer
from addon.text.json_encode import encode_json

TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        # The gateway is up, but its store or its connections fail for a moment: nothing is wrong with the request.
        # Clients know this type as one to wait for and ask again.
        503: "overloaded_error",
        504: "timeout_error",
    }
)
"""The type of each status. Other 4xx are as 400, other 5xx are ``api_error``."""
_CAUSES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    # The SDK's tool runners begin with a thread, and go on without one after this cause. Source: its Python SDK 2.14.
    {"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}}
)
"""The cause that clients know, by the field at fault."""


def error_type(status: int) -> str:
    """Return Anthropic's type for an error with this HTTP status."""
    return TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def error_body(error: ErrorAnswer, request_id: str) -> bytes:
    """Return the body of an error.

    The contract's code, and the field at fault, are in ``details``, where the API has the cause that programs read.
    """
    return _encode(error, error_type(error.status), request_id)


def error_event(error: ErrorAnswer, request_id: str) -> bytes:
    """Return the event of an error that ends a stream. Nothing follows it.

    The type alone says there whether another try may help. opencode ends the task for ``api_error``, and asks again for
    ``overloaded_error``.
    """
    kind = "overloaded_error" if error.status > INTERNAL_ERROR.status else error_type(error.status)
    return b"event: error\ndata: " + _encode(error, kind, request_id) + b"\n\n"


def _encode(error: ErrorAnswer, kind: str, request_id: str) -> bytes:
    details: dict[str, Any] = {"error_code": error.code}
    if error.param is not None:
        details |= {"param": error.param, **_CAUSES.get(error.param, {})}
    inner = {"type": kind, "message": error.message, "details": details}
    return encode_json({"type": "error", "error": inner, "request_id": request_id})

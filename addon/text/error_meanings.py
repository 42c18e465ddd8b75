"""The meaning of each error code of a recorded call, in a sentence for operators. Source: docs/errors.md. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_BY_CODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bad_request": "The request has no messages, or there is no route for its model.",
        "invalid_state": "The gateway was not set up to serve the model at that time.",
        "validation_failed": "The body was not valid JSON, or fields of it were wrong.",
        "invalid_api_key": "The provider refused the key that the gateway sent.",
        "permission_denied": "The provider does not allow this call with the key that the gateway sent.",
        "payment_required": "A call with the customer's own key failed, and no budget was left for the Safety Net.",
        "byok_required": "A call with the customer's own key failed, and the model is served with such a key only.",
        "not_found": "There is nothing at the path.",
        "model_not_found": "The provider does not know the model or the address.",
        "method_not_allowed": "The path is served, but not with this method.",
        "request_timeout": "The request did not arrive in time.",
        "request_too_large": "The body was larger than the gateway accepts.",
        "unsupported_media_type": "The body was not JSON in UTF-8, or it was compressed.",
        "request_header_fields_too_large": "The request line and the headers were too large.",
        "rate_limit_exceeded": "The provider had too many requests, or the quota of its key is used up.",
        "internal_error": "The gateway, or one of the operator's own policies, failed. The log has the cause.",
        "rate_limit_unavailable": "The gateway could not check limits, or had no connection to the provider free.",
        "upstream_error": "The provider failed, was silent for too long, or could not be reached.",
        "invalid_request_error": "The provider refused the request.",
        "client_disconnected": "The client left before its answer was whole.",
        "interrupted": "The gateway stopped, or was killed, before the call had ended.",
    }
)


def explain_error(code: str) -> str:
    """Return what an error code of a ledger row means, also of a code that only a policy or another version has."""
    return _BY_CODE.get(
        code, "A code of one of the operator's own policies, or of another version of Tollgate."
    )

"""The only way to say no: every refused call is a ``Refusal`` raised, and ``addon/text/errors.py`` gives it a face."""

from typing import Literal

RefusalCode = Literal[
    "bad_request",
    "invalid_state",
    "validation_failed",
    "invalid_api_key",
    "payment_required",
    "byok_required",
    "not_found",
    "model_not_found",
    "method_not_allowed",
    "request_timeout",
    "request_too_large",
    "unsupported_media_type",
    "request_header_fields_too_large",
    "rate_limit_exceeded",
    "internal_error",
    "rate_limit_unavailable",
]


class Refusal(Exception):  # noqa: N818  (a refusal is an answer, not a fault)
    """A call that the gateway itself turns down, before or instead of any upstream.

    ``code`` is the contract's ``error.code``; ``message`` is shown to the client, so it never bears a secret;
    ``param`` names the one request field at fault, where there is one. ``retry_after_s`` is how many seconds the same
    call should wait, ``should_retry`` whether it should be made again at all; None where that is not known.
    """

    def __init__(
        self,
        code: RefusalCode,
        message: str,
        param: str | None = None,
        *,
        retry_after_s: int | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry

"""``Refusal``: the only way to refuse a call. ``addon/text/errors.py`` makes the error object of it."""

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
    """A call that the gateway itself refuses, before or instead of any upstream request.

    | field | is |
    |---|---|
    | ``code`` | the contract's ``error.code`` |
    | ``message`` | shown to the client, so it never contains a secret |
    | ``param`` | the one request field at fault, if there is one |
    | ``retry_after_s`` | how many seconds the client should wait before it repeats the call; None if not known |
    | ``should_retry`` | whether repeating the call makes sense at all; None if not known |
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

    def copy(self) -> "Refusal":
        """Return an equal refusal, to raise instead of one that is kept: an exception collects frames at each raise."""
        return Refusal(
            self.code,
            self.message,
            self.param,
            retry_after_s=self.retry_after_s,
            should_retry=self.should_retry,
        )

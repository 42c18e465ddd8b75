"""``UpstreamAttempt``: all that is known of one attempt of a call, from its hold to how it ended. No I/O."""

from dataclasses import dataclass

from addon.answers.readers import Relay
from addon.dialects.http_request import UpstreamRequest
from addon.text.errors import ErrorAnswer
from addon.text.retry_after import NO_ADVICE, RetryAdvice
from policies.model import Attempt
from policies.sanitize import Sanitized
from policies.spend import Hold


@dataclass(slots=True)
class UpstreamAttempt:
    """One attempt. It can't be made without a hold, which is what lets it be sent.

    ``target`` has the secret that it is sent with, ``chosen`` the platform key whose turn it was, which an access token
    may stand in for. ``cap_tokens`` is what the client and operators' policies let its completion have, None for no
    limit. ``dropped`` is the value of ``X-Gateway-Dropped``.

    ``is_sent``: its request may have reached the provider. ``head_s`` is when its answer's head came, by the clock of
    ``Exchange.started_s``; ``reader``, ``status``, ``retry_after`` and ``advice`` are known from then on. ``failure``
    is how it ended, None where it did well. ``lagged``: this process failed by being late, and not the provider.
    """

    target: Attempt
    chosen: Attempt
    hold: Hold
    cap_tokens: int | None
    sanitized: Sanitized
    request: UpstreamRequest
    dropped: str | None
    is_sent: bool = False
    head_s: float | None = None
    reader: Relay | None = None
    status: int | None = None
    retry_after: str | None = None
    advice: RetryAdvice = NO_ADVICE
    failure: ErrorAnswer | None = None
    lagged: bool = False

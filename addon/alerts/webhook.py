"""The webhook: one signed POST for each attempt to send an event. No reason that it returns shows a part of the URL.

The answer must come within ``TIMEOUT_S``. Only its status is read. A redirect is not followed.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import os
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from addon import VERSION
from addon.settings.alert_target import AlertTarget
from addon.settings.egress_proxy import EgressProxy
from policies.utc_time import format_utc

if TYPE_CHECKING:
    import httpx

SIGNATURE_HEADER: Final = "X-Tollgate-Signature"
TIMEOUT_S: Final = 10.0
NO_ANSWER: Final = f"no answer within {TIMEOUT_S:g} s"
_HOST_MISMATCH: Final = 62  # X509_V_ERR_HOSTNAME_MISMATCH, whose text names the host.


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``answer`` is its status, or the reason why there is none.

    ``is_event_refused``: the receiver works, but does not take this event.
    """

    is_taken: bool
    answer: str
    duration_s: float
    is_event_refused: bool = False


class Webhook:
    """A client of one receiver. Making one reads the trusted authorities, so it is made in a thread."""

    def __init__(self, target: AlertTarget, proxy: EgressProxy | None, timeout_s: float = TIMEOUT_S) -> None:
        # Imported here: it takes a tenth of a second, and most processes send no alert.
        import httpx

        # At INFO it logs each URL, which mitmweb would show.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.made_of = target, proxy
        self._url = target.url.get_secret_value()
        self._timeout_s = timeout_s
        self._secret = target.secret.get_secret_value() if target.secret else None
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(),
            proxy=_make_proxy(proxy),
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30),
            headers={"User-Agent": f"tollgate/{VERSION}", "Content-Type": "application/json"},
        )

    async def send(self, packed: str, sent_at: datetime, attempt: int) -> Outcome:
        """Send an event once."""
        body = sent_body(packed, sent_at, attempt)
        headers = {SIGNATURE_HEADER: sign(body, self._secret)} if self._secret else {}
        began_s = time.perf_counter()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            reason = NO_ANSWER
        except Exception as error:  # noqa: BLE001  (any fault of a receiver: its words may quote the URL)
            reason = describe_failure(error)
        else:
            note = " (redirects are not followed)" if 300 <= status < 400 else ""
            return Outcome(
                is_taken=200 <= status < 300,
                answer=f"{status}{note}",
                duration_s=time.perf_counter() - began_s,
                is_event_refused=400 <= status < 500 and status not in (401, 403, 404, 407, 408, 429),
            )
        return Outcome(is_taken=False, answer=reason, duration_s=time.perf_counter() - began_s)

    async def close(self) -> None:
        with suppress(Exception):
            await self._client.aclose()


def sent_body(packed: str, sent_at: datetime, attempt: int) -> bytes:
    """Return the body of one attempt. It has the time of the attempt, so that a signature can't be used again later."""
    return json.dumps(json.loads(packed) | {"sent_at": format_utc(sent_at), "attempt": attempt}).encode()


def sign(body: bytes, secret: str) -> str:
    """Return the value of ``SIGNATURE_HEADER``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _make_proxy(proxy: EgressProxy | None) -> "httpx.Proxy | None":
    import httpx

    if proxy is None:
        return None
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    words = proxy.authorization.get_secret_value() if proxy.authorization else None
    return httpx.Proxy(
        f"http://{host}:{proxy.port}", headers={"Proxy-Authorization": words} if words else None
    )


def describe_failure(error: BaseException) -> str:
    """Return why there was no answer, in words that are not those of a library."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and len(chain) < 10:
        chain.append(one)
        one = one.__cause__ or one.__context__
    for cause in reversed(chain):
        if isinstance(cause, ssl.SSLCertVerificationError):
            about = "it is for another host" if cause.verify_code == _HOST_MISMATCH else cause.verify_message
            return f"its certificate can't be verified: {about}"
        if isinstance(cause, ssl.SSLError):
            return "the TLS handshake failed"
        if isinstance(cause, socket.gaierror):
            return "its host name can't be resolved"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()  # asyncio's own text has the address.
    if any("Timeout" in type(cause).__name__ for cause in chain):
        return NO_ANSWER
    return f"no answer ({type(error).__name__})"

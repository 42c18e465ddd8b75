"""Access tokens for Google's service accounts: minted once, kept until shortly before they expire, renewed ahead.

A call waits only where no token is there at all, and all that wait for one account wait for the same request. What
goes wrong is told without a word of the account's key. Source: RFC 6749, 5; RFC 7523, 2.1.
"""

import asyncio
import json
import logging
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode, urlsplit

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.runtime.deadline import within
from addon.settings.service_account import GRANT_TYPE, ServiceAccount, parse_service_account, sign_assertion
from addon.text.http1 import encode_request_head
from addon.text.masking import recordable
from addon.upstream.connection import UpstreamBroke, UpstreamConnection
from addon.upstream.pool import Origin, Pool, PoolFull, Unreachable
from policies.model import Attempt

log = logging.getLogger("tollgate.access_tokens")

TIMEOUT_S: Final = 10.0
"""How long one request for a token may take as a whole."""
PAUSE_S: Final = 2.0
"""How long an account whose request failed is not asked for again."""
RENEW_AHEAD_S: Final = 300.0
"""How long before its end a token is renewed, while calls go on with it."""
SPARE_S: Final = 30.0
"""How long before its end a token is no longer used: a call must arrive with it."""
MAX_ANSWER_BYTES: Final = 65_536


class AccessTokenUnavailable(Exception):  # noqa: N818  (named as the store's is)
    """No token can be had now. ``str`` says why, and bears no secret."""


@dataclass(slots=True)
class _Account:
    """What is known of one account. Moments are of the clock's monotonic time."""

    account: ServiceAccount
    token: SecretStr | None = None
    expires_at_s: float = 0.0
    rests_until_s: float = 0.0
    failure: str = ""
    last_renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def renewal(self) -> asyncio.Task[None] | None:
        """The request that is under way."""
        return self.last_renewal if self.last_renewal and not self.last_renewal.done() else None

    def has_token(self, now_s: float, spare_s: float) -> bool:
        return now_s < self.expires_at_s - spare_s


class AccessTokens:
    """The tokens of one process, asked for over connections of ``pool``."""

    def __init__(
        self,
        pool: Pool,
        *,
        timeout_s: float = TIMEOUT_S,
        pause_s: float = PAUSE_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._accounts: dict[str, _Account] = {}

    async def authorize(self, attempt: Attempt) -> Attempt:
        """Return the attempt with an access token for its ``secret`` where its provider wants one, else itself.

        Raises AccessTokenUnavailable.
        """
        if attempt.model.provider.auth != "google_service_account":
            return attempt
        known = self._known(attempt.secret.get_secret_value())
        if not known.has_token(self._now_s, RENEW_AHEAD_S):
            self._renew(known)
        if not known.has_token(self._now_s, SPARE_S):
            if known.renewal:
                # A client that leaves ends its own wait, and not that of the others.
                await asyncio.shield(known.renewal)
            if known.failure:
                raise AccessTokenUnavailable(known.failure)
        if known.token is None:
            raise AccessTokenUnavailable("no token was minted")
        return replace(attempt, secret=known.token)

    async def close(self) -> None:
        """Give up what is under way."""
        renewals = [known.renewal for known in self._accounts.values() if known.renewal]
        for renewal in renewals:
            renewal.cancel()
        await asyncio.gather(*renewals, return_exceptions=True)

    @property
    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    def _known(self, key_file: str) -> _Account:
        known = self._accounts.get(key_file)
        if known is None:
            # Keys that were replaced are forgotten with their tokens.
            self._accounts = {
                text: other
                for text, other in self._accounts.items()
                if other.renewal or other.has_token(self._now_s, 0)
            }
            known = self._accounts[key_file] = _Account(parse_service_account(key_file))
        return known

    def _renew(self, known: _Account) -> None:
        if known.renewal is None and self._now_s >= known.rests_until_s:
            known.last_renewal = asyncio.create_task(self._renewed(known))

    async def _renewed(self, known: _Account) -> None:
        asked_at_s = self._now_s
        try:
            async with within(self._timeout_s):
                token, life_s = await self._fetch(known.account)
            known.token, known.expires_at_s, known.failure = token, asked_at_s + life_s, ""
        except (AccessTokenUnavailable, UpstreamBroke, Unreachable, PoolFull, OSError) as error:
            known.failure = _why(error)
            known.rests_until_s = self._now_s + self._pause_s
            log.warning("no access token for %s: %s", known.account.client_email, known.failure)

    async def _fetch(self, account: ServiceAccount) -> tuple[SecretStr, float]:
        """Return a new token and how many seconds it lives."""
        assertion = sign_assertion(account, int(self._clock.now().timestamp()))
        form = urlencode({"grant_type": GRANT_TYPE, "assertion": assertion}).encode()
        origin, head = _request(account.token_uri, len(form))
        # A connection of its own: another would be idle for most of an hour.
        connection = await self._pool.acquire(origin, "", self._timeout_s, fresh=True)
        try:
            connection.send(head, form)
            status = (await connection.head()).status
            return _token(status, await _bounded_body(connection), assertion)
        finally:
            connection.close()


def _request(token_uri: str, length: int) -> tuple[Origin, bytes]:
    parts = urlsplit(token_uri)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = [
        ("host", parts.netloc),
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
        ("accept-encoding", "identity"),
        ("content-length", str(length)),
    ]
    head = encode_request_head("POST", target, fields)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return Origin("https", host, parts.port or 443), head
    return Origin("http", host, parts.port or 80), head


async def _bounded_body(connection: UpstreamConnection) -> bytes:
    body = bytearray()
    while piece := await connection.read():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise AccessTokenUnavailable("the token server's answer is too large")
    return bytes(body)


def _token(status: int, body: bytes, assertion: str) -> tuple[SecretStr, float]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    found = answer if isinstance(answer, dict) else {}
    if status != HTTPStatus.OK:
        stated = [found[name] for name in ("error", "error_description") if isinstance(found.get(name), str)]
        said = recordable(": ".join(stated), (assertion,))
        raise AccessTokenUnavailable(f"the token server answered with status {status}: {said or 'no reason'}")
    token, life_s = found.get("access_token"), found.get("expires_in")
    if not isinstance(token, str) or not token or not all("!" <= character <= "~" for character in token):
        raise AccessTokenUnavailable("the token server's answer holds no access token")
    is_number = isinstance(life_s, int | float) and not isinstance(life_s, bool)
    return SecretStr(token), float(life_s) if is_number and life_s else 0.0


def _why(error: Exception) -> str:
    """A library's own words may hold what was sent, so they are not repeated."""
    if isinstance(error, AccessTokenUnavailable):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the token server did not answer in time"
    return "the token server could not be reached"

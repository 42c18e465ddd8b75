"""``AccessTokens``: access tokens for Google's service accounts, shared by all calls and renewed before they expire.

A call waits only if there is no usable token. All calls that wait for one account wait for the same request. No error
contains a part of the account's key. Source: RFC 6749, 5; RFC 7523, 2.1.
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
from addon.text.http1_heads import encode_request_head
from addon.text.masking import recordable
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool import Pool, PoolFull
from policies.route import Target

log = logging.getLogger("tollgate.access_tokens")

TIMEOUT_S: Final = 10.0
"""How long one request for a token may take in total."""
PAUSE_S: Final = 2.0
"""How long no token is requested for an account after a request failed."""
RENEW_AHEAD_S: Final = 300.0
"""A token is renewed this long before it expires. Calls still use the old one."""
MIN_LIFE_S: Final = 30.0
"""A token is not used for less than this before it expires: the call must reach the provider in time."""
MAX_ANSWER_BYTES: Final = 65_536


class AccessTokenUnavailable(Exception):  # noqa: N818  (named like ``StoreUnavailable``)
    """There is no usable token now. ``str`` gives the reason, without a secret."""


@dataclass(slots=True)
class _AccountState:
    """The state of one account. Times are of the clock's monotonic time."""

    account: ServiceAccount
    token: SecretStr | None = None
    expires_at_s: float = 0.0
    paused_until_s: float = 0.0
    failure: str = ""
    last_renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def renewal(self) -> asyncio.Task[None] | None:
        """The request that runs now."""
        return self.last_renewal if self.last_renewal and not self.last_renewal.done() else None

    def has_token(self, now_s: float, min_life_s: float) -> bool:
        return now_s < self.expires_at_s - min_life_s


class AccessTokens:
    """The tokens of one process. They are requested over connections of ``pool``."""

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
        self._accounts: dict[str, _AccountState] = {}

    async def authorize(self, target: Target) -> Target:
        """Return the target with an access token as its ``secret`` if its provider requires one, else unchanged.

        Raise AccessTokenUnavailable.
        """
        if target.model.provider.auth != "google_service_account":
            return target
        state = self._state_of(target.secret.get_secret_value())
        if not state.has_token(self._now_s, RENEW_AHEAD_S):
            self._renew(state)
        if not state.has_token(self._now_s, MIN_LIFE_S):
            if state.renewal:
                # A client that leaves ends its own wait, but not the renewal that others wait for.
                await asyncio.shield(state.renewal)
            if state.failure:
                raise AccessTokenUnavailable(state.failure)
        if state.token is None:
            raise AccessTokenUnavailable("no token was minted")
        return replace(target, secret=state.token)

    async def close(self) -> None:
        """Cancel the requests that run now."""
        renewals = [state.renewal for state in self._accounts.values() if state.renewal]
        for renewal in renewals:
            renewal.cancel()
        await asyncio.gather(*renewals, return_exceptions=True)

    @property
    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    def _state_of(self, key_file: str) -> _AccountState:
        state = self._accounts.get(key_file)
        if state is None:
            # Forget keys that were replaced, with their tokens.
            self._accounts = {
                text: other
                for text, other in self._accounts.items()
                if other.renewal or other.has_token(self._now_s, 0)
            }
            state = self._accounts[key_file] = _AccountState(parse_service_account(key_file))
        return state

    def _renew(self, state: _AccountState) -> None:
        if state.renewal is None and self._now_s >= state.paused_until_s:
            state.last_renewal = asyncio.create_task(self._run_renewal(state))

    async def _run_renewal(self, state: _AccountState) -> None:
        requested_at_s = self._now_s
        try:
            async with within(self._timeout_s):
                token, life_s = await self._fetch(state.account)
            state.token, state.expires_at_s, state.failure = token, requested_at_s + life_s, ""
        except (AccessTokenUnavailable, UpstreamConnectionError, Unreachable, PoolFull, OSError) as error:
            state.failure = _reason(error)
            state.paused_until_s = self._now_s + self._pause_s
            log.warning("no access token for %s: %s", state.account.client_email, state.failure)

    async def _fetch(self, account: ServiceAccount) -> tuple[SecretStr, float]:
        """Return a new token and its life in seconds."""
        assertion = sign_assertion(account, int(self._clock.now().timestamp()))
        form = urlencode({"grant_type": GRANT_TYPE, "assertion": assertion}).encode()
        origin, head = _make_request(account.token_uri, len(form))
        # A kept connection would be idle for most of an hour.
        connection = await self._pool.acquire(origin, "", self._timeout_s, fresh=True)
        try:
            connection.send(head, form)
            status = (await connection.head()).status
            return _parse_token(status, await _read_bounded(connection), assertion)
        finally:
            connection.close()


def _make_request(token_uri: str, length: int) -> tuple[Origin, bytes]:
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


async def _read_bounded(connection: UpstreamConnection) -> bytes:
    body = bytearray()
    while piece := await connection.read():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise AccessTokenUnavailable("the token server's answer is too large")
    return bytes(body)


def _parse_token(status: int, body: bytes, assertion: str) -> tuple[SecretStr, float]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    found = answer if isinstance(answer, dict) else {}
    if status != HTTPStatus.OK:
        parts = [found[name] for name in ("error", "error_description") if isinstance(found.get(name), str)]
        reason = recordable(": ".join(parts), (assertion,))
        raise AccessTokenUnavailable(
            f"the token server answered with status {status}: {reason or 'no reason'}"
        )
    token, life_s = found.get("access_token"), found.get("expires_in")
    if not isinstance(token, str) or not token or not all("!" <= character <= "~" for character in token):
        raise AccessTokenUnavailable("the token server's answer holds no access token")
    is_number = isinstance(life_s, int | float) and not isinstance(life_s, bool)
    return SecretStr(token), float(life_s) if is_number and life_s else 0.0


def _reason(error: Exception) -> str:
    """Return the reason in our own words: a library's message may contain what was sent."""
    if isinstance(error, AccessTokenUnavailable):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the token server did not answer in time"
    return "the token server could not be reached"

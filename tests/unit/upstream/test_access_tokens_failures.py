"""Token servers that fail, and tokens that are not used: what calls see, and when the next try is made."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.service_accounts import key_file
from rig.token_server import TokenServer, bearer, let_others_run, target

from addon.upstream.access_tokens import MIN_LIFE_S, AccessTokens, AccessTokenUnavailable
from addon.upstream.pool import Pool

FAILURES: dict[str, tuple[int, dict[str, Any], str]] = {
    "an account that is refused": (
        400,
        {"error": "invalid_grant", "error_description": "Invalid JWT Signature."},
        "status 400: invalid_grant: Invalid JWT Signature.",
    ),
    "a server that fails": (503, {}, "status 503: no reason"),
    "no token": (200, {"id_token": "x"}, "holds no access token"),
    "a token that is no header": (200, {"access_token": "a\r\nx: y", "expires_in": 9}, "no access token"),
    "a redirect": (302, {"access_token": "a", "expires_in": 9}, "status 302"),
    "an endless answer": (200, {"access_token": "a" * 70_000, "expires_in": 9}, "too large"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failure_is_reported_and_tried_again(
    case: str, server: TokenServer, tokens: AccessTokens
) -> None:
    server.status, server.answer, message = FAILURES[case]
    secret = key_file(server.url)
    with pytest.raises(AccessTokenUnavailable, match=message):
        await tokens.authorize(target(secret))
    server.status, server.answer = 200, {"access_token": "good", "expires_in": 3599}
    assert bearer(await tokens.authorize(target(secret))) == "Bearer good"


async def test_no_error_and_no_log_line_shows_the_assertion(
    server: TokenServer, tokens: AccessTokens, caplog: pytest.LogCaptureFixture
) -> None:
    server.status = 400
    server.answer = {"error": "x", "error_description": "{assertion} of -----BEGIN PRIVATE KEY-----\nMIIE"}
    with caplog.at_level(logging.DEBUG), pytest.raises(AccessTokenUnavailable) as caught:
        await tokens.authorize(target(key_file(server.url)))
    assertion = server.asked[0]["assertion"]
    for text in (str(caught.value), caplog.text):
        assert assertion not in text
        assert "MIIE" not in text
        assert "***" in text


async def test_a_silent_server_fails_in_time(server: TokenServer, pool: Pool) -> None:
    server.may_answer.clear()
    tokens = AccessTokens(pool, timeout_s=0.05)
    with pytest.raises(AccessTokenUnavailable, match="did not answer in time"):
        await tokens.authorize(target(key_file(server.url)))
    await tokens.close()


async def test_a_failed_account_is_paused(server: TokenServer, pool: Pool) -> None:
    server.status = 503
    tokens = AccessTokens(pool, pause_s=3600)
    for _ in range(3):
        with pytest.raises(AccessTokenUnavailable, match="status 503"):
            await tokens.authorize(target(key_file(server.url)))
    assert len(server.asked) == 1
    await tokens.close()


async def test_a_token_that_is_still_good_outlives_a_failed_renewal(
    server: TokenServer, tokens: AccessTokens
) -> None:
    secret = key_file(server.url)
    server.answer["expires_in"] = 200
    await tokens.authorize(target(secret))
    server.status = 503
    async with asyncio.timeout(BOUND_S):
        while len(server.asked) < 4:
            assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
            await let_others_run()


async def test_the_error_of_an_absent_server_shows_nothing_of_the_key(tokens: AccessTokens) -> None:
    with pytest.raises(AccessTokenUnavailable, match="could not be reached"):
        await tokens.authorize(target(key_file("http://127.0.0.1:9/token")))


@dataclass
class SetClock:
    """A clock that a test sets."""

    time_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.time_s

    def now(self) -> datetime:
        return datetime.now(UTC)


async def test_a_token_that_lives_for_just_the_least_time_is_not_used(
    server: TokenServer, pool: Pool
) -> None:
    clock = SetClock()
    tokens, asking = AccessTokens(pool, clock=clock), target(key_file(server.url))
    server.answer["expires_in"] = 100
    assert bearer(await tokens.authorize(asking)) == "Bearer ya29.token-1"
    server.status = 503
    clock.time_s += 100 - MIN_LIFE_S
    with pytest.raises(AccessTokenUnavailable, match="status 503"):
        await tokens.authorize(asking)
    await tokens.close()


async def test_the_pause_of_a_failed_account_ends_on_time(server: TokenServer, pool: Pool) -> None:
    clock = SetClock()
    tokens, asking = AccessTokens(pool, pause_s=5, clock=clock), target(key_file(server.url))
    for after_s in (0, 4.9, 0.1):
        clock.time_s += after_s
        server.status = 503 if clock.time_s < 1005 else 200
        if server.status == 503:
            with pytest.raises(AccessTokenUnavailable, match="status 503"):
                await tokens.authorize(asking)
        else:
            assert bearer(await tokens.authorize(asking)) == "Bearer ya29.token-2"
    await tokens.close()

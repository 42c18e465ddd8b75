"""Access tokens of service accounts, with a token server on loopback that checks the signature."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.provider import Peer
from rig.provider import Provider as TokenProvider
from rig.service_accounts import EMAIL, key_file, rsa_key
from tornado.httputil import HTTPServerRequest

from addon.dialects.endpoint import auth_headers
from addon.runtime.local_http import LocalServer, send_answer
from addon.upstream.access_tokens import MAX_ANSWER_BYTES, MIN_LIFE_S, AccessTokens, AccessTokenUnavailable
from addon.upstream.connector import SocketConnector
from addon.upstream.pool import Pool
from policies.family import Family
from policies.model import Model, Provider
from policies.prices import Prices
from policies.route import Target

PRICES = Prices(1, 1, 1)


def target(secret: str, auth: Any = "google_service_account") -> Target:
    provider = Provider("VERTEX", "https://vertex.example/v1", "openai", (SecretStr(secret),), auth=auth)
    model = Model("slug", provider, "google/gemini", Family("plain"), PRICES, PRICES, 100, False, True)
    return Target(model, "payg", SecretStr(secret))


@dataclass
class TokenServer:
    """A token server that answers with ``status`` and ``answer`` when ``may_answer`` is set.

    In ``answer``, ``{n}`` is the number of the request and ``{assertion}`` is what was signed.
    """

    status: int = 200
    answer: dict[str, Any] = field(
        default_factory=lambda: {"access_token": "ya29.token-{n}", "expires_in": 3599}
    )
    asked: list[dict[str, Any]] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: HTTPServerRequest) -> None:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.asked.append(form)
        number = len(self.asked)
        self.was_asked.set()
        await self.may_answer.wait()
        text = json.dumps(self.answer).replace("{n}", str(number)).replace("{assertion}", form["assertion"])
        await send_answer(request, self.status, "application/json", text.encode())


@pytest.fixture
async def server() -> AsyncIterator[TokenServer]:
    made = TokenServer()
    made.may_answer.set()
    listening = LocalServer(made.handle, 65_536)
    made.url = f"http://127.0.0.1:{await listening.start('127.0.0.1', 0)}/token"
    yield made
    made.may_answer.set()
    await listening.stop()


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool(SocketConnector())
    yield made
    await made.close()


@pytest.fixture
async def tokens(pool: Pool) -> AsyncIterator[AccessTokens]:
    made = AccessTokens(pool, pause_s=0)
    yield made
    await made.close()


async def let_others_run() -> None:
    await asyncio.sleep(0)


def bearer(authorized: Target) -> str:
    return dict(auth_headers(authorized))["authorization"]


async def test_an_account_signs_for_its_token_and_the_token_goes_to_the_provider(
    server: TokenServer, tokens: AccessTokens
) -> None:
    authorized = await tokens.authorize(target(key_file(server.url)))
    assert bearer(authorized) == "Bearer ya29.token-1"
    assert authorized.secrets == ("ya29.token-1",)
    (form,) = server.asked
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    public_key = rsa_key().public_key()
    claims = jwt.decode(form["assertion"], public_key, algorithms=["RS256"], audience=server.url)
    assert (claims["iss"], claims["scope"]) == (EMAIL, "https://www.googleapis.com/auth/cloud-platform")
    assert claims["exp"] - claims["iat"] == 3600
    assert jwt.get_unverified_header(form["assertion"]) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}


@pytest.mark.usefixtures("trusted")
async def test_a_token_comes_over_tls(server_tls: ssl.SSLContext, tokens: AccessTokens) -> None:
    asked = []

    async def answer(peer: Peer) -> None:
        asked.append(await peer.request())
        body = b'{"access_token": "ya29.safe", "expires_in": 3599}'
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with TokenProvider(answer, server_tls) as server:
        url = f"https://localhost:{server.port}"
        authorized = await tokens.authorize(target(key_file(f"{url}/token?v=2")))
        assert bearer(await tokens.authorize(target(key_file(url)))) == "Bearer ya29.safe"
    assert bearer(authorized) == "Bearer ya29.safe"
    assert [request.split(b"\r\n")[0] for request in asked] == [
        b"POST /token?v=2 HTTP/1.1",
        b"POST / HTTP/1.1",
    ]


async def test_other_providers_targets_stay_the_same_object(tokens: AccessTokens) -> None:
    plain = target("sk-plain", auth="bearer")
    assert await tokens.authorize(plain) is plain


async def test_a_token_is_used_until_it_nears_its_end(server: TokenServer, tokens: AccessTokens) -> None:
    secret = key_file(server.url)
    for _ in range(3):
        assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    assert len(server.asked) == 1


async def test_calls_that_come_together_wait_for_one_request(
    server: TokenServer, tokens: AccessTokens
) -> None:
    server.may_answer.clear()
    secret = key_file(server.url)
    waiting = [asyncio.create_task(tokens.authorize(target(secret))) for _ in range(5)]
    await server.was_asked.wait()
    waiting[0].cancel()  # the client leaves
    server.may_answer.set()
    assert [bearer(made) for made in await asyncio.gather(*waiting[1:])] == ["Bearer ya29.token-1"] * 4
    assert len(server.asked) == 1


async def test_a_token_near_its_end_is_renewed_while_calls_go_on_with_it(
    server: TokenServer, tokens: AccessTokens
) -> None:
    secret = key_file(server.url)
    server.answer["expires_in"] = 200
    await tokens.authorize(target(secret))
    server.was_asked.clear()
    server.may_answer.clear()
    # The server is silent, so a call that waited for it would hang.
    for _ in range(3):
        assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    await server.was_asked.wait()
    server.may_answer.set()
    async with asyncio.timeout(BOUND_S):
        while bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1":
            await let_others_run()
    assert len(server.asked) >= 2


async def test_a_token_that_may_expire_before_it_arrives_is_not_used(
    server: TokenServer, tokens: AccessTokens
) -> None:
    secret = key_file(server.url)
    server.answer["expires_in"] = 20
    assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-2"


@pytest.mark.parametrize(("more_bytes", "fails"), [(0, False), (1, True)])
async def test_the_answer_of_a_token_server_has_a_bound(
    server: TokenServer, tokens: AccessTokens, more_bytes: int, fails: bool
) -> None:
    server.answer = {"access_token": "!~", "expires_in": 3599, "padding": ""}
    padding = MAX_ANSWER_BYTES - len(json.dumps(server.answer)) + more_bytes
    server.answer["padding"] = " " * padding
    asking = target(key_file(server.url))
    if fails:
        with pytest.raises(AccessTokenUnavailable, match="too large"):
            await tokens.authorize(asking)
    else:
        assert bearer(await tokens.authorize(asking)) == "Bearer !~"


@pytest.mark.parametrize("life", ["soon", None, True, [], -1])
async def test_a_token_without_a_life_is_used_once(
    server: TokenServer, tokens: AccessTokens, life: Any
) -> None:
    server.answer = {"access_token": "ya29.token-{n}", "expires_in": life}
    asking = target(key_file(server.url))
    assert [bearer(await tokens.authorize(asking)) for _ in range(2)] == [
        "Bearer ya29.token-1",
        "Bearer ya29.token-2",
    ]


async def test_each_account_has_a_token_of_its_own(server: TokenServer, tokens: AccessTokens) -> None:
    first = await tokens.authorize(target(key_file(server.url)))
    second = await tokens.authorize(target(key_file(server.url, private_key_id="key-2")))
    assert {bearer(first), bearer(second)} == {"Bearer ya29.token-1", "Bearer ya29.token-2"}


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


async def test_closing_cancels_running_renewals(server: TokenServer, pool: Pool) -> None:
    server.may_answer.clear()
    tokens = AccessTokens(pool)
    waiting = asyncio.create_task(tokens.authorize(target(key_file(server.url))))
    await server.was_asked.wait()
    await tokens.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_the_key_file_itself_is_never_sent() -> None:
    with pytest.raises(ValueError, match="a provider gets an access token"):
        auth_headers(target(key_file("https://oauth2.googleapis.com/token")))


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
